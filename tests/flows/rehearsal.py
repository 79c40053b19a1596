"""A rollout on a scene in memory, in virtual time: what tests of the loop rehearse on, with ports one can kill."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from flows import requests
from flows.history import History
from flows.ports import Ports
from flows.session import begin, resume, unfinished
from state.events import Purpose
from state.manifest.load import load_manifest
from state.manifest.model import HostSpec
from state.rollout import Rollout
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import NewEvent, RecordedEvent
from tasks.hosts.port import Argv, Completed, Host
from tasks.practice.scene import USER, Scene, scene


class Killed(BaseException):
    """The orchestrator is gone. No handler may be kind to it, so it is no Exception."""


@dataclass
class Fuse:
    """Counts the moments at which an orchestrator can die, and kills it at the n-th and ever after (None: never).

    A moment is right after an append or a round trip. Dying before one is the same as dying after the one before it,
    since nothing outside the orchestrator happens in between.
    """

    at: int | None = None
    passed: int = 0

    def moment(self) -> None:
        self.passed += 1
        if self.at is not None and self.passed >= self.at:
            raise Killed


class MortalStore(MemoryEventStore):
    """The store in memory; its caller may die after each append."""

    def __init__(self, now: Callable[[], Any]) -> None:
        super().__init__(now)
        self.fuse = Fuse()

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        recorded = await super().append(stream, expected_version, events)
        self.fuse.moment()
        return recorded


@dataclass
class MortalHost:
    """A host whose caller may die after each round trip."""

    inner: Host
    fuse: Fuse

    @property
    def name(self) -> str:
        return self.inner.name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        done = await self.inner.run_all(argvs, timeout_s=timeout_s)
        self.fuse.moment()
        return done

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.inner.follow(argv)

    def transport(self) -> httpx.AsyncBaseTransport:
        return self.inner.transport()

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(frozen=True)
class HostState:
    """What a rollback must give back: files byte for byte, drivers, and the unit's state."""

    unit_file: bytes
    drivers: Mapping[str, str | None]
    active: str
    argv: tuple[str, ...]
    leftovers: tuple[str, ...]


@dataclass
class Rehearsal:
    """One scene with a store that outlives orchestrators."""

    scene: Scene
    store: MortalStore
    evidence: MemoryEvidenceStore = field(default_factory=MemoryEvidenceStore)
    fuse: Fuse = field(default_factory=Fuse)

    def ports(self, holder: str = "first") -> Ports:
        self.store.fuse = self.fuse
        return Ports(
            events=self.store,
            evidence=self.evidence,
            open_host=self._open,
            holder=holder,
            now=self.scene.serving.clock.now,
            clock=asyncio.get_running_loop().time,
            generation_s=10.0,
        )

    def _open(self, name: str, spec: HostSpec) -> Host:
        return MortalHost(self.scene.open_host(name, spec), self.fuse)

    async def roll_out(
        self, arguments: Mapping[str, Any] | None = None, purpose: Purpose = "rollout", **changes: Any
    ) -> Rollout:
        """A rollout to the seed's configuration, changed as asked, driven to its end."""
        manifest = load_manifest(self.scene.manifest(arguments, **changes), "manifest.yaml")
        return await begin(self.ports(), requests.from_manifest(self.ports(), manifest, purpose, "rehearsal"))

    async def recover(self) -> Rollout:
        """What the next orchestrator does with the newest rollout."""
        self.fuse = Fuse()
        ports = self.ports("second")
        name = (await self.store.streams("rollout-"))[-1].removeprefix("rollout-")
        return await resume(ports, name)

    async def is_unfinished(self) -> bool:
        streams = await self.store.streams("rollout-")
        return bool(streams) and unfinished(await History(self.ports(), streams[-1].removeprefix("rollout-")).load())

    async def state(self) -> HostState:
        shown = await self._run("systemctl", "show", "--property=ActiveState,MainPID", "--", self.scene.unit)
        facts = dict(line.split("=", 1) for line in shown.splitlines())
        cmdline = (await self._run("cat", "--", f"/proc/{facts['MainPID']}/cmdline")) if facts["MainPID"] != "0" else ""
        timers = await self._run("systemctl", "list-timers", "--all", "--no-pager")
        return HostState(
            unit_file=self.scene.serving.files.read(self.scene.unit_file),
            drivers={f.address: f.driver for f in self.scene.hypervisor.pci.functions.values()},
            active=facts["ActiveState"],
            argv=tuple(cmdline.split("\0")[:-1]),
            leftovers=tuple(word for word in timers.split() if word.startswith("interlock-revert")),
        )

    async def _run(self, *words: str) -> str:
        done = await self.scene.serving.execute(("sudo", "-n", "--", *words), user=USER)
        return done.text


@asynccontextmanager
async def rehearsal(**given: Any) -> AsyncIterator[Rehearsal]:
    """A scene in memory whose service has come up, with its store. It is always the same moment, so that what depends
    on the time (the stand-in's noise) is the same in each run."""
    async with scene(None, over_ssh=False, since=datetime(2026, 11, 30, 3, tzinfo=UTC), **given) as made:
        await asyncio.sleep(5)
        yield Rehearsal(made, MortalStore(made.serving.clock.now))


PARTS = 3
"""The moments of a rollout are cut into parts that can run beside each other."""

EVERY = os.environ.get("INTERLOCK_EVERY_MOMENT") == "1"


def moments_of(part: int, count: int, first: int = 1, seldom: int = 1) -> range:
    """The moments of a part: each with INTERLOCK_EVERY_MOMENT=1 (`make moments`), else every eighth, so that these
    tests take seconds; `seldom` passes over more."""
    return range(first + part, count + 1, PARTS * seldom * (1 if EVERY else 8))
