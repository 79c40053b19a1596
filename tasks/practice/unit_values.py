"""Values of unit settings as systemd 252 takes them: what it cannot read is as if it were not there."""

import signal
from collections.abc import Sequence

from tasks.practice.unitfile import INFINITY, parse_boolean, parse_span


def one_of(value: str, allowed: Sequence[str], default: str) -> str:
    return value if value in allowed else default


def boolean(value: str, default: bool) -> bool:
    try:
        return parse_boolean(value)
    except ValueError:
        return default


def span(value: str, default: int) -> int:
    try:
        return parse_span(value)
    except ValueError:
        return default


def timeout(value: str, default: int) -> int:
    """A timeout, where 0 means none."""
    return span(value, default) or INFINITY


def is_signal(text: str) -> bool:
    """Whether systemd takes a word for a signal: a number, or a name with or without SIG."""
    return text.isdigit() or f"SIG{text.removeprefix('SIG')}" in signal.Signals.__members__


def signal_number(text: str) -> int:
    if not is_signal(text):
        return signal.SIGTERM
    return int(text) if text.isdigit() else signal.Signals[f"SIG{text.removeprefix('SIG')}"]
