"""Lines made readable: colours removed, lengths bounded, secrets out."""

import re

from state.redaction import REDACTED, is_secret_name, redact

LONGEST_TEXT = 400
"""Characters of a line that a report repeats."""
LONGEST_LINE = 32_768
"""Bytes of a line that are looked at, arguments lines aside."""
LONGEST_ARGUMENTS = 131_072
"""Bytes of an arguments line that are looked at; the longest seen are about 19,000."""
_COUNT = 9999
"""A number under the name of a secret that may still be a count or an id of tokens."""
_FEW_PARTS = 64
_MOST_PARTS = 1000

_ANSI = re.compile(rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
_BAR_THEN_LINE = re.compile(rb"(?:it/s|s/it|B/s)[^\[\n]{0,40}\][^\[]{0,8}(?=\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


def without_ansi(line: bytes) -> bytes:
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def segments(line: bytes) -> list[bytes]:
    """The parts of a line that a terminal shows one after another: between carriage returns, behind a progress bar."""
    parts = _worth_reading(line.split(b"\r")) if b"\r" in line else [line]
    if b"/s]" not in line and b"s/it" not in line:
        return parts
    split: list[bytes] = []
    for part in parts:
        bar = _BAR_THEN_LINE.search(part, 0, LONGEST_LINE)
        split.extend((part[: bar.end()], part[bar.end() :]) if bar else (part,))
    return split


def _worth_reading(parts: list[bytes]) -> list[bytes]:
    """Of many parts those that are no progress bars, the first and the last ones; of very many the first and last."""
    if len(parts) <= _FEW_PARTS:
        return parts
    middle = [part for part in parts[1:-1] if len(part) > 8 and (b"%|" not in part or b"][20" in part)]
    parts = [parts[0], *middle, parts[-1]]
    return parts if len(parts) <= _MOST_PARTS else parts[: _MOST_PARTS // 2] + parts[-_MOST_PARTS // 2 :]


def clipped(words: bytes) -> bytes:
    """As much of a line as is looked at: `LONGEST_ARGUMENTS` bytes of an arguments line, `LONGEST_LINE` of others."""
    if len(words) <= LONGEST_LINE:
        return words
    arguments = any(mark in words[:4096] for mark in (b"args", b"config: "))
    return words[: LONGEST_ARGUMENTS if arguments else LONGEST_LINE]


def quote(text: str) -> str:
    """What a report repeats of a line: one line, bounded, without secrets."""
    clipped = " ".join(text[: LONGEST_TEXT * 4].split())
    shown = redact(clipped)
    return shown if len(shown) <= LONGEST_TEXT else shown[: LONGEST_TEXT - 1] + "…"


def without_secrets(values: object, name: str = "") -> object:
    """Arguments with the values of secret fields replaced, also in nested objects and in words of an argv."""
    if isinstance(values, dict):
        return {
            key: without_secrets(value, name if is_secret_name(name) else str(key)) for key, value in values.items()
        }
    if isinstance(values, list | tuple):
        return [without_secrets(value, name) for value in values]
    if isinstance(values, str) and values:
        return REDACTED if is_secret_name(name) else redact(values)
    if isinstance(values, int | float) and not isinstance(values, bool) and values > _COUNT and is_secret_name(name):
        return REDACTED
    return values
