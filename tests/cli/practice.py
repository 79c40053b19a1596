"""A practice scene behind real SSH in a thread of its own, and the command line as a user has it."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from deployments.cli import main
from state.store import migrate
from tasks.practice.scene import UNIT, UNIT_FILE, USER, Scene, scene
from tests.practice.quick import quick

T = TypeVar("T")
LIMIT_S = 60.0
"""No command of these tests may take longer."""

PROGRAM = (sys.executable, "-c", "from deployments.cli import main; main()")
"""What the console script `interlock` runs."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


def interlock(*words: str, environment: Mapping[str, str]) -> Ran:
    """`interlock WORDS` in this process: the same `main`, without a new interpreter's start."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["interlock", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
    return Ran(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class HostFacts:
    """What a refusal must leave alone."""

    unit_file: bytes | None
    active: str
    main_pid: str
    drivers: tuple[str | None, ...]
    interlock_files: tuple[str, ...]


@dataclass
class Stage:
    """The scene, a data directory, and the settings that lead to both."""

    scene: Scene
    loop: asyncio.AbstractEventLoop
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the scene's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_S)

    def on_host(self, *words: str) -> str:
        async def run() -> str:
            return (await self.scene.serving.execute(("sudo", "-n", "--", *words), user=USER)).text

        return self.do(run())

    def facts(self) -> HostFacts:
        shown = dict(
            line.split("=", 1)
            for line in self.on_host("systemctl", "show", "--property=ActiveState,MainPID", "--", UNIT).splitlines()
        )

        async def read() -> tuple[bytes | None, tuple[str, ...]]:
            files = self.scene.serving.files
            below = Path(str(self.scene.serving.root)) / "var/lib/interlock"
            return (
                files.read(UNIT_FILE) if files.exists(UNIT_FILE) else None,
                tuple(sorted(str(path.relative_to(below)) for path in below.rglob("*"))),
            )

        unit_file, kept = self.do(read())
        drivers = tuple(f.driver for f in self.scene.hypervisor.pci.functions.values())
        return HostFacts(unit_file, shown["ActiveState"], shown["MainPID"], drivers, kept)

    def write_unit(self, content: bytes) -> None:
        """As an editor and a reload would."""

        async def write() -> None:
            self.scene.serving.files.put(UNIT_FILE, content)

        self.do(write())
        self.on_host("systemctl", "daemon-reload")

    def until_it_answers(self) -> None:
        self.do(self.scene.until_it_answers())

    def manifest(self, arguments: Mapping[str, Any] | None = None, name: str = "manifest.yaml", **changes: Any) -> str:
        path = self.directory / name
        path.write_text(self.scene.manifest(arguments, **changes), encoding="utf-8")
        return str(path)

    def interlock(self, *words: str, **settings: str) -> Ran:
        return interlock(*words, environment=self.settings | {f"INTERLOCK_{n.upper()}": v for n, v in settings.items()})

    def start(
        self, *words: str, environment: Mapping[str, str] | None = None, **settings: str
    ) -> "subprocess.Popen[str]":
        """`interlock WORDS` in a process of its own, to be watched, interrupted or killed."""
        given = self.settings | {f"INTERLOCK_{name.upper()}": value for name, value in settings.items()}
        return subprocess.Popen(
            [*PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "PYTHONUNBUFFERED": "1",
                **given,
                **(environment or {}),
            },
        )

    def forget(self) -> None:
        """An empty event store, with the present schema."""
        for path in self.directory.glob("interlock.db*"):
            path.unlink()
        asyncio.run(migrate.upgrade(f"sqlite:///{self.directory / 'interlock.db'}"))


def ended(process: "subprocess.Popen[str]") -> Ran:
    out, err = process.communicate(timeout=LIMIT_S)
    return Ran(process.returncode, out, err)


def read_until(process: "subprocess.Popen[str]", *words: str) -> str:
    """Standard output up to the first line that has one of `words`; the test's own limit is the only bound."""
    assert process.stdout is not None
    read = []
    with bounded(process):
        for line in process.stdout:
            read.append(line)
            if any(word in line for word in words):
                return "".join(read)
    raise AssertionError(f"none of {words} in:\n{''.join(read)}")


@contextmanager
def bounded(process: "subprocess.Popen[str]") -> Iterator[None]:
    """The process is killed when the block takes too long, so that no read from it waits for ever."""
    alarm = threading.Timer(LIMIT_S, process.kill)
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def end_of(process: "subprocess.Popen[str]", *signals: signal.Signals) -> Ran:
    """Send the signals and wait for the end."""
    for number in signals:
        process.send_signal(number)
    return ended(process)


@contextmanager
def stage(
    directory: Path,
    faults: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, Any] | None = None,
    **given: Any,
) -> Iterator[Stage]:
    """A scene whose service answers, reached over real SSH, with an empty event store. Its engine is quick, but for
    what `settings` says."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def do(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(LIMIT_S)

    async def answering() -> Scene:
        entered = await context.__aenter__()
        if given.get("started", True):
            await entered.until_it_answers()
        return entered

    context = scene(directory / "hosts", faults=faults, settings=quick(**(settings or {})), **given)
    try:
        made = do(answering())
        data = directory / "data"
        data.mkdir()
        environment = {
            "INTERLOCK_DATA_DIR": str(data),
            "INTERLOCK_DATABASE_URL": "",
            "INTERLOCK_SSH_KEY": str(made.key),
            "INTERLOCK_SSH_CONFIG": "",
        }
        ready = Stage(made, loop, data, environment)
        ready.forget()
        yield ready
    finally:
        do(context.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()
