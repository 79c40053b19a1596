"""Lines made readable: colours removed, lengths bounded, secrets out."""

import re

from state.redaction import REDACTED, is_secret_name, redact

LONGEST_TEXT = 400
"""Characters of a line that a report repeats."""
LONGEST_LINE = 65_536
"""Characters of a line that signatures look at; arguments lines are read in full."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
_BAR_THEN_LINE = re.compile(rb"(?:it/s|s/it|B/s)[^\[\n]{0,40}\][^\[]{0,8}(?=\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


def without_ansi(line: bytes) -> bytes:
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def segments(line: bytes) -> list[bytes]:
    """The parts of a line that a terminal shows one after another: between carriage returns, behind a progress bar."""
    parts = line.split(b"\r") if b"\r" in line else [line]
    if b"/s]" not in line and b"s/it" not in line:
        return parts
    split: list[bytes] = []
    for part in parts:
        bar = _BAR_THEN_LINE.search(part)
        split.extend((part[: bar.end()], part[bar.end() :]) if bar else (part,))
    return split


def quote(text: str) -> str:
    """What a report repeats of a line: one line, bounded, without secrets."""
    clipped = " ".join(text[: LONGEST_TEXT * 4].split())
    shown = redact(clipped)
    return shown if len(shown) <= LONGEST_TEXT else shown[: LONGEST_TEXT - 1] + "…"


def without_secrets(values: object, name: str = "") -> object:
    """Arguments with the values of secret fields replaced, also in nested objects and in words of an argv."""
    if isinstance(values, dict):
        return {key: without_secrets(value, str(key)) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [without_secrets(value, name) for value in values]
    if isinstance(values, str) and values:
        return REDACTED if is_secret_name(name) else redact(values)
    return values
