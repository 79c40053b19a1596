"""Splitting a unit's values into words exactly as systemd does, and naming the times it takes."""

import re
from collections.abc import Iterator, Mapping

_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_TIME = re.compile(
    r"(\d+(?:\.\d+)?)\s*(usec|us|µs|msec|ms|seconds?|sec|s|minutes?|min|months?|M|m|hours?|hr|h|days?|d|weeks?|w|years?|y)?"
)
_SECONDS = {
    "usec": 1e-6,
    "us": 1e-6,
    "µs": 1e-6,
    "msec": 1e-3,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "w": 604800.0,
    "week": 604800.0,
    "M": 2629800.0,
    "month": 2629800.0,
    "y": 31557600.0,
    "year": 31557600.0,
}


def split_words(text: str) -> list[str]:
    """Words with quotes removed and C escapes resolved; an unknown escape stays as it is written."""
    words: list[str] = []
    current: list[str] | None = None
    quote = ""
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            taken, size = _escape(text, index + 1)
            current = [*(current or []), taken]
            index += 1 + size
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                current = current or []
                current.append(char)
        elif char in "\"'":
            quote, current = char, current or []
        elif char in " \t\n\r":
            if current is not None:
                words.append("".join(current))
            current = None
        else:
            current = current or []
            current.append(char)
        index += 1
    return [*words, "".join(current)] if current is not None else words


def _escape(text: str, index: int) -> tuple[str, int]:
    char = text[index]
    if char in _ESCAPES:
        return _ESCAPES[char], 1
    found = _HEX.match(text, index)
    if found is None:
        return "\\" + char, 1
    digits = found[1] or found[2] or found[3]
    value = int(digits, 16) if digits else int(found[4], 8)
    return (chr(value) if 0 < value < 0x110000 else ""), found.end() - index


def specifiers(name: str | None) -> dict[str, str]:
    """Values of the specifiers that a unit's name alone decides; an instance is unknown in a template."""
    known = {"%": "%"}
    if name is None:
        return known
    prefix, at, rest = name.rpartition(".")[0].partition("@")
    if at and not rest:
        return {**known, "p": prefix, "P": prefix}
    return {**known, "n": name, "N": name.rpartition(".")[0], "p": prefix, "P": prefix, "i": rest, "I": rest}


def resolve_specifiers(text: str, known: Mapping[str, str]) -> str:
    """`%x` replaced where it is known, left as it is elsewhere."""
    return re.sub(r"%(.)", lambda found: known.get(found[1], found[0]), text)


def substitute(words: list[str], environment: Mapping[str, str]) -> Iterator[str]:
    """`$VAR` as a word of its own is split, `${VAR}` is not, `$$` is a dollar; what is unknown stays."""
    for word in words:
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", word)
        if alone and alone[1] in environment:
            yield from split_words(environment[alone[1]])
        else:
            yield re.sub(
                r"\$\$|\$\{([A-Za-z_]\w*)\}",
                lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0]),
                word,
            )


def seconds_of(text: str) -> float | str | None:
    """Seconds, the word `infinity`, or None where systemd would not take it."""
    if text.strip() == "infinity":
        return "infinity"
    total, end = 0.0, 0
    text = text.strip()
    for found in _TIME.finditer(text):
        if text[end : found.start()].strip():
            return None
        unit = found[2] or "s"
        total += float(found[1]) * _SECONDS[unit if unit in _SECONDS else unit.rstrip("s")]
        end = found.end()
    return total if end and not text[end:].strip() else None
