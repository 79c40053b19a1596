"""The stand-in inside an event loop: the same engine for a practice machine in memory, on asyncio time only."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import httpx

from tasks.practice.engine.endpoints import handle
from tasks.practice.engine.engine import Engine
from tasks.practice.engine.entry import prepare_start, version_text
from tasks.practice.engine.faults import FaultsInvalid
from tasks.practice.engine.launch import Launch, Refusal, read_installation
from tasks.practice.engine.protocol import Request, Response
from tasks.practice.engine.settings import SettingsInvalid
from tasks.practice.engine.versions import Version, parse_version, version_among
from tasks.practice.process import Emit, EmitAs

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine

_FATAL = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


class MemoryEngine:
    """A `Program`: main process, one child for each rank, and whatever a fault leaves behind."""

    def __init__(self, machine: "PracticeMachine", launch: Launch) -> None:
        self.pid = machine.new_pid()
        self._machine, self._launch = machine, launch
        self._ranks = [machine.new_pid() for _ in launch.titles]
        self._leftovers: dict[int, str] = {}
        self._stopped: dict[int, asyncio.Event] = {}
        self._port: int | None = None
        self._port_kept_by: int | None = None
        self._emit: EmitAs = lambda _pid, _line: None
        self._main: asyncio.Future[int] | None = None
        self._died_of = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.engine = Engine(launch, self)

    # -- Program

    async def run(self, emit: Emit) -> int:
        return await self.run_as(lambda _pid, line: emit(line))

    async def run_as(self, emit: EmitAs) -> int:
        self._emit = emit
        self._main = asyncio.ensure_future(self.engine.run())
        try:
            await asyncio.wait({self._main})
        finally:
            self._main.cancel()
            self._ranks = [0] * len(self._ranks)
            self.close()
        return -self._died_of if self._main.cancelled() else self._main.result()

    def signal(self, number: int) -> None:
        graceful = number in (signal.SIGTERM, signal.SIGINT) and self.engine.minds_signals
        if graceful:
            self.engine.stop(number)
        elif number in _FATAL and self._main is not None:
            self._died_of = number
            self._main.cancel()

    def signal_child(self, pid: int, number: int) -> None:
        """Schedulers heed SIGKILL, SIGSTOP and SIGCONT; a leftover SIGKILL alone."""
        if number == signal.SIGKILL:
            self._leftovers.pop(pid, None)
            if self._port_kept_by == pid:
                self._port = self._port_kept_by = None
            if pid in self._ranks:
                rank = self._ranks.index(pid)
                self.engine.rank_lost(rank, self.lose_rank(rank))
        elif number == signal.SIGSTOP:
            self._stopped.setdefault(pid, asyncio.Event())
        elif number == signal.SIGCONT and pid in self._stopped:
            self._stopped.pop(pid).set()

    def listening(self) -> set[int]:
        return set() if self._port is None else {self._port}

    def children(self) -> dict[int, tuple[str, ...]]:
        found = dict(zip(self._ranks, self._launch.titles, strict=True)) | self._leftovers
        return {pid: (title,) for pid, title in found.items() if pid}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.ConnectError where nothing listens, httpx.ReadTimeout after the request's own read timeout."""
        if self._port is None:
            raise httpx.ConnectError("All connection attempts failed", request=request)
        limit = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(limit):
                answer = await self._answer(request)
        except TimeoutError as error:
            raise httpx.ReadTimeout("timed out", request=request) from error
        headers = {"server": "uvicorn", **({"content-type": answer.content_type} if answer.content_type else {})}
        if answer.stream is not None:
            return httpx.Response(answer.status, headers=headers, stream=_Stream(answer.stream), request=request)
        return httpx.Response(answer.status, headers=headers, content=answer.body, request=request)

    async def _answer(self, request: httpx.Request) -> Response:
        if self._main is None or self._main.done():
            await asyncio.Event().wait()  # a leftover holds the port and answers nobody
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = request.url.query.decode()
        return await handle(
            self.engine, Request(request.method, request.url.path, headers, await request.aread(), query=query)
        )

    # -- World

    def now(self) -> float:
        return self._machine.clock.realtime_us() / 1_000_000

    def say(self, text: str) -> None:
        self._print(self.pid, text)

    def access(self, text: str) -> None:
        self._print(self.pid, text)

    def _print(self, pid: int, text: str) -> None:
        for line in text.split("\n"):
            self._emit(pid, line.encode())

    async def say_as(self, rank: int, text: str) -> None:
        pid = self._ranks[rank]
        while pid in self._stopped:
            await self._stopped[pid].wait()
        if pid:
            self._print(pid, text)

    async def bind(self, host: str, port: int) -> bool:
        holders = [group for group in self._machine.systemd.groups() if port in group.listening()]
        if holders or any(port in stranger.ports for stranger in self._machine.strangers.values()):
            return False
        self._port = port
        return True

    def close(self) -> None:
        if self._port_kept_by is None:
            self._port = None

    def rank_pid(self, rank: int) -> int:
        return self._ranks[rank]

    def lose_rank(self, rank: int) -> int:
        """0 takes the place of a dead child's PID."""
        pid, self._ranks[rank] = self._ranks[rank], 0
        if pid in self._stopped:
            self._stopped.pop(pid).set()
        return pid

    def leave_behind(
        self, title: str, texts: Iterator[str], interval: float, seconds: float, *, keep_port: bool
    ) -> None:
        pid = self._machine.new_pid()
        self._leftovers[pid] = title
        if keep_port:
            self._port_kept_by = pid
        task = asyncio.ensure_future(self._linger(pid, texts, interval, seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _linger(self, pid: int, texts: Iterator[str], interval: float, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while clock() < end and pid in self._leftovers:
            text = next(texts, None)
            if text is not None:
                self._print(pid, text)
            await asyncio.sleep(min(interval, max(0.0, end - clock())))
        self.signal_child(pid, signal.SIGKILL)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part


class Printed:
    """A program that prints and ends: help, a refusal, the version."""

    def __init__(self, machine: "PracticeMachine", text: str, status: int) -> None:
        self.pid = machine.new_pid()
        self._text, self._status = text, status

    async def run(self, emit: Emit) -> int:
        for line in self._text.splitlines():
            emit(line.encode())
        return self._status

    def signal(self, number: int) -> None:
        """It is over before any signal could matter."""

    def listening(self) -> set[int]:
        return set()

    def children(self) -> Mapping[int, Sequence[str]]:
        return {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("All connection attempts failed", request=request)


def memory_engine(argv: Sequence[str], env: Mapping[str, str], machine: "PracticeMachine") -> MemoryEngine | Printed:
    """A machine's `Factory`: what the argv of a unit, or of a session, makes of the installation in `machine.files`.

    It knows `PYTHON -m sglang.launch_server …`, `sglang serve …`, the same of vLLM (`-m
    vllm.entrypoints.openai.api_server`, `vllm serve …`), `PYTHON -c …` that prints the package's version, and
    `llama-server …`.
    """
    prefix = argv[0].rpartition("/bin/")[0]
    engine = _engine_of(argv)
    version = _version(machine, prefix, engine)
    words = list(argv[1:])
    if words[:1] == ["-c"] and f"version('{engine}')" in words[1]:
        return Printed(machine, str(version), 0)
    if engine == "llamacpp" and words == ["--version"]:
        return Printed(machine, version_text(version), 0)
    legacy = words[:2] in (["-m", "sglang.launch_server"], ["-m", "vllm.entrypoints.openai.api_server"])
    rest = _arguments(words, engine, legacy=legacy)
    if rest is None:
        return Printed(machine, f"{argv[0]}: the stand-in in memory cannot run these words: {' '.join(words)}", 2)
    try:
        installation = read_installation(version, prefix, env, machine.files)
        launch = prepare_start(installation, rest, dict(env), machine.files, engine, legacy_entry=legacy)
    except Refusal as refusal:
        return Printed(machine, refusal.stdout + refusal.stderr, refusal.status)
    except (FaultsInvalid, SettingsInvalid) as error:
        return Printed(machine, f"stand-in: {error}", 1)
    return MemoryEngine(machine, launch)


def _engine_of(argv: Sequence[str]) -> str:
    program = argv[0].rpartition("/")[2]
    if program == "llama-server":
        return "llamacpp"
    return "vllm" if any("vllm" in word for word in (program, *argv[1:3])) else "sglang"


def _arguments(words: Sequence[str], engine: str, *, legacy: bool) -> list[str] | None:
    """The words behind the entry point; None where they are none."""
    if engine == "llamacpp":
        return list(words)
    if legacy:
        return list(words[2:])
    if list(words[:1]) != ["serve"] and list(words[:3]) != ["-m", engine, "serve"]:
        return None
    return list(words[words.index("serve") + 1 :])


def _version(machine: "PracticeMachine", prefix: str, engine: str) -> Version:
    try:
        return parse_version(version_among(machine.files.names(f"{prefix}/site"), engine))
    except OSError:
        return parse_version(version_among((), engine))
