"""The running engine: it performs its start, generates and ends. Time is asyncio's, so a virtual loop works too."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from .acts import Act, Bind, End, LoseRank, Pause, Ready, Say, WarmUp
from .batch import Batch, Job
from .boot import context_length
from .dialect import dialect_of
from .launch import Launch
from .sizes import sizes_of
from .world import World

_QUIET = ("warning", "error", "critical")


@dataclass
class Totals:
    """Counts of finished requests since the start."""

    requests: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    verify_calls: int = 0
    latency_seconds: float = 0.0
    first_token_seconds: float = 0.0


class Engine:
    """One process's life. `run` it once; `handle` requests (see endpoints.py) while it serves; `stop` it by signal."""

    def __init__(self, launch: Launch, world: World) -> None:
        self.launch, self.world = launch, world
        self._dialect = dialect_of(launch)
        self.sizes = sizes_of(launch)
        self.batch = Batch(launch, self.sizes, world.now())
        self.started = world.now()
        self.state = "loading"  # then "starting" (port open), "ready", "draining"
        self.requests: set[str] = set()
        self.totals = Totals()
        self._events: dict[str, asyncio.Event] = {}
        self._work = asyncio.Event()
        self._wake = asyncio.Event()
        self._stop: int | None = None
        self._lost: tuple[int, int] | None = None
        self._names = itertools.count(1)
        self._due = 0.0
        self._serving: Callable[[], object] = lambda: None
        self._tasks: list[asyncio.Future[None]] = []

    @property
    def context_length(self) -> int:
        return context_length(self.launch)

    # -- life

    async def run(self) -> int:
        """From the first line to the end: an exit status, or minus the signal that the process must send itself."""
        try:
            return await self._live()
        finally:
            for task in self._tasks:
                task.cancel()

    async def _live(self) -> int:
        status = await self._boot()
        if status is not None:
            return status
        self._tasks.append(asyncio.ensure_future(self._exit_after_ready()))
        await self._wake.wait()
        if self._lost is not None:
            rank, child = self._lost
            return await self.perform_all(
                self._dialect.lost_while_serving(self.launch, rank=rank, child=child, pid=self.world.pid)
            )
        return await (self._dialect.interrupt if self._stop == signal.SIGINT else self._dialect.drain)(self)

    def on_serving(self, call: Callable[[], object]) -> None:
        """`call` when the engine begins to mind signals: when its port is open, or its model loaded behind it."""
        self._serving = call

    @property
    def minds_signals(self) -> bool:
        return self.state != "loading" and not (self.state == "starting" and self._dialect.loads_behind_its_port)

    def stop(self, number: int) -> None:
        """A signal has come: SIGTERM drains, SIGINT leaves at once."""
        if self._stop is None:
            self._stop = number
            self._wake.set()

    def rank_lost(self, rank: int, child: int) -> None:
        """A scheduler process is gone."""
        if self._lost is None:
            self._lost = (rank, child)
            self._wake.set()

    async def _boot(self) -> int | None:
        for act in self._dialect.boot(self.launch, self.world.pid):
            status = await self._perform(act)
            if status is not None:
                return status
            if self._lost is not None and self.state != "ready":
                return await self.perform_all(
                    self._dialect.lost_while_loading(self.launch, rank=self._lost[0], pid=self.world.pid)
                )
        return None

    async def perform_all(self, acts: Iterator[Act]) -> int:
        for act in acts:
            status = await self._perform(act)
            if status is not None:
                return status
        return 1

    async def _perform(self, act: Act) -> int | None:
        if isinstance(act, Say):
            await self.say(act)
        elif isinstance(act, Pause):
            await asyncio.sleep(act.seconds)
        elif isinstance(act, Bind):
            return await self._bind()
        elif isinstance(act, WarmUp):
            await self._warm_up()
        elif isinstance(act, Ready):
            self.state = "ready"
            if self._dialect.loads_behind_its_port:
                self._serving()
        elif isinstance(act, LoseRank):
            self.rank_lost(act.rank, self.world.lose_rank(act.rank))
        elif isinstance(act, End):
            return act.status
        return None

    async def say(self, act: Say) -> None:
        quiet = self.launch.resolved.text("log_level").lower() in _QUIET
        if quiet and act.stamped and not act.severe:
            return
        text = self._dialect.stamped(self, act) if act.stamped else act.text
        if act.rank is None:
            self.world.say(text)
        else:
            await self.world.say_as(act.rank, text)

    async def _bind(self) -> int | None:
        host, port = self.launch.resolved.text("host"), self.launch.resolved.integer("port")
        if not await self.world.bind(host, port):
            for act in self._dialect.taken_port(self.launch, host, port, self.world.pid):
                await self._perform(act)
            return 1
        self.state = "starting"
        if self.minds_signals:
            self._serving()
        self._tasks.append(asyncio.ensure_future(self._generate_for_ever()))
        if self._dialect.bound:
            await self.say(Say(self._dialect.bound.format(host=host, port=port)))
        if self._dialect.watch is not None:
            self._tasks.append(asyncio.ensure_future(self._dialect.watch(self)))
        return None

    async def _warm_up(self) -> None:
        poll = "/model_info" if self.launch.version >= (0, 5, 6) else "/get_model_info"
        path = "/v1/chat/completions" if self.launch.model.multimodal else "/generate"
        self.log_access("127.0.0.1:41026", "GET", poll, 200, "OK")
        words = ["The", "capital", "city", "of", "France", "is"] * 3
        await self.finish(self.new_job(words, [" Paris", *["and", "it", "lies", "on", "the"], " Seine", "."], "length"))
        self.log_access("127.0.0.1:41040", "POST", path, 200, "OK")

    def log_access(self, client: str, method: str, path: str, status: int, reason: str) -> None:
        level = str(self.launch.resolved.arguments.get("log_level_http") or self.launch.resolved.text("log_level"))
        if level.lower() not in _QUIET:
            line = f'INFO:     {client} - "{method} {path} HTTP/1.1" {status} {reason}'
            self.world.access(self._dialect.stamped(self, Say(line)))

    # -- generation

    def new_job(self, prompt: list[str], pieces: list[str], finish: str, rid: str = "") -> Job:
        return Job(
            rid or f"{next(self._names):08x}{self.world.pid:08x}{int(self.started):016x}",
            tuple(prompt),
            pieces,
            finish,
            self.world.now(),
        )

    async def progress(self, job: Job) -> AsyncIterator[Job]:
        """Submit the job; yields it after each forward that brought it tokens, lastly complete."""
        event = self._events[job.rid] = asyncio.Event()
        self.requests.add(job.rid)
        self.batch.submit(job)
        self._work.set()
        try:
            while True:
                await event.wait()
                event.clear()
                yield job
                if job.complete:
                    return
        finally:
            self.batch.drop(job)
            self.requests.discard(job.rid)
            del self._events[job.rid]

    async def finish(self, job: Job) -> Job:
        async for _ in self.progress(job):
            pass
        return job

    def count(self, job: Job) -> None:
        """A client's request has ended well: the counters of `/metrics` move."""
        totals = self.totals
        totals.requests += 1
        totals.prompt_tokens += len(job.prompt)
        totals.generated_tokens += job.done
        totals.verify_calls += job.verify_calls
        totals.latency_seconds += job.finished - job.arrived
        totals.first_token_seconds += job.first_token - job.arrived
        if self._dialect.finished is not None and self.launch.resolved.text("log_level") not in _QUIET:
            for text in self._dialect.finished(self, job):
                self.world.say(text)

    async def _generate_for_ever(self) -> None:
        while True:
            await self._work.wait()
            while self.batch.busy:
                if self._hangs():
                    return
                await self._step()
            self._work.clear()

    def _hangs(self) -> bool:
        hang = self.launch.faults.get("hang-after-ready")
        served = self.totals.requests >= hang.number("requests", 0) if hang else False
        return served and self.state != "starting"

    async def _step(self) -> None:
        if self.batch.waiting and len(self.batch.running) < self.batch.limit:
            await asyncio.sleep(self.launch.settings.prefill_seconds)
            self._due = asyncio.get_running_loop().time()  # idle and prefill time is no head start for decoding
            await self._tell(self.batch.prefill(self.world.now()))
        if self.batch.running:
            clock = asyncio.get_running_loop().time
            self._due = max(self._due, clock() - 0.05) + self.batch.cost(self.world.now())
            await asyncio.sleep(max(0.0, self._due - clock()))
            await self._tell(self.batch.forward(self.world.now()))

    async def _tell(self, texts: list[str]) -> None:
        for text in texts:
            await self.say(Say(text, 0))
        for event in self._events.values():
            event.set()

    async def _exit_after_ready(self) -> None:
        if fault := self.launch.faults.get("exit-after-ready"):
            await asyncio.sleep(fault.number("seconds", 0.5))
            self.rank_lost(0, self.world.lose_rank(0) if self.launch.titles else 0)
