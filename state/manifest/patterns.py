"""Regular expressions from manifests: whether matching one can take time beyond all bounds."""

from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # Python's own parser; there is no public door to it
from typing import Any

MOST_WIDE = 4
"""Unbounded repetitions of many characters (`.*`, `\\w+`) in one pattern: each multiplies the ways to match."""

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
_UNBOUNDED_FROM = 64


def costly(pattern: str) -> bool:
    """Whether an unbounded repetition stands inside another one, or too many stand beside each other."""
    tree = list(_parser.parse(pattern))
    return _nested(tree, within=False) or sum(1 for _ in _wide(tree)) > MOST_WIDE


def _nested(tree: Any, *, within: bool) -> bool:
    for kind, value in tree:
        unbounded = kind in _REPEATS and value[1] > _UNBOUNDED_FROM
        if unbounded and within:
            return True
        if any(_nested(part, within=within or unbounded) for part in _parts(kind, value)):
            return True
    return False


def _wide(tree: Any) -> Iterator[Any]:
    for kind, value in tree:
        if kind in _REPEATS and value[1] > _UNBOUNDED_FROM and [k for k, _ in value[2]] != [_constants.LITERAL]:
            yield value
        for part in _parts(kind, value):
            yield from _wide(part)


def _parts(kind: Any, value: Any) -> Iterator[Any]:
    """The patterns within one node of the tree."""
    if kind in _REPEATS:
        yield value[2]
    elif kind is _constants.SUBPATTERN:
        yield value[3]
    elif kind is _constants.BRANCH:
        yield from value[1]
    elif kind in (_constants.ASSERT, _constants.ASSERT_NOT):
        yield value[1]
    elif kind is _constants.GROUPREF_EXISTS:
        yield from (part for part in value[1:] if part)
    elif kind in (_constants.ATOMIC_GROUP,):
        yield value
    elif kind is _constants.POSSESSIVE_REPEAT:
        yield value[2]
