"""Tracebacks as they stream by: which cause they name, once for each traceback, however it is wrapped."""

import re
from dataclasses import dataclass, field
from typing import Literal

from state.inspection.events import Failed, StopAsked
from state.inspection.signatures import Signatures
from state.inspection.text import LONGEST_LINE, quote

Context = Literal["scheduler", "warm-up", "request", "plain", "harmless"]

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Z_]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure|Invalid|Mismatch|NotFound|OutOfMemory)\w*"
    r"(?::| *$)|(?:[A-Za-z_]\w*\.)+[A-Z]\w*: |Exception: |AssertionError\b"
)
_CHAIN = ("During handling of the above", "The above exception was the direct cause")
_LOADING = re.compile(r"load_weights|weight_loader|load_model|weight_utils|model_loader|/loader\.py")
_RESOLVING = re.compile(
    r"server_args\.py|/arg_groups/|arg_utils\.py|speculative_hook|mamba_hook|prepare_server_args|/config/\w+\.py|create_engine_config|create_model_config"
)
_GROUP = re.compile(r"^[ +|]*\|\s?|^\s*\+[-+ ]*")
_HARMLESS = ("SystemExit", "asyncio.CancelledError", "asyncio.exceptions.CancelledError", "Warning")
_FOLLOWS = (
    "Engine core initialization failed",
    "EngineDeadError",
    "Engine process failed to start",
    "initialization failed due to",
)
_CHILD = re.compile(r"Failed core proc\(s\): \{[^}]*?: (-\d+)")
_ENDS = {"-9": "killed", "-11": "segfault", "-7": "segfault"}
HEADER = "Traceback (most recent call last)"


@dataclass(slots=True)
class _Block:
    context: Context
    line: int
    header: str = ""
    codes: list[tuple[str, str, int]] = field(default_factory=list)
    last: str = ""
    last_line: int = 0
    loading: bool = False
    resolving: bool = False
    in_frames: bool = True
    fallback: tuple[str, str, int] | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """What a traceback says, and the line on which it does: a failure, or that somebody interrupted the process."""

    event: Failed | StopAsked
    line: int


class Tracebacks:
    """Follows the tracebacks of one stream of lines. `take` is told each line without its prefixes."""

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures
        self._block: _Block | None = None

    @property
    def is_open(self) -> bool:
        return self._block is not None

    def open(self, context: Context, text: str, line: int) -> Cause | None:
        """A traceback begins; the cause of the one before it, if that was not told yet."""
        block = self._block
        if (
            block is not None
            and context == "plain"
            and (block.context == "request" or not (block.last or block.loading))
        ):
            block.in_frames = True
            return None
        before = self.close()
        self._block = _Block(context, line, text)
        return before

    def take(self, text: str, line: int, *, prefixed: bool) -> tuple[bool, Cause | None]:
        """Whether the line belongs to the open traceback, and the cause if the line ended it."""
        block = self._block
        if block is None:
            return False, None
        bare = _GROUP.sub("", text, count=1) if text[:4].lstrip()[:1] in ("|", "+") else text
        if HEADER in bare or bare.startswith(_CHAIN):
            block.in_frames = True
            return True, None
        if not bare.strip():
            return True, None
        if bare[0] in " \t":
            self._indented(block, bare, line)
            return True, None
        if _EXCEPTION.match(bare):
            self._exception(block, bare, line)
            return True, None
        if prefixed or not (block.in_frames or block.last):
            return False, self.close()
        self._name(block, bare, line, exception=False)
        return True, None

    def close(self) -> Cause | None:
        """The traceback is over: its cause, if it is one."""
        block, self._block = self._block, None
        return self._cause(block) if block is not None else None

    def peek(self) -> Cause | None:
        """The cause as far as it is known, without closing."""
        return self._cause(self._block) if self._block is not None else None

    def _indented(self, block: _Block, text: str, line: int) -> None:
        if not block.in_frames:
            self._name(block, text.strip(), line, exception=True)
            return
        block.loading = block.loading or _LOADING.search(text[:500]) is not None
        block.resolving = block.resolving or _RESOLVING.search(text[:500]) is not None

    def _exception(self, block: _Block, text: str, line: int) -> None:
        block.in_frames, block.last, block.last_line = False, text, line
        self._name(block, text, line, exception=True)
        code = self._by_frames(block, text)
        if code and block.fallback is None:
            block.fallback = (code, text, line)

    def _name(self, block: _Block, text: str, line: int, *, exception: bool) -> None:
        code = self._signatures.match(text[:LONGEST_LINE], exception=exception)
        if code and len(block.codes) < 8:
            block.codes.append((code, text, line))

    @staticmethod
    def _by_frames(block: _Block, text: str) -> str | None:
        if block.loading and text.startswith(("KeyError", "RuntimeError: The size of tensor", "RuntimeError: shape")):
            return "weights-mismatch"
        if block.loading and text.startswith("AssertionError"):
            return "weights-mismatch"
        if block.resolving and text.startswith(("AssertionError", "TypeError", "ValueError", "pydantic")):
            return "bad-arguments"
        if text.startswith("TypeError: '") and "'NoneType'" in text and block.context == "plain":
            return "bad-arguments"
        return None

    @staticmethod
    def _cause(block: _Block) -> Cause | None:
        if block.context in ("request", "harmless"):
            return None
        if block.context == "warm-up":
            return Cause(Failed("warm-up-failed", quote(block.last or block.header)), block.last_line or block.line)
        named = block.codes or ([block.fallback] if block.fallback else [])
        for preferred in ("graph-capture-failed", ""):
            for code, text, line in named:
                if preferred in ("", code):
                    return Cause(Failed(code, quote(text)), line)
        if any(words in block.last for words in _FOLLOWS):
            child = _CHILD.search(block.last)
            code = _ENDS.get(child[1], "exited") if child else "exited"
            return Cause(Failed(code, quote(block.last)), block.last_line)
        if block.context == "scheduler":
            return Cause(
                Failed("scheduler-exception", quote(block.last or block.header)), block.last_line or block.line
            )
        if block.last.startswith("KeyboardInterrupt"):
            return Cause(StopAsked(), block.last_line)
        if block.last and not block.last.startswith(_HARMLESS):
            return Cause(Failed("scheduler-exception", quote(block.last), soft=True), block.last_line)
        return None
