"""systemd's own words about a unit, the kernel's about memory, and compose's about a container.

systemd 241-257; unit lines begin with `NAME.service: ` in every journal format.
"""

import re
from collections.abc import Iterator

from state.inspection.events import Ended, Event, Failed, Noticed, PidSeen, StopAsked
from state.inspection.python_server import ended_with
from state.inspection.text import quote

_UNIT_LINE = re.compile(r"(?P<unit>[\w@.:\\-]+\.(?:service|scope)): (?P<text>.*)", re.DOTALL)
_JOB_LINE = re.compile(r"(?P<verb>Starting|Started|Stopping|Stopped|Failed to start) (?P<what>.*)", re.DOTALL)
_NAMED = re.compile(r"(\S+\.service)(?: - |\.*$)")
_VICTIM = re.compile(r"Kill(?:ed)? process \d+ \((?P<name>[^)]*)\)|\btask=(?P<task>[^,]*),pid=")
_LIKELY_VICTIMS = re.compile(
    r"python|sglang|sgl|vllm|engine|worker|sched|llama|^ray|torch|pt_main|nvcc|cicc|ptxas|fatbin|ninja|cc1|\+\+|gcc|clang"
    r"|cudafe|^ld$",
    re.IGNORECASE,
)
_EXITED = re.compile(
    r"(?:Main|Control) process exited, code=(?P<how>\w+), status=(?P<status>\d+)(?:/(?P<name>[\w-]+))?"
)
_LEFTOVER = re.compile(r"Found left-over process (\d+)|process (\d+)(?: \([^)]*\))? remains running after unit stopped")
_COUNTER = re.compile(r"Scheduled restart job, restart counter is at (\d+)")
_STEP = re.compile(
    r"Failed at step \w+ spawning|Failed to execute|Unable to locate executable|Failed to spawn"
    r"|Executable path is not absolute|Failed to load environment files|Failed to run 'start(?:-pre)?' task"
)
_STOP_TIMEOUT = re.compile(
    r"State '(?:stop|final)-\w+' timed out|(?:stop|final)-sig\w+ timed out|[Ss]topping timed out"
)
_KERNEL_OOM = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory): Killed process|oom-kill:|Out of memory: Kill process"
)
_COMPOSE_EXIT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*) exited with code (?P<code>\d+)\s*$")
HINTS = (b".service", b".scope")
"""One of them stands in every line of systemd's about a unit's processes."""
WORDS = (
    *HINTS,
    b"Started ",
    b"Starting ",
    b"Stopping",
    b"Stopped",
    b"exited with code",
    b"Killed process",
    b"Kill process",
    b"oom-kill",
)
"""One of them stands in every line of systemd, the kernel or compose that says something about a boot."""
LOOP = 3
"""The restart counter from which on restarts are a loop."""


def speaks_of_unit(text: str) -> str | None:
    """The unit that the line speaks of, if it is one of systemd's own lines about a unit's processes."""
    found = _UNIT_LINE.match(text)
    return found["unit"] if found else None


def read_job(text: str) -> tuple[str, str] | None:
    """The verb of a line about a job, and the unit, or its description where the line names no unit."""
    job = _JOB_LINE.match(text)
    if job is None:
        return None
    unit = _NAMED.match(job["what"])
    return job["verb"], unit[1] if unit else job["what"].rstrip(". ")


def starts_anew(text: str) -> bool:
    """Whether systemd says that it starts a service, or is about to."""
    return text.startswith(("Started ", "Starting ")) or _COUNTER.search(text) is not None


def read_systemd(text: str) -> Iterator[Event]:
    """What one of systemd's own lines says about a boot."""
    job = _JOB_LINE.match(text)
    if job:
        if job["verb"] == "Stopping":
            yield StopAsked()
        elif job["verb"] == "Stopped":
            yield Ended(None, quote(text))
        return
    unit = _UNIT_LINE.match(text)
    if unit:
        yield from _unit(unit["text"], text)


def _unit(words: str, text: str) -> Iterator[Event]:
    shown = quote(text)
    if counter := _COUNTER.search(words):
        if int(counter[1]) >= LOOP:
            yield Noticed("restart-loop", shown, opens=True)
    elif leftover := _LEFTOVER.search(words):
        yield PidSeen(int(leftover[1] or leftover[2]), main=False)
        yield Noticed("leftover-processes", shown)
    elif "killed by the OOM killer" in words or "Failed with result 'oom-kill'" in words:
        yield Failed("host-oom", shown)
    elif _STOP_TIMEOUT.search(words):
        yield Failed("stop-timeout", shown)
    elif _STEP.search(words):
        yield Failed("exec-failed", shown)
    elif "Start request repeated too quickly" in words or "start-limit-hit" in words:
        yield Failed("start-limit-hit", shown)
    elif "Watchdog timeout" in words or "Failed with result 'watchdog'" in words:
        yield Failed("watchdog-timeout", shown)
    elif exited := _EXITED.search(words):
        yield _process(exited, text)
    elif words.startswith(("Deactivated successfully", "Succeeded")):
        yield Ended(None, shown)
    elif words.startswith("Failed with result 'signal'"):
        yield Ended("killed", shown)
    elif words.startswith("Failed with result "):
        yield Ended("exited", shown)


def _process(found: re.Match[str], text: str) -> Event:
    status = int(found["status"])
    if found["how"] == "exited":
        if 200 <= status <= 245:
            return Failed("exec-failed", quote(text))
        return ended_with(status, text)
    return ended_with(-status, text)


def read_kernel_oom(text: str) -> Iterator[Event]:
    """The kernel's OOM killer, where kernel lines stand in the same journal and it took an engine or a compiler."""
    if _KERNEL_OOM.search(text):
        victim = _VICTIM.search(text)
        if victim is None or _LIKELY_VICTIMS.search(victim["name"] or victim["task"] or ""):
            yield Failed("host-oom", quote(text))


def read_compose(text: str) -> tuple[str, Event] | None:
    """`engine-1 exited with code 137`: the container and how it ended."""
    found = _COMPOSE_EXIT.fullmatch(text)
    return (found["name"], ended_with(int(found["code"]), text)) if found else None
