"""The same words said to a simulated machine and to real systemd, and what both answer, made comparable."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tasks.argv import UNIT_PROPERTIES, journal_end
from tasks.hosts.port import Completed
from tasks.lab import container
from tasks.lab.record import LabHost
from tasks.practice.host import PracticeMachine
from tasks.properties import cursor_of

PROGRAM = """#!{python}
import os, signal, sys, time
if "--child" in sys.argv and os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.execvp("sleep", ["sleep", "120"])
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
print("<4>a warning", flush=True)
if "--exit" in sys.argv:
    sys.exit(int(sys.argv[sys.argv.index("--exit") + 1]))
time.sleep(120)
"""
PATH = "/opt/app/run"
UNIT = "app.service"
WANTS = "/etc/systemd/system/multi-user.target.wants"
Run = Callable[[Sequence[str]], Awaitable[Completed]]
_HIDDEN = ((r"\b[0-9a-f]{32}\b", "HASH"), (r"\b\d{1,7}\b(?= \()|PID=\d+|process \d+", "PID"))


_NAMES = re.compile(r"\bapp(?=[@.]|$)")


@dataclass(frozen=True)
class Machine:
    """`put` writes a file of the machine; `run` says words to it as root; `want` links UNIT as `enable` would."""

    run: Run
    put: Callable[[str, str, int], None]
    want: Callable[[], None]


@dataclass(frozen=True)
class Scene:
    """Files that there are, words that are said one after the other.

    `until:A=b` waits for a property of UNIT, `said:text` for a line of its journal; `append:PATH|text` adds to a file;
    `cursor` notes the journal's end, which `CURSOR` stands for in later words.
    `in_any_order`: a forked child and systemd write to the journal at the same time. `wanted`: UNIT is linked to a
    target, which keeps it loaded while it is down.
    """

    words: Sequence[str]
    files: Mapping[str, str] = field(default_factory=dict)
    in_any_order: bool = False
    wanted: bool = True


def unit(words: str = "", more: str = "", head: str = "") -> dict[str, str]:
    text = f"[Unit]\nDescription=App\n{head}[Service]\nExecStart={PATH} {words}".rstrip() + f"\n{more}"
    return {f"/etc/systemd/system/{UNIT}": text}


SHOWN = f"systemctl show --property={','.join(UNIT_PROPERTIES)} -- "
FILE = f"/etc/systemd/system/{UNIT}"
SAID = f"journalctl --no-pager --output=cat --unit={UNIT}"
BEGUN = (f"systemctl start {UNIT}", "said:a warning", f"{SHOWN}{UNIT}")
ENDED = (f"systemctl stop {UNIT}", f"{SHOWN}{UNIT}")


@asynccontextmanager
async def simulated(root: Path) -> AsyncIterator[Machine]:
    machine = PracticeMachine(root=root)

    async def run(words: Sequence[str]) -> Completed:
        return await machine.execute(words, user="root")

    def put(path: str, text: str, mode: int) -> None:
        machine.files.put(path, text, mode=mode)

    def want() -> None:
        machine.files.mkdir(WANTS, parents=True)
        machine.files.symlink(f"/etc/systemd/system/{UNIT}", f"{WANTS}/{UNIT}")

    put(PATH, PROGRAM.format(python=sys.executable), 0o755)
    try:
        yield Machine(run, put, want)
    finally:
        await machine.aclose()


def real(host: LabHost, name: str) -> Machine:
    """The host; what the scenes call `app` is called `name` there, so that it is no earlier scene's."""

    async def run(words: Sequence[str]) -> Completed:
        named = [_NAMES.sub(name, word) for word in words]
        if words[0] == "journalctl":
            await container.execute(host, ("journalctl", "--sync"))
        done = await container.execute(host, ("env", "LC_ALL=C", "SYSTEMD_COLORS=0", *named))
        plain = [text.replace(name.encode(), b"app") for text in (done.stdout, done.stderr)]
        return Completed(done.status, *plain)

    def put(path: str, text: str, mode: int) -> None:
        place = container.root(host) / _NAMES.sub(name, path).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def want() -> None:
        link = container.root(host) / WANTS.lstrip("/") / f"{name}.service"
        link.unlink(missing_ok=True)
        link.symlink_to(f"/etc/systemd/system/{name}.service")

    put(PATH, PROGRAM.format(python="/usr/bin/python3"), 0o755)
    return Machine(run, put, want)


async def cleared(host: LabHost) -> None:
    """Take away what a scene has left: a unit that systemd would otherwise load with the next one."""
    clear = "rm -rf /etc/systemd/system/app* /etc/systemd/system/multi-user.target.wants/app*; systemctl daemon-reload"
    await container.execute(host, ("sh", "-c", clear))


async def transcript(machine: Machine, scene: Scene) -> list[str]:
    """What the machine answers to each of the scene's words."""
    for path, text in scene.files.items():
        machine.put(path, text, 0o644)
    if scene.wanted and f"/etc/systemd/system/{UNIT}" in scene.files:
        machine.want()
    await machine.run(("systemctl", "daemon-reload"))
    answers, end = [], ""
    for words in (word.replace("CURSOR", end) for word in scene.words):
        if words.startswith("until:"):
            await _until(machine, words.removeprefix("until:"))
        elif words.startswith("said:"):
            await _said(machine, words.removeprefix("said:"))
        elif words == "cursor":
            end = cursor_of((await machine.run(journal_end().words)).text)
        elif words.startswith("append:"):
            path, _, text = words.removeprefix("append:").partition("|")
            machine.put(path, scene.files[path] + text, 0o644)
        else:
            told = _told(words.replace(end or "CURSOR", "CURSOR"), await machine.run(_split(words)))
            answers += [told[0], *sorted(told[1:])] if scene.in_any_order else told
    return answers


def _split(words: str) -> list[str]:
    head, sep, script = words.partition(" -c ")
    return [*head.split(), *(("-c", script) if sep else ())]


def _told(words: str, done: Completed) -> list[str]:
    shown = words if len(words) < 60 else f"{words[:57]}..."
    return [f"$ {shown} => {done.status}", *_lines(done.text), *(f"! {line}" for line in _lines(done.stderr.decode()))]


def _lines(text: str) -> list[str]:
    for pattern, shown in _HIDDEN:
        text = re.sub(pattern, shown, text)
    return text.splitlines()


async def _said(machine: Machine, text: str) -> None:
    async with asyncio.timeout(15):
        while True:
            journal = await machine.run(("journalctl", "--no-pager", "--output=cat", f"--unit={UNIT}"))
            if text in journal.text.splitlines():
                return
            await asyncio.sleep(0.1)


async def _until(machine: Machine, holds: str) -> None:
    name, _, value = holds.partition("=")
    async with asyncio.timeout(15):
        while True:
            shown = await machine.run(("systemctl", "show", f"--property={name}", "--", UNIT))
            if shown.text.strip() == f"{name}={value}":
                return
            await asyncio.sleep(0.1)
