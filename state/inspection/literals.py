"""Python literals as engines print them: `ServerArgs(a=1, b='x')`, `{'a': 1}`, `Namespace(...)`, whole or cut."""

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r"""(?P<string>[bru]?'(?:[^'\\]|\\.)*+'|[bru]?"(?:[^"\\]|\\.)*+")|(?P<open>[\[({])|(?P<close>[\])}])|(?P<comma>,)"""
    r"""|(?P<quote>['"])|(?P<other>[^'"\[\](){},]+)""",
    re.DOTALL,
)
_KEYWORD = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*", re.ASCII)
_INT = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_WORDS = {"None": None, "True": True, "False": False, "nan": None, "null": None, "true": True, "false": False}
LIMIT = 131_072
"""Characters of one arguments line that are read; the longest line seen is about 19,000."""


def read_pairs(text: str) -> tuple[dict[str, Any], bool]:
    """The pairs at the start of `text`, which begins behind `(` or with `{`, and whether the closing bracket was there.

    A pair is taken only if it is whole. Values that are no literals are kept as their text.
    """
    values: dict[str, Any] = {}
    as_dict = text.startswith("{")
    for item, whole in _items(text[1 if as_dict else 0 : LIMIT]):
        if not whole:
            return values, False
        if item is None:
            return values, True
        pair = _dict_pair(item) if as_dict else _keyword_pair(item)
        if pair is not None:
            values[pair[0]] = pair[1]
    return values, False


def read_bare_pairs(text: str) -> dict[str, Any]:
    """The pairs of `a=1, b='x'` up to the end of `text`, the last one included."""
    return read_pairs(text + ")")[0]


def _items(text: str) -> Iterator[tuple[str | None, bool]]:
    depth, start = 0, 0
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "open":
                depth += 1
            case "close" if depth == 0:
                if text[start : token.start()].strip():
                    yield text[start : token.start()], True
                yield None, True
                return
            case "close":
                depth -= 1
            case "comma" if depth == 0:
                yield text[start : token.start()], True
                start = token.end()
            case "quote":
                break
    yield text[start:], False


def _keyword_pair(item: str) -> tuple[str, Any] | None:
    found = _KEYWORD.match(item)
    return (found[1], value_of(item[found.end() :])) if found else None


def _dict_pair(item: str) -> tuple[str, Any] | None:
    name, colon, value = item.strip().partition(":")
    return (name.strip().strip("'\""), value_of(value)) if colon else None


def value_of(text: str) -> Any:
    """The literal, or the text where it is none."""
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if "(" in text and not text.startswith(("(", "[", "{", "'", '"')):
        return _called(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `1or` and `'\\d'` in a damaged line are nobody's code
            return _jsonable(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def _called(text: str) -> Any:
    """`SpeculativeConfig(method='mtp', num_spec_tokens=2)` as an object of its fields, anything else as its text."""
    name, _, rest = text.partition("(")
    pairs, whole = read_pairs(rest)
    return pairs if whole and pairs and name.replace(".", "").isidentifier() else text


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(name): _jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
