"""One orchestrator process: the product's own flows, on ports at which the seed's faults befall it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import httpx

from flows.history import stream_of
from flows.ports import Ports
from flows.ports import Watch as Told
from flows.session import begin, recover, resume
from flows.spooled import flush_left
from state.errors import DeadlineExceeded, HostUnreachable, StoreUnavailable
from state.events import RolloutRequested
from state.manifest.model import HostSpec
from state.rollout import Rollout
from state.store.port import EvidenceRef, NewEvent, RecordedEvent
from tasks.hosts.port import Argv, Completed, Host
from tasks.practice.simulated import SimulatedHost
from tests.simulation.befall import Befall
from tests.simulation.disks import DiskSpools
from tests.simulation.faults import Fault
from tests.simulation.watch import Watch, changes, renews
from tests.simulation.world import LEASE_S, World

Result = TypeVar("Result")


class Killed(BaseException):
    """The orchestrator is gone. No handler may be kind to it, so it is no Exception."""


class Orchestrator:
    """A process with a name on a machine. Once `dead`, everything that it still tries raises Killed."""

    def __init__(self, world: World, name: str, requested: RolloutRequested, befall: Befall, machine: str) -> None:
        self.world, self.name, self.requested, self.machine = world, name, requested, machine
        self.befall, self.watch = befall, Watch(world)
        self.going = asyncio.Event()
        self.going.set()
        self.dead = asyncio.Event()
        self.types: list[str] = []
        self._versions = 0
        self.task: asyncio.Task[Rollout] | None = None

    def ports(self) -> Ports:
        return Ports(
            events=Store(self),
            evidence=Evidence(self),
            open_host=self._open,
            holder=self.name,
            now=self.world.now,
            clock=asyncio.get_running_loop().time,
            lease_s=LEASE_S,
            spools=DiskSpools(self, self.world.disks[self.machine]),
            watch=Told(said=self.world.said.append),
        )

    def _open(self, name: str, _spec: HostSpec) -> Host:
        return Wire(self, SimulatedHost(self.world.hosts[name], name))

    def has_recorded(self, after_version: int, events: Sequence[NewEvent]) -> None:
        """It relies on these events of its rollout now, stored or spooled: an append that lands late says nothing."""
        new = events[max(0, self._versions - after_version) :]
        self.types += [event.type for event in new]
        self._versions = max(self._versions, after_version + len(events))

    def begin(self) -> "asyncio.Task[Rollout]":
        return self._run(lambda ports: begin(ports, self.requested))

    def recover(self) -> "asyncio.Task[Rollout]":
        return self._run(lambda ports: recover(ports, self.requested.rollout))

    def take_over(self) -> "asyncio.Task[Rollout]":
        return self._run(lambda ports: resume(ports, self.requested.rollout))

    def _run(self, work: Callable[[Ports], Coroutine[Any, Any, Rollout]]) -> "asyncio.Task[Rollout]":
        self.task = asyncio.get_running_loop().create_task(self._command(work))
        return self.task

    async def _command(self, work: Callable[[Ports], Coroutine[Any, Any, Rollout]]) -> Rollout:
        """As `flows.wiring.wired` has it: what the machine has spooled comes into the store before anything else."""
        ports = self.ports()
        await flush_left(ports)
        return await work(ports)

    def is_over(self) -> bool:
        """Whether the process is gone, and with it every lock that it had."""
        return self.dead.is_set() or (self.task is not None and self.task.done())

    def kill(self) -> None:
        self.dead.set()
        self.going.set()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def gate(self) -> None:
        """Nothing goes out of, or comes in to, a process that stands still or is gone."""
        await self.going.wait()
        if self.dead.is_set():
            raise Killed


class Wire:
    """A host as one orchestrator reaches it. Implements `Host`."""

    def __init__(self, who: Orchestrator, inner: Host) -> None:
        self._who, self._inner = who, inner

    @property
    def name(self) -> str:
        return self._inner.name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        who = self._who
        await who.gate()
        changing = any(changes(argv) and not renews(argv) for argv in argvs)
        due = who.world.due("trip", who.world.action if changing else "")
        for fault in due:
            await who.befall.before_trip(who, fault, self.name)
        await who.gate()
        await who.watch.change(who, self.name, argvs)
        answers = await self._answered(argvs, timeout_s)
        for fault in due:
            await self._after(fault, timeout_s)
        await who.gate()
        return answers

    async def _answered(self, argvs: Sequence[Argv], timeout_s: float) -> tuple[Completed, ...]:
        """The answers; a process that is killed meanwhile hears none, and what it asked for runs on."""
        if not self._who.world.pending_death:
            return await self._inner.run_all(argvs, timeout_s=timeout_s)
        asked = asyncio.ensure_future(self._inner.run_all(argvs, timeout_s=timeout_s))
        died = asyncio.ensure_future(self._who.dead.wait())
        try:
            await asyncio.wait((asked, died), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            asked.cancel()
            raise
        finally:
            died.cancel()
        if self._who.dead.is_set():
            asked.cancel()
            raise Killed
        return asked.result()

    async def _after(self, fault: Fault, timeout_s: float) -> None:
        if fault.kind == "cut-after-trip":
            raise HostUnreachable(self.name, "simulated", "connection reset by peer")
        if fault.kind == "answer-lost":
            await asyncio.sleep(timeout_s)
            raise DeadlineExceeded(f"an answer of {self.name}", timeout_s)
        if fault.kind == "killed-after-trip":
            self._who.kill()

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.follow(argv)

    def transport(self) -> httpx.AsyncBaseTransport:
        return self._inner.transport()

    async def aclose(self) -> None:
        await self._inner.aclose()


class Store:
    """The event store as one orchestrator reaches it. Implements `EventStore`."""

    def __init__(self, who: Orchestrator) -> None:
        self._who, self._inner = who, who.world.store

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        who = self._who
        await who.gate()
        intents = [event.data["action"] for event in events if event.type == "action-started"]
        due = who.world.due("append", intents[0] if intents else "")
        who.world.action = intents[0] if intents else who.world.action
        for fault in due:
            await who.befall.before_append(who, fault)
        recorded = await called(who, lambda: self._appended(stream, expected_version, events))
        for fault in due:
            if fault.kind == "store-lost-after":
                raise StoreUnavailable("connection lost")
            if fault.kind == "killed-after-append":
                who.kill()
        await who.gate()
        return recorded

    async def _appended(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> tuple[RecordedEvent, ...]:
        who = self._who
        await who.watch.referred(events)
        recorded = await self._inner.append(stream, expected_version, events)
        if stream == stream_of(who.requested.rollout):
            who.has_recorded(expected_version, events)
        await who.watch.appended(stream, expected_version, events)
        return recorded

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        return await called(self._who, lambda: self._inner.read(stream, after_version))

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        return await called(self._who, lambda: self._inner.read_last(stream, count))

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return await called(self._who, lambda: self._inner.read_all(after_position, limit))

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await called(self._who, lambda: self._inner.streams(prefix))

    async def unfinished(self) -> tuple[str, ...]:
        return await called(self._who, lambda: self._inner.unfinished())


class Evidence:
    """The evidence store as one orchestrator reaches it. Implements `EvidenceStore`."""

    def __init__(self, who: Orchestrator) -> None:
        self._who, self._inner = who, who.world.evidence

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        return await called(self._who, lambda: self._inner.put(data, media_type))

    async def get(self, digest: str) -> bytes:
        return await called(self._who, lambda: self._inner.get(digest))


async def called(who: Orchestrator, work: Callable[[], Awaitable[Result]]) -> Result:
    """One call of a store, with what befalls it."""
    due = who.world.due("store")
    for fault in due:
        await who.befall.before_call(who, fault)
    await reachable(who)
    result = await work()
    for fault in due:
        await who.befall.after_call(who, fault)
    return result


async def reachable(who: Orchestrator) -> None:
    """Wait as long as a slow store takes; raises StoreUnavailable while it is away."""
    await who.gate()
    if who.world.store_slow_s:
        await asyncio.sleep(who.world.store_slow_s)
        await who.gate()
    if who.world.store_away:
        raise StoreUnavailable("connection refused")
