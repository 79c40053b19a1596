"""An engine's argv as arguments: flags without dashes, `-` as `_`, values int, float, true or string."""

import re
from collections.abc import Sequence
from typing import Any

_INT = re.compile(r"-?\d{1,18}", re.ASCII)
_FLOAT = re.compile(r"-?\d{1,18}\.\d{0,18}(?:[eE][+-]?\d{1,3})?|-?\d{1,18}[eE][+-]?\d{1,3}|-?\.\d{1,18}", re.ASCII)


def arguments_of(words: Sequence[str]) -> dict[str, Any]:
    """`--flag VALUE`, `--flag=VALUE`, `--flag`; several words make a list, the last of a repeated flag wins."""
    found: dict[str, Any] = {}
    name = ""
    values: list[Any] = []
    for word in words:
        if not is_flag(word):
            values.append(_value(word))
            continue
        _store(found, name, values)
        name, equals, value = word.partition("=")
        values = [_value(value)] if equals else []
    _store(found, name, values)
    return found


def is_flag(word: str) -> bool:
    return word.startswith("-") and not _INT.fullmatch(word) and not _FLOAT.fullmatch(word) and len(word) > 1


def _store(found: dict[str, Any], name: str, values: list[Any]) -> None:
    if name:
        found[name.lstrip("-").replace("-", "_")] = True if not values else values[0] if len(values) == 1 else values


def _value(word: str) -> Any:
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word
