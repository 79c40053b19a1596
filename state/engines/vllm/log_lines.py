"""vLLM's log lines, V0 and V1: what each proves about a boot."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from state.engines.vllm.adjustments import ADJUSTMENTS
from state.engines.vllm.arguments import has_speculation, read_arguments
from state.engines.vllm.failures import SIGNATURES
from state.engines.vllm.metrics_lines import read_speculation, read_statistics
from state.inspection.events import (
    Adjusted,
    Banner,
    Ended,
    Event,
    Failed,
    Noticed,
    PidSeen,
    Ready,
    SpeculationBuilt,
    StageEntered,
    StopAsked,
    VersionSeen,
    WeightsLoaded,
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
from state.inspection.report import Stage
from state.inspection.signatures import may_fail
from state.inspection.text import LONGEST_LINE, quote
from state.inspection.tracebacks import HEADER, Cause, Context, Tracebacks

_TAG = re.compile(r"\((?P<name>[A-Za-z]\w*)(?P<rest>(?: \w+=\w+)*?) pid=(?P<pid>\d{1,10})\) ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?(?P<month>\d\d)-(?P<day>\d\d) "
    r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)? (?:\[?(?P<file>[\w./-]+:\d+)\] ?)?"
)
_UVICORN = re.compile(r"(?P<level>INFO|WARNING|ERROR|CRITICAL): {2,}")
_BANNER = re.compile(r"vLLM API server version:? v?(?P<version>\d+\.\d+\.(?:\d|dev)[\w.+-]*)?")
"""Three parts or none: a line that is cut in its version says another one."""
_ARCHITECTURE = re.compile(r"Resolved architecture: (\w+)")
_TOOK = re.compile(r"Model loading took (-?\d+(?:\.\d+)?) ?(?:GiB|GB)")
_RANK = re.compile(r"_((?:DP\d+_?)?(?:PP\d+_?)?(?:TP\d+)?(?:_?EP\d+)?)$")
_EXCEPTION = re.compile(r"(?:[\w]+\.)*\w+(?:Error|Exception)(?:: |$)")
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("Starting to load model", "weights"),
    ("Loading model from scratch", "weights"),
    ("Loading safetensors checkpoint shards", "weights"),
    ("Loading drafter model", "draft-weights"),
    ("GPU KV cache size:", "kv-cache"),
    ("Available KV cache memory:", "kv-cache"),
    ("# GPU blocks:", "kv-cache"),
    ("# cuda blocks:", "kv-cache"),
    ("Maximum concurrency for", "kv-cache"),
    ("Capturing CUDA graph", "graphs"),
    ("Capturing cudagraphs", "graphs"),
    ("Capturing the model for CUDA graphs", "graphs"),
    ("Graph capturing finished", "graphs"),
    ("init engine (profile", "warm-up"),
    ("Starting vLLM API server", "warm-up"),
    ("Started server process", "warm-up"),
    ("Waiting for application startup", "warm-up"),
)
_BUILT = ("Loading drafter model", "Detected MTP model", "Detected EAGLE", "Sharing target model embedding")
_CONTEXTS: tuple[tuple[str, Context], ...] = (
    ("EngineCore failed to start", "scheduler"),
    ("EngineCore encountered a fatal error", "scheduler"),
    ("EngineCore hit an exception", "scheduler"),
    ("WorkerProc hit an exception", "scheduler"),
    ("WorkerProc failed to start", "scheduler"),
    ("Exception in worker", "scheduler"),
    ("AsyncLLM output_handler failed", "scheduler"),
    ("Error in preprocessing prompt", "request"),
    ("Error in chat completion", "request"),
    ("Error in handling", "request"),
    ("Exception in ASGI application", "request"),
)
_REQUEST_ERRORS = ("Error in preprocessing prompt", "Error in chat completion")
_STOPPED = (
    "Shutting down FastAPI HTTP server",
    "SIGTERM received",
    "Received SIGTERM",
    "Received SIGINT",
    "KeyboardInterrupt",
)
_FOLLOWS = (
    "Engine core initialization failed",
    "died unexpectedly",
    "EngineDeadError",
    "Engine process failed to start",
    "Engine loop is not running",
)
_FALLBACK = re.compile(
    r"[Ss]pecul\w+.{0,100}(?:fall\w* back|disabled|not supported.{0,20}disabl)|[Ff]all\w* back.{0,60}specul"
)
_MOST_TAGS = 256
_MOST_NESTED = 4


class VllmLines:
    """Reads the lines of one source; tracebacks are followed for each process tag."""

    def __init__(self) -> None:
        self._tracebacks: dict[str, Tracebacks] = {}
        self._architecture: str | None = None

    def read(self, line: Line) -> Sequence[Located]:
        raw, number = line.raw, line.number
        text = raw.decode("utf-8", "replace")
        located: list[Located] = []
        name = ""
        while len(located) < _MOST_NESTED and (tag := _TAG.match(text)):
            located.append((number, PidSeen(int(tag["pid"]), tag["name"].startswith("APIServer"))))
            name, text = tag[0], text[tag.end() :]
        level = _LEVEL.match(text) or _UVICORN.match(text)
        time = _seconds(level) if level and "clock" in level.re.groupindex else line.time
        grave = level is None or level["level"] in ("ERROR", "CRITICAL")
        text = text[level.end() :] if level else text
        consumed, found = self._traceback(name, text, number, prefixed=level is not None)
        located += found
        events = () if consumed else self._events(raw, text[:LONGEST_LINE], name, time, grave=grave, whole=line.whole)
        located += [(number, event) for event in events]
        return located

    @property
    def busy(self) -> bool:
        return any(tracebacks.is_open for tracebacks in self._tracebacks.values())

    def pending(self) -> Sequence[Located]:
        causes = [tracebacks.peek() for tracebacks in self._tracebacks.values()]
        return [(cause.line, cause.event) for cause in causes if cause]

    def _traceback(self, tag: str, text: str, number: int, *, prefixed: bool) -> tuple[bool, list[Located]]:
        context = _context(text)
        tracebacks = self._tracebacks.get(tag)
        if tracebacks is None:
            if context is None:
                return False, []
            if len(self._tracebacks) >= _MOST_TAGS:
                self._tracebacks.pop(next(iter(self._tracebacks)))
            tracebacks = self._tracebacks[tag] = Tracebacks(SIGNATURES)
        cause: Cause | None
        if context is not None:
            cause = tracebacks.open(context, text, number)
            located: list[Located] = [(cause.line, cause.event)] if cause else []
            if text.startswith(_REQUEST_ERRORS):
                located.append((number, Noticed("request-errors", quote(text))))
            return True, located
        belongs, cause = tracebacks.take(text, number, prefixed=prefixed)
        return belongs, [(cause.line, cause.event)] if cause else []

    def _events(
        self, raw: bytes, text: str, tag: str, time: float | None, *, grave: bool, whole: bool
    ) -> Iterator[Event]:
        if "SpecDecoding metrics:" in text or "Speculative metrics:" in text:
            yield from read_speculation(text, whole=whole)
        elif "Avg generation throughput:" in text:
            yield from read_statistics(text, time)
        elif b"config: " in raw or b"args: " in raw:
            yield from self._arguments(raw, text)
        elif b"HTTP/" in raw:
            yield from access(text, weak=not tag)
        else:
            yield from self._words(raw, text, tag)
        yield from oddities(raw, text)
        if may_fail(raw):
            said = cpp_reason(text) or text
            if said[:1] not in " \t" and not is_torch_warning(said):
                yield from _troubles(said, grave=grave)

    def _arguments(self, raw: bytes, text: str) -> Iterator[Event]:
        found = read_arguments(raw.decode("utf-8", "replace"))
        if found is None:
            return
        arguments, version = found
        yield arguments
        yield StageEntered("arguments")
        if version:
            yield VersionSeen(version)
        if has_speculation(arguments.values):
            yield SpeculationBuilt()
        if not arguments.whole:
            yield Noticed("log-cut", "the arguments line is cut")

    def _words(self, raw: bytes, text: str, tag: str) -> Iterator[Event]:
        if banner := _BANNER.search(text):
            self._architecture = None
            yield Banner()
            if banner["version"]:
                yield VersionSeen(banner["version"])
            return
        if architecture := _ARCHITECTURE.search(text):
            self._architecture = self._architecture or architecture[1]
        if took := _TOOK.match(text):
            yield from self._loaded(took[1], tag)
        for words, stage in _STAGES:
            if text.startswith(words):
                yield StageEntered(stage)
        if text.startswith(_BUILT):
            yield SpeculationBuilt()
        if text.startswith("Application startup complete"):
            yield Ready()
        elif text.startswith(_STOPPED):
            yield StopAsked()
        else:
            yield from uvicorn(text)
        if "preempted by" in text or "is preempted" in text or "Preemption" in text[:60]:
            yield Noticed("retractions", quote(text))
        yield from _changes(raw, text)

    def _loaded(self, size: str, tag: str) -> Iterator[Event]:
        yield StageEntered("weights")
        found = _RANK.search(tag.partition(" ")[0].lstrip("("))
        if self._architecture is not None:
            gb = float(size) if not size.startswith("-") and float(size) < 1e6 else None
            yield WeightsLoaded(self._architecture, found[1].replace("_", " ") if found else "", gb, draft=False)


def _troubles(text: str, *, grave: bool) -> Iterator[Event]:
    if autotune_oom(text):
        yield Noticed("autotune-oom", quote(text))
    elif shell_killed(text):
        yield Ended("killed", quote(text))
    elif any(words in text for words in _FOLLOWS):
        yield child_ended(text) or Ended("exited", quote(text))
    elif grave:
        code = SIGNATURES.match(text, exception=_EXCEPTION.match(text) is not None)
        if code:
            yield Failed(code, quote(text), opens=code == "bad-arguments" and "error: " in text)


def _changes(raw: bytes, text: str) -> Iterator[Event]:
    if any(
        part in raw
        for part in (b"eprecat", b"removed", b"isabl", b"not supported", b"djust", b"et", b"back", b"verrid")
    ):
        for code, pattern in ADJUSTMENTS:
            if pattern.search(text):
                yield Adjusted(code, quote(text), at_start=False)
        if _FALLBACK.search(text):
            yield Noticed("speculation-fallback", quote(text))


def _context(text: str) -> Context | None:
    for words, context in _CONTEXTS:
        if text.startswith(words):
            return context
    return "plain" if text.startswith(HEADER) else None


def _seconds(level: re.Match[str]) -> float:
    """The line's clock; there is no year, so only differences mean anything."""
    hours, minutes, seconds = level["clock"].split(":")
    try:
        day = datetime(2000, int(level["month"]), int(level["day"]), tzinfo=UTC).toordinal()
    except ValueError:
        day = 0
    return day * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
