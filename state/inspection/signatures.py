"""Failure signatures: stable fragments of what engines and their runtimes print when they cannot go on."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """`pattern` is looked for in one line without its prefix; `needle` must stand in every line that it matches.

    `exception` marks patterns that only mean a failure as the last line of a traceback.
    """

    code: str
    needle: str
    pattern: re.Pattern[str]
    exception: bool = False


def signature(code: str, needle: str, pattern: str = "", *, exception: bool = False) -> Signature:
    """A signature whose pattern is the needle itself where none is given."""
    return Signature(code, needle, re.compile(pattern or re.escape(needle)), exception)


ANCHORS = (
    b"rror", b"OOM", b"xception", b"emory", b"ailed", b"imeout", b"imed out", b"Killed", b"exit", b"Segfault",
    b"egmentation", b"SIGSEGV", b"died", b"dead", b"signal", b"ninja", b"nvcc", b"in use", b"used by a process",
    b"not available", b"not installed", b"version", b"Watchdog", b"watchdog", b"leak", b"illegal", b"closed by",
    b"reset by", b"No such", b"NCCL", b"nccl", b"argument", b"invalid", b"mismatch", b"Unsupported", b"unsupported",
    b"not supported", b"insufficient", b"stopped", b"unspecified", b"assert", b"FATAL", b"Cannot", b"cannot",
    b"Unable", b"couldn't", b"No space", b"denied", b"initialized", b"bind", b"ddress", b"ot found", b"divisible",
    b"apture", b"greater", b"ncompatible", b"ncorrect", b"Unknown", b"lder", b"eights", b"parameter named",
    b"vocab", b"GPUs", b"clients", b"nused", b"#tokens: -", b"=-", b"symbol", b"shared object", b"import",
    b"NotFound", b"KV cache", b"No module",
)  # fmt: skip
"""A line in which none of these stands carries no failure; checked by a test over composed failures of every code."""


def may_fail(line: bytes) -> bool:
    return has_any(line, ANCHORS)


def has_any(line: bytes, words: Sequence[bytes]) -> bool:
    """Whether one of the words stands in the line. A loop of substring searches is far faster than one alternation."""
    for word in words:  # noqa: SIM110 - a generator costs more than the searches
        if word in line:
            return True
    return False


class Signatures:
    """An ordered table; the first signature that matches names the failure."""

    def __init__(self, *tables: Iterable[Signature]) -> None:
        self.table = tuple(entry for table in tables for entry in table)

    def match(self, text: str, *, exception: bool) -> str | None:
        """The code of the first signature in `text`, which is the last line of a traceback if `exception`."""
        for entry in self.table:
            if entry.needle in text and (exception or not entry.exception) and entry.pattern.search(text):
                return entry.code
        return None
