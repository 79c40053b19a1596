# lines of logs and their patterns are shown whole
"""llama-server's log lines (README at commit 00dc8057 and public logs of builds 4500 to 11000): what each proves.

Time stamps are elapsed (`1.12.930.414 I `). The port opens before the model is loaded, so only the line that says on
which URL the server is listening means ready. Acceptance is printed for each request.
"""

import re
from collections.abc import Iterator, Sequence

from state.engines.llamacpp.failures import SIGNATURES
from state.inspection.events import (
    Banner,
    Drafted,
    Event,
    Failed,
    Noticed,
    Ready,
    SpeculationBuilt,
    StageEntered,
    StopAsked,
    VersionSeen,
)
from state.inspection.reading import Line, Located
from state.inspection.report import Stage
from state.inspection.signatures import may_fail
from state.inspection.text import LONGEST_LINE, quote

_PREFIX = re.compile(
    r"(?:\d+\.\d\d\.\d{3}\.\d{3} )?(?:[IWED] )?(?:(?:srv|slot|main|que|cmn|spec)(?: +[\w()]*)?: +)?"
    r"(?:operator\(\): +)?"
)
ACCEPTANCE = re.compile(
    r"draft acceptance(?: rate)? = (?P<rate>\d+\.\d+) \( *(?P<accepted>\d+) accepted / *(?P<drafted>\d+) generated\)"
    r"(?:, mean len = +(?P<length>\d+\.\d+)(?=\D|$))?"
)
_BUILD = re.compile(r"build: (?P<build>\d+) \([0-9a-f]+\)")
_LISTENING = re.compile(r"(?<!HTTP )server is listening on https?://|listening on https?://")
"""`llama_server: listening on …` since about build 10500, `main: server is listening on …` before."""
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("loading model '", "weights"),
    ("loading draft model", "draft-weights"),
    ("creating MTP draft context", "draft-weights"),
    ("llama_kv_cache", "kv-cache"),
    ("warming up the model", "warm-up"),
)


class LlamaLines:
    """Reads the lines of one source; llama-server prints no tracebacks."""

    @property
    def busy(self) -> bool:
        return False

    def pending(self) -> Sequence[Located]:
        return ()

    def read(self, line: Line) -> Sequence[Located]:
        text = line.raw[:LONGEST_LINE].decode("utf-8", "replace")
        prefix = _PREFIX.match(text)
        return [(line.number, event) for event in _events(line, text[prefix.end() :] if prefix else text)]


def _events(line: Line, text: str) -> Iterator[Event]:
    if build := _BUILD.match(text):
        yield Banner()
        yield VersionSeen(f"b{build['build']}")
    if found := ACCEPTANCE.search(text):
        yield from _drafted(found, line)
    elif "statistics draft" in text:
        yield SpeculationBuilt()
    for words, stage in _STAGES:
        if words in text:
            yield StageEntered(stage)
    if "loading draft model" in text or "creating MTP draft context" in text:
        yield SpeculationBuilt()
    if _LISTENING.match(text):
        yield Ready()
    elif text.startswith(("cleaning up before exit", "received signal", "Received second interrupt")):
        yield StopAsked()
    if may_fail(line.raw) and (code := SIGNATURES.match(text, exception=False)):
        yield Failed(code, quote(text), opens=code == "bad-arguments")


def _drafted(found: re.Match[str], line: Line) -> Iterator[Event]:
    """One request's counts. A line that may have been cut shows them only if something follows."""
    accepted, drafted = int(found["accepted"]), int(found["drafted"])
    if accepted > drafted:
        yield Noticed("impossible-value", quote(found[0]))
        return
    length = found["length"] if line.whole else None
    yield Drafted(accepted, drafted, float(length) if length else None, accepted / drafted if drafted else None)
