"""The texts of a manifest that stand for something else: durations, percentages, PCI addresses, paths, endpoints.

Each function raises a `PydanticCustomError` whose text is one clause: what is wrong; what was expected.
"""

import math
import re
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from state.engines.registry import NAMES, part
from state.redaction import redact

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_UNITS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_TOO_LONG_S = 1e9
_PERCENT = re.compile(r"[+-]?\d+(?:\.\d+)?%")
_PCI = re.compile(r"(?:(?:0000)?([0-9a-f]{4}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_PATH = re.compile(r"(?:/[A-Za-z0-9._@+:,=-]+)+")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+")


def mistake(sentence: str) -> PydanticCustomError:
    """A validation error whose text is the sentence itself."""
    return PydanticCustomError("manifest", "{sentence}", {"sentence": sentence})


def check_engine(value: Any) -> str:
    """The name of an engine whose command line can be written."""
    rendered = [name for name in NAMES if part(name, "rendering", "RENDERING")]
    if value in rendered:
        return str(value)
    expected = " or ".join(f"`{name}`" for name in rendered)
    if value in NAMES:
        raise mistake(f"`{value}` can be inspected but not rolled out by this release; expected {expected}")
    raise mistake(f"{show(value)} is no engine that is known; expected {expected}")


def parse_duration(value: Any) -> float:
    """Seconds from `90s`, `10m`, `1h30m`, `250ms`, `2d`; a bare number is seconds, as with systemd."""
    seconds = value if type(value) in (int, float) else _spelled(value)
    if 0 <= seconds < _TOO_LONG_S:
        return float(seconds)
    raise mistake(f"{show(value)} is out of range; expected seconds from 0 up, below {_TOO_LONG_S:.0f}")


def _spelled(value: Any) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise mistake(f"{show(value)} is no duration; expected one such as 90s, 10m or 1h30m")
    return sum(float(n) * unit for n, unit in zip(match.groups(), _UNITS, strict=True) if n)


def parse_change(value: Any) -> float:
    """A change as a ratio from `+12%` (0.12) or `-5%` (-0.05); a float is taken as the ratio itself."""
    if isinstance(value, float):
        return value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return round(float(value[:-1]) / 100, 8)
    raise mistake(f"{show(value)} is no change in per cent; expected one such as +12% or -5%")


def parse_share(value: Any) -> float:
    """A share above 0 as a ratio from `95%` (0.95); a float is taken as the ratio itself."""
    ratio = value if isinstance(value, float) else None
    if isinstance(value, str) and re.fullmatch(r"\d+(?:\.\d+)?%", value):
        ratio = round(float(value[:-1]) / 100, 8)
    if ratio is not None and 0 < ratio <= 1:
        return ratio
    raise mistake(f"{show(value)} is no share in per cent; expected one such as 95%")


def parse_length(value: Any) -> float | str:
    """An accept length from 1 up, or a change such as `-5%`, which stays text."""
    return _bound(value, 1.0, "is no accept length; expected a number from 1 up, or a change such as -5%")


def parse_speed(value: Any) -> float | str:
    """Tokens a second above 0, or a change such as `+12%`, which stays text."""
    return _bound(
        value, 1e-6, "is no throughput; expected a change such as +12%, or a number of tokens a second above 0"
    )


def parse_latency(value: Any) -> float | str:
    """Seconds above 0 from a duration, or a change such as `+10%`, which stays text."""
    if not (isinstance(value, str) and _PERCENT.fullmatch(value)):
        value = parse_duration(value)
    return _bound(value, 1e-6, "is no latency; expected a change such as +10%, or a duration such as 800ms")


def _bound(value: Any, least: float, sentence: str) -> float | str:
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        if parse_change(value) <= -1:
            raise mistake(f"{show(value)} is a change to nothing; expected one above -100%")
        if value[0].isdigit():
            raise mistake(f"{show(value)} has no sign; expected +{value} or -{value}, which is a change")
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value < 1e9:
        return float(value)
    raise mistake(f"{show(value)} {sentence}")


