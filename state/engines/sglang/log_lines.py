"""SGLang's log lines, 0.4.6 to 0.5.23: what each proves about a boot. Fields by name, never by position."""

import re
from collections.abc import Callable, Iterator, Sequence

from state.engines.sglang.adjustments import adjustments
from state.engines.sglang.arguments import read_arguments
from state.engines.sglang.decode import read_batch
from state.engines.sglang.failures import SIGNATURES
from state.engines.sglang.weights import read_weights
from state.inspection.events import (
    Adjusted,
    AlgorithmAsked,
    Banner,
    Ended,
    Event,
    Failed,
    Noticed,
    Ready,
    SpeculationBuilt,
    StageEntered,
    StopAsked,
)
from state.inspection.python_server import (
    access,
    autotune_oom,
    child_ended,
    cpp_reason,
    is_torch_warning,
    oddities,
    shell_killed,
    uvicorn,
)
from state.inspection.reading import Line, Located
from state.inspection.signatures import may_fail
from state.inspection.text import LONGEST_LINE, quote
from state.inspection.throughput import seconds_of
from state.inspection.tracebacks import HEADER, Cause, Context, Tracebacks

PREFIX = re.compile(
    r"\[(?P<clock>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.\d{1,6})?"
    r"(?P<ranks>(?: [A-Z_]{2,8}\d+)*)\] ?"
)
_LOGGER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:sglang[\w.]*|root|__main__):|(?:INFO|ERROR|WARNING|CRITICAL): +"
)
_CAPTURE = re.compile(r"Capture (?P<what>[\w\- ]*?)(?:\(step \d+\) )?(?:cuda|CUDA|npu|NPU|musa|cpu|CPU)[ _]graph")
_PER_REQUEST = re.compile(r"num_tokens_per_req=(\d+)")
_ASKED = re.compile(r"--speculative-algo(?:rithm)?[= ]+['\"]?([A-Za-z0-9_]+)")
_EXCEPTION = re.compile(r"(?:[\w]+\.)*\w+(?:Error|Exception)(?:: |$)")
_PROGRESS = re.compile(
    r"(?:Loading safetensors checkpoint|Multi-thread loading|Loading pt checkpoint|Loading \w+ checkpoint) shards"
)
_NO_WORKERS = re.compile(
    r"no (?:available|healthy) workers?|no workers? (?:are )?(?:available|healthy)|no (?:available"
    r"|healthy) \w+ workers?",
    re.IGNORECASE,
)
_FALLBACK = re.compile(
    r"[Ff]all(?:ing|s|en)? back (?:to|on).{0,60}(?:specul|static|non-spec|normal decod)"
    r"|specul\w+.{0,80}(?:fall(?:ing|s|en)? back|is disabled at runtime)"
)
_QUIET = ("Receive: obj=", "Finish: obj=", "Receive OpenAI:", "Ignore import error")
_KV = (
    "KV Cache is allocated",
    "Mamba Cache is allocated",
    "Memory pool end",
    "KV cache VA upper bound",
    "Post-capture KV sizing",
)
_DIED = ("scheduler is dead", "scheduler died", "crashed with exit code", "terminated with exit")
_SIGQUIT = ("Received sigquit from a child process", "SIGQUIT received", "kill_process_tree called")
_STOPPED = (
    "SIGTERM received",
    "SIGINT received",
    "Signal SIGTERM received",
    "Gracefully exiting",
    "KeyboardInterrupt",
    "Received SIGINT",
    "Received SIGTERM",
)
ROUTER_MARKS = (b"sglang_router", b"smg::", b"model_gateway", b"sgl_model_gateway")


