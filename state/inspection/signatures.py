"""Failure signatures: stable fragments of what engines and their runtimes print when they cannot go on."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from state.inspection.text import LONGEST_LINE


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


_ANCHORS = re.compile(
    rb"rror|OOM|xception|emory|ailed|imeout|imed out|Killed|exit|Segfault|egmentation|SIGSEGV|died|dead"
    rb"|signal|ninja|nvcc|in use|used by a process|not available|not installed|version|[Ww]atchdog|leak"
    rb"|illegal|closed by|reset by|No such|NCCL|nccl|argument|invalid|mismatch|[Uu]nsupported|not supported"
    rb"|insufficient|stopped|unspecified|assert|FATAL|[Cc]annot|Unable|couldn't|No space|denied|initialized"
    rb"|bind|ddress|ot found|divisible|apture|greater|ncompatible|ncorrect|Unknown|lder|orkNCCL|eights"
    rb"|parameter named|vocab|GPUs|clients|nused|#tokens: -|=-|symbol|shared object|import|NotFound"
    rb"|KV cache"
)
"""A line in which none of these stands carries no failure; checked by a test over composed failures of every code."""


def may_fail(line: bytes) -> bool:
    return _ANCHORS.search(line, 0, LONGEST_LINE) is not None


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