def parse_pci_address(value: Any) -> str:
    """A PCI function as `dddd:bb:dd.f`, lower case; the domain may be left out or have nvidia-smi's eight digits."""
    match = _PCI.fullmatch(value.lower()) if isinstance(value, str) else None
    if match is None:
        raise mistake(f'{show(value)} is no PCI address; expected one such as "0000:01:00.0", in quotes')
    domain, bus, device, function = match.groups()
    return f"{domain or '0000'}:{bus}:{device}.{function}"


def parse_path(value: Any) -> str:
    """An absolute, normalised path of plain characters: it names one place, for systemd and for a shell alike."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise mistake(f"{show(value)} is no absolute path; expected one that begins with /")
    if {".", ".."} & set(value.split("/")):
        raise mistake(f"{show(value)} has `.` or `..` in it; expected a path without them")
    if not _PATH.fullmatch(value):
        raise mistake(
            f"{show(value)} is not written plainly; expected no doubled or trailing slash, and only letters, digits"
            " and . _ @ + : , = - in its names"
        )
    return value


def parse_secret_path(value: Any) -> str:
    """`parse_path` of a file that holds a secret: what is no path may be the secret itself, and is not shown."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise mistake("is no absolute path, and not shown, since it may be the secret; expected one that begins with /")
    return parse_path(value)


def parse_address(value: Any) -> str:
    """A host name or an IP address, without user and port."""
    if isinstance(value, str) and _HOST.fullmatch(value):
        return value
    raise mistake(f"{show(value)} is no host address; expected a name or an IP address, without user and port")


def parse_endpoint(value: Any) -> str:
    """An endpoint as `http://HOST:PORT`, without a trailing slash."""
    expected = "expected http://HOST:PORT, such as http://127.0.0.1:30000"
    if not isinstance(value, str) or not value.startswith("http://"):
        raise mistake(f"{show(value)} is no endpoint; {expected}")
    if endpoint_port(value) is None:
        raise mistake(f"{redact(show(value))} names no port; {expected}")
    parts = urlsplit(value)
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment or not parts.hostname:
        raise mistake(f"{redact(show(value))} holds more or less than a host and a port; {expected}")
    parse_address(parts.hostname)
    return value.rstrip("/")


def check_argument(value: Any) -> Any:
    """An engine argument: a scalar on one line, a list of one or more words, or a mapping that becomes JSON."""
    if isinstance(value, dict):
        return _check_object(value)
    if not isinstance(value, (list, tuple)):
        return _check_scalar(value)
    if not value:
        raise mistake("is an empty list; expected at least one word, or null to leave the argument out")
    for word in value:
        if word is None or isinstance(word, (bool, dict, list, tuple)):
            raise mistake(f"has {show(word)} in its list; expected numbers and text, the latter in quotes if need be")
        if isinstance(word, str) and word.startswith("-"):
            raise mistake(f"has {show(word)} in its list, which the engine would take for a flag; expected plain words")
        _check_scalar(word)
    return value


def _check_object(value: Any) -> Any:
    """What JSON can hold, with keys that are text, and no control character in any of it."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise mistake(f"has the key {show(key)} in a mapping; expected keys that are text")
            _check_scalar(key)
            _check_object(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_object(item)
    else:
        _check_scalar(value)
    return value


def check_limit(value: Any) -> Any:
    """A resource limit: a whole number, one with a suffix, a share, or `infinity`."""
    plain = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not re.fullmatch(r"infinity|\d+[KMGT%]?", plain):
        raise mistake(f"{show(value)} is no limit; expected a number, one such as 512G or 80%, or infinity")
    return value


def _check_scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise mistake(f"{show(value)} is no finite number; expected one")
    if isinstance(value, str) and not value.isprintable():
        raise mistake("has a line break or another control character in it; expected text on one line")
    return value


def endpoint_port(endpoint: Any) -> int | None:
    """The port that an endpoint names; None if it names none."""
    if not isinstance(endpoint, str):
        return None
    try:
        return urlsplit(endpoint).port or None
    except ValueError:
        return None


def show(value: Any) -> str:
    """A value as it is quoted in a sentence: YAML's spelling, in backticks, cut short."""
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case None:
            return "`null`"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
    text = str(value) if str(value).isprintable() else ascii(value)[1:-1]
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
