"""Lines of Python servers whatever the engine: uvicorn, multiprocessing, torch's warnings, autotuners."""

import re
from collections.abc import Iterator

from state.inspection.events import Alive, Ended, Event, Failed, Noticed, StageEntered, StopAsked
from state.inspection.text import quote

_ACCESS = re.compile(r'"(?:GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH) (?P<path>[^ "?]+)[^"]*" (?P<status>\d{3})(?!\d)')
_GENERATING = re.compile(
    r"/(?:generate|v1/(?:chat/completions|completions|responses|messages|embeddings|rerank|score|audio/\w+)|completions?"
    r"|chat/completions|api/(?:generate|chat)|invocations|infill|rerank|score|classify|encode|embeddings?|inference\S*)/?$"
)
_SIMULATED = re.compile(
    r"SGLANG_SIMULATE_ACC_LEN['\"]?\s*(?:[=:]|\bis\b(?: set to)?|\bto\b)\s*['\"]?\+?(?!0+(?:\.0*)?(?!\d))\d"
)
_SIZE = re.compile(r"(?<![\w.])(?P<size>-\d+(?:\.\d+)?|\d{7,}(?:\.\d+)?) ?(?:GB|GiB|TiB)\b")
_AUTOTUNE = re.compile(r"autotun\w*|auto-tun\w*|\btactic\b|Ignoring this choice", re.IGNORECASE)
_OOM = re.compile(r"out of memory|OutOfMemory|\bOOM\b|out of resource", re.IGNORECASE)
_EXIT = re.compile(
    r"exit(?:ed)?(?: with)?[ _]?(?:code|status)[\s:=(]{1,3}(?P<code>-?\d+)|exited with code (?P<compose>\d+)"
    r"|Failed core proc\(s\): \{[^}]*?: (?P<core>-\d+)"
)
_SHELL_KILLED = re.compile(r"(?:\S+: line \d+: +\d+ )?Killed(?: {2,}\S.*| \(core dumped\))?\s*")
_WHAT = re.compile(r"\s+what\(\): +(?P<reason>\S.*)", re.DOTALL)
_TORCH_WARNING = re.compile(r"\[(?:rank\d+\]:\[)?[WI]\d{3,4} ")


def access(text: str, *, weak: bool) -> Iterator[Event]:
    """What one answered request says: that somebody is at work (`weak`: anybody), and whether the server failed it."""
    found = _ACCESS.search(text)
    if found is None:
        return
    yield Alive(weak=weak)
    status = int(found["status"])
    if (status >= 500 or status == 429) and _GENERATING.search(found["path"]):
        yield Noticed("request-errors", quote(text))


def uvicorn(text: str) -> Iterator[Event]:
    """Uvicorn's own words at start and stop. They do not prove an engine ready."""
    if text.startswith(("Application startup complete", "Uvicorn running on")):
        yield StageEntered("warm-up")
    elif text.rstrip(".") in ("Shutting down", "Shutting down FastAPI HTTP server"):
        yield StopAsked()


def autotune_oom(text: str) -> bool:
    """An autotuner tried a variant that did not fit; it takes another one."""
    return _AUTOTUNE.search(text) is not None and _OOM.search(text) is not None


def oddities(raw: bytes, text: str) -> Iterator[Event]:
    """Signs that any line may carry: simulated acceptance, sizes that cannot be."""
    if b"SGLANG_SIMULATE_ACC_LEN" in raw and _SIMULATED.search(text):
        yield Noticed("simulated-acceptance", quote(text))
    if (b"GB" in raw or b"GiB" in raw) and _SIZE.search(text):
        yield Noticed("impossible-value", quote(text))
    if b"resource_tracker" in raw and "leaked" in text:
        yield Ended("exited", quote(text))


def child_ended(text: str) -> Event | None:
    """How a child's exit code explains itself: -9 somebody killed it, -11 it crashed, anything else it just ended."""
    found = _EXIT.search(text)
    if found is None:
        return None
    return ended_with(int(found["code"] or found["compose"] or found["core"]), text)


def ended_with(code: int, text: str) -> Event:
    """`code` is an exit status or a negative signal number; 128 + n is signal n too."""
    signal = -code if code < 0 else code - 128 if code in (130, 134, 135, 137, 139, 143) else 0
    if signal in (2, 15) or code == 0:
        return Ended(None, quote(text))
    if signal == 9:
        return Ended("killed", quote(text))
    if signal in (7, 11):
        return Failed("segfault", quote(text))
    return Ended("exited", quote(text))


def shell_killed(text: str) -> bool:
    """A shell's own word that the program it ran was killed: `Killed`, `run.sh: line 3: 123 Killed python …`."""
    return _SHELL_KILLED.fullmatch(text) is not None


def cpp_reason(text: str) -> str | None:
    """What a C++ exception says that nobody caught: `  what():  CUDA error: …`."""
    found = _WHAT.match(text)
    return found["reason"] if found else None


def is_torch_warning(text: str) -> bool:
    return _TORCH_WARNING.match(text) is not None