class SglangLines:
    """Reads the lines of one source. Each handler is keyed by words that its lines must have."""

    def __init__(self) -> None:
        self._tracebacks = Tracebacks(SIGNATURES)
        self._handlers: tuple[tuple[bytes, Callable[[str, str], Iterator[Event]]], ...] = (
            (b"oad weight ", read_weights),
            (b"apture ", self._capture),
            (b"llocated", self._memory),
            (b"Memory pool end", self._memory),
            (b"KV sizing", self._memory),
            (b"upper bound", self._memory),
            (b" shards", self._progress),
            (b"Capturing batches", self._progress),
            (b"fired up and ready", self._ready),
            (b"pplication startup", self._uvicorn),
            (b"Uvicorn running", self._uvicorn),
            (b"Shutting down", self._uvicorn),
            (b"--speculative-algo", self._asked),
            (b"ack to", self._fallback),
            (b"etract", self._pressure),
            (b"Decode out of memory", self._pressure),
            (b"ealth check failed", self._health),
            (b"workers", self._no_workers),
            (b"launch_server.py", self._banner),
        )

    def read(self, line: Line) -> Sequence[Located]:
        raw, number = line.raw, line.number
        text = raw.decode("utf-8", "replace")
        found = PREFIX.match(text)
        ranks, time = "", line.time
        if found:
            ranks, time = found["ranks"].strip(), seconds_of(found["clock"].encode("ascii"))
            text = text[found.end() :]
        prefixed = found is not None
        if logger := _LOGGER.match(text):
            text, prefixed = text[logger.end() :], True
        located = self._traceback(text, number, prefixed=prefixed)
        if located is not None:
            return [*located, *((number, event) for event in oddities(raw, text[:LONGEST_LINE]))]
        before = [_located(cause) for cause in (self._ended,) if cause]
        if " batch" in text[:16] and (batch := read_batch(text, ranks, time, whole=line.whole)):
            return before + [(number, event) for event in batch]
        return before + [(number, event) for event in self._events(raw, text, ranks, own=found is not None)]

    @property
    def busy(self) -> bool:
        return self._tracebacks.is_open

    def pending(self) -> Sequence[Located]:
        cause = self._tracebacks.peek()
        return [_located(cause)] if cause else []

    _ended: Cause | None = None

    def _traceback(self, text: str, number: int, *, prefixed: bool) -> list[Located] | None:
        """The events of a line that belongs to a traceback; None if it does not; `_ended` is one just over."""
        self._ended = None
        context = _context(text)
        if context is not None:
            before = self._tracebacks.open(context, text, number)
            return [_located(before)] if before else []
        if not self._tracebacks.is_open:
            return None
        belongs, self._ended = self._tracebacks.take(text, number, prefixed=prefixed)
        return [] if belongs else None

    def _events(self, raw: bytes, text: str, ranks: str, *, own: bool) -> Iterator[Event]:
        if text.startswith(_QUIET):
            return
        text = text if len(text) < LONGEST_LINE else text[:LONGEST_LINE]
        if b"server_args=" in raw and (arguments := read_arguments(raw.decode("utf-8", "replace"))):
            yield arguments
            yield StageEntered("arguments")
            if not arguments.whole:
                yield Noticed("log-cut", "the arguments line is cut")
            yield from oddities(raw, text)
            return
        if b"HTTP/" in raw:
            yield from access(text, weak=not own)
        for needle, handler in self._handlers:
            if needle in raw:
                yield from handler(text, ranks)
        yield from oddities(raw, text)
        for code, at_start in adjustments(raw, text):
            yield Adjusted(code, quote(text), at_start)
        yield from self._troubles(raw, text)

    def _troubles(self, raw: bytes, text: str) -> Iterator[Event]:
        if (
            not may_fail(raw)
            and b"SIG" not in raw
            and b"Interrupt" not in raw
            and b"kill_process_tree" not in raw
            and b"exiting" not in raw
        ):
            return
        text = cpp_reason(text) or text
        if text[:1] in " \t" or is_torch_warning(text):
            return
        if autotune_oom(text):
            yield Noticed("autotune-oom", quote(text))
        elif text.startswith(_STOPPED) or text == "KeyboardInterrupt":
            yield StopAsked()
        elif text.startswith(_SIGQUIT):
            yield Ended("exited", quote(text))
        elif any(words in text for words in _DIED):
            yield child_ended(text) or Ended("exited", quote(text))
        elif shell_killed(text):
            yield Ended("killed", quote(text))
        elif "atchdog timeout" in text:
            if "soft=True" not in text:
                yield Failed("watchdog-timeout", quote(text))
        else:
            yield from _named(text)

    @staticmethod
    def _capture(text: str, ranks: str) -> Iterator[Event]:
        found = _CAPTURE.match(text)
        if found is None or "failed" in text:
            return
        yield StageEntered("graphs")
        tokens = _PER_REQUEST.search(text)
        if "target verify" in found["what"]:
            yield SpeculationBuilt(int(tokens[1]) if tokens else None)
        elif "draft" in found["what"]:
            yield SpeculationBuilt()

    @staticmethod
    def _memory(text: str, ranks: str) -> Iterator[Event]:
        if text.startswith(_KV):
            yield StageEntered("kv-cache")
        if "intermediate_ssm_state_cache" in text:
            yield SpeculationBuilt()

    @staticmethod
    def _progress(text: str, ranks: str) -> Iterator[Event]:
        if _PROGRESS.match(text):
            yield StageEntered("weights")
        elif text.startswith("Capturing batches"):
            yield StageEntered("graphs")

    @staticmethod
    def _ready(text: str, ranks: str) -> Iterator[Event]:
        if text.startswith("The server is fired up and ready to roll!"):
            yield Ready()

    @staticmethod
    def _uvicorn(text: str, ranks: str) -> Iterator[Event]:
        yield from uvicorn(text)

    @staticmethod
    def _asked(text: str, ranks: str) -> Iterator[Event]:
        found = _ASKED.search(text)
        if found and not text.lstrip().startswith(("[", "usage")) and "SPECULATIVE_" not in found[1]:
            yield AlgorithmAsked(found[1].upper())

    @staticmethod
    def _fallback(text: str, ranks: str) -> Iterator[Event]:
        if _FALLBACK.search(text):
            yield Noticed("speculation-fallback", quote(text))

    @staticmethod
    def _pressure(text: str, ranks: str) -> Iterator[Event]:
        if "Retract requests" in text or "Decode out of memory happened" in text or "retracted_reqs" in text:
            yield Noticed("retractions", quote(text))

    @staticmethod
    def _health(text: str, ranks: str) -> Iterator[Event]:
        if "Health check failed" in text and "detokenizer" in text:
            yield Noticed("health-check-failed", quote(text))

    @staticmethod
    def _no_workers(text: str, ranks: str) -> Iterator[Event]:
        if _NO_WORKERS.search(text):
            yield Noticed("no-workers", quote(text), opens=True)

    @staticmethod
    def _banner(text: str, ranks: str) -> Iterator[Event]:
        if "is still supported" in text and "UserWarning" in text:
            yield Banner()


def _named(text: str) -> Iterator[Event]:
    """The failure that the line names by itself."""
    code = SIGNATURES.match(text, exception=_EXCEPTION.match(text) is not None)
    if code:
        opens = (code == "bad-arguments" and "error: " in text) or "No module named" in text
        yield Failed(code, quote(text), opens=opens)


def _located(cause: Cause) -> Located:
    return cause.line, cause.event


def _context(text: str) -> Context | None:
    """The kind of traceback that the line opens, if it opens one."""
    if "hit an exception" in text and HEADER in text:
        return "scheduler"
    if text.startswith("Initialization failed. warmup error"):
        return "warm-up"
    if text.startswith("Exception in ASGI application") or "Error in preprocessing" in text:
        return "request"
    if HEADER in text and text[:1] not in " \t":
        return "plain" if text.startswith(HEADER) else "harmless" if "Ignore" in text else "plain"
    return None
