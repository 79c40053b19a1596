"""systemd's unit file syntax: sections, continuation lines, quoting, specifiers, time spans (systemd 252)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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
_SPAN_UNITS = {
    "": 1_000_000, "us": 1, "usec": 1, "µs": 1, "ms": 1_000, "msec": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000, "seconds": 1_000_000,
    "m": 60_000_000, "min": 60_000_000, "minute": 60_000_000, "minutes": 60_000_000,
    "h": 3_600_000_000, "hr": 3_600_000_000, "hour": 3_600_000_000, "hours": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000, "days": 86_400_000_000,
    "w": 604_800_000_000, "week": 604_800_000_000, "weeks": 604_800_000_000,
}  # fmt: skip
_SHOWN_UNITS = (
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)
INFINITY = 2**64 - 1
_WHITE = " \t\n\r"
_MINUTE = 60_000_000


@dataclass(slots=True)
class UnitText:
    """Assignments by (section, key), in order; an empty assignment resets its list. `problems` are (line, words)."""

    values: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    lines: list[tuple[int, str, str, str]] = field(default_factory=list)
    broken: bool = False

    def all(self, section: str, key: str) -> list[str]:
        return self.values.get((section, key), [])

    def last(self, section: str, key: str, default: str = "") -> str:
        values = self.all(section, key)
        return values[-1] if values else default


def read_unit_text(text: str, into: UnitText | None = None) -> UnitText:
    """Parse a fragment or, with `into`, a drop-in on top of it."""
    unit, section = into or UnitText(), ""
    for number, line in _logical_lines(text):
        if line.startswith("["):
            if not line.endswith("]"):
                unit.problems.append((number, f"Invalid section header '{line}'"))
                unit.broken = True
                return unit
            section = line[1:-1]
            continue
        key, sep, value = line.partition("=")
        if not section:
            unit.problems.append((number, "Assignment outside of section. Ignoring."))
        elif not sep:
            unit.problems.append((number, "Missing '=', ignoring line."))
        else:
            _assign(unit, number, section, key.strip(_WHITE), value.strip(_WHITE))
    return unit


def _assign(unit: UnitText, number: int, section: str, key: str, value: str) -> None:
    unit.lines.append((number, section, key, value))
    if value:
        unit.values.setdefault((section, key), []).append(value)
    else:
        unit.values[section, key] = []


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    held = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(_WHITE) if not held else raw.rstrip(_WHITE)
        if line.lstrip(_WHITE).startswith(("#", ";")) or (not held and not line):
            continue
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        lines.append((number, (held + line).strip(_WHITE)))
        held = ""
    return [*lines, (0, held.strip())] if held.strip() else lines


def split_words(text: str) -> list[str]:
    """Words as systemd splits them, with quotes and C escapes; ValueError for an open quote or a bad escape."""
    words, word, quote, started, i = [], "", "", False, 0
    while i < len(text):
        char = text[i]
        if char == "\\":
            piece, i = _escape(text, i)
            word, started = word + piece, True
            continue
        if quote:
            quote = "" if char == quote else quote
            word += "" if not quote else char
        elif char in "'\"":
            quote, started = char, True
        elif char in _WHITE:
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + char, True
        i += 1
    if quote:
        raise ValueError("unbalanced quoting")
    return [*words, word] if started else words


def _escape(text: str, i: int) -> tuple[str, int]:
    code = text[i + 1 : i + 2]
    if code in _ESCAPES and code:
        return _ESCAPES[code], i + 2
    for pattern, base in (
        (r"x([0-9a-fA-F]{2})", 16),
        (r"u([0-9a-fA-F]{4})", 16),
        (r"U([0-9a-fA-F]{8})", 16),
        (r"([0-7]{3})", 8),
    ):
        if match := re.compile(pattern).match(text, i + 1):
            return chr(int(match[1], base)), match.end()
    raise ValueError("bad escape")


def expand_specifiers(
    text: str, name: str, *, hostname: str, machine_id: str = "0" * 32, boot_id: str = "0" * 32
) -> str:
    """`%n`, `%i` and their kin; an unknown specifier stays as it is."""
    if "%" not in text:
        return text
    full, stem = name, name.rpartition(".")[0]
    prefix, at, instance = stem.partition("@")
    table = {
        "%": "%", "n": full, "N": stem, "p": prefix, "i": instance if at else "", "I": instance.replace("-", "/"),
        "H": hostname, "l": hostname.partition(".")[0], "m": machine_id, "b": boot_id, "t": "/run", "S": "/var/lib",
        "C": "/var/cache", "L": "/var/log", "E": "/etc", "T": "/tmp", "V": "/var/tmp", "h": "/root", "u": "root",
        "U": "0", "s": "/bin/sh",
    }  # fmt: skip
    return re.sub(r"%(.)", lambda m: table.get(m[1], m[0]), text)


def expand_variables(words: list[str], env: Mapping[str, str]) -> list[str]:
    """`$NAME` as a word of its own becomes several words, `${NAME}` inside a word one; `$$` is a dollar sign."""
    done: list[str] = []
    for word in words:
        whole = re.fullmatch(r"\$([A-Za-z_][A-Za-z0-9_]*)", word)
        if whole:
            done += env.get(whole[1], "").split()
        else:
            done.append(
                re.sub(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda m: env.get(m[1], "") if m[1] else "$", word)
            )
    return done


def parse_span(text: str) -> int:
    """A time span in microseconds; ValueError if it is none."""
    if text.strip() == "infinity":
        return INFINITY
    total, rest = 0.0, text.strip()
    if not rest:
        raise ValueError(text)
    while rest:
        match = re.match(r"(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", rest)
        if not match or match[2] not in _SPAN_UNITS:
            raise ValueError(text)
        total += float(match[1]) * _SPAN_UNITS[match[2]]
        rest = rest[match.end() :]
    return round(total)


def format_span(microseconds: int) -> str:
    """A time span as `systemctl show` prints it: `1min 30s`."""
    if microseconds >= INFINITY:
        return "infinity"
    parts: list[str] = []
    for unit, size in _SHOWN_UNITS:
        if microseconds < size:
            continue
        whole, rest = divmod(microseconds, size)
        if rest and microseconds < _MINUTE:
            digits = len(str(size)) - 1
            return " ".join([*parts, f"{whole}.{rest:0{digits}d}{unit}"])
        parts.append(f"{whole}{unit}")
        microseconds = rest
    return " ".join(parts) or "0"


def parse_boolean(text: str) -> bool:
    """ValueError for anything but systemd's words for yes and no."""
    word = text.lower()
    if word in ("1", "yes", "y", "true", "t", "on"):
        return True
    if word in ("0", "no", "n", "false", "f", "off"):
        return False
    raise ValueError(text)
