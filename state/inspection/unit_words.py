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
    return [word for _, word, _ in _words(text)]


def split_commands(text: str) -> list[list[str]]:
    """The words of each command: a bare `;` separates them, `\\;` is a semicolon.

    A command whose quotes are not balanced is left out with all that follows, as systemd ignores it.
    """
    commands: list[list[str]] = [[]]
    for raw, word, closed in _words(text):
        if not closed:
            return [*commands[:-1]]
        if raw == ";":
            commands.append([])
        else:
            commands[-1].append(";" if raw == "\\;" and commands[-1] else word)
    return [command for command in commands if command]


def balanced_words(text: str) -> list[str]:
    """The words up to one whose quotes are not closed, which systemd ignores."""
    return [word for _, word, closed in _words(text) if closed]


def is_balanced(text: str) -> bool:
    """Whether every quote in the text is closed."""
    return all(closed for _, _, closed in _words(text))


def _words(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each word as it is written, as it is read, and whether its quotes were closed."""
    current: list[str] | None = None
    quote = ""
    start = index = 0
    while index < len(text):
        char = text[index]
        size = 1
        if current is None and char not in " \t\n\r":
            current, start = [], index
        if char == "\\" and index + 1 < len(text):
            taken, more = _escape(text, index + 1)
            current = [*(current or []), taken]
            size += more
        elif quote:
            if char != quote:
                current = [*(current or []), char]
            else:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in " \t\n\r":
            if current is not None:
                yield text[start:index], "".join(current), True
            current = None
        elif current is not None:
            current.append(char)
        index += size
    if current is not None:
        yield text[start:], "".join(current), not quote


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
    prefix, at, instance = name.rpartition(".")[0].partition("@")
    last = prefix.rpartition("-")[2]
    known.update({"p": prefix, "P": _unescaped(prefix), "j": last, "J": _unescaped(last)})
    if at and not instance:
        return known
    path = "/" + _unescaped(instance if at else prefix).lstrip("/")
    full = name.rpartition(".")[0]
    return {**known, "n": name, "N": full, "i": instance, "I": _unescaped(instance), "f": path}


def _unescaped(text: str) -> str:
    """A piece of a unit's name with its escapes resolved: `-` is a slash, `\\x2d` a character."""
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text.replace("-", "/"))


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
