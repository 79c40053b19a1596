"""Recovery takes over what an orchestrator has left, and nothing that one still drives."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from flows import requests
from flows.ports import Ports
from flows.session import begin, recover
from state.errors import LeaseHeld, NotFound, TakenOver
from state.events import Purpose
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import EventStore, NewEvent, RecordedEvent
from tests.flows.rehearsal import Fuse, Killed, Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

LEASE_S = 30.0


@dataclass
class Pausable:
    """A store whose caller stands still, as a laptop that sleeps does, before its `at`-th append and until `going`."""

    inner: EventStore
    at: int
    appended: int = 0
    going: asyncio.Event = field(default_factory=asyncio.Event)
    paused: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        self.appended += 1
        await self._pause()
        return await self.inner.append(stream, expected_version, events)

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        await self._pause()
        return await self.inner.read(stream, after_version)

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        await self._pause()
        return await self.inner.read_last(stream, count)

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return await self.inner.read_all(after_position, limit)

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await self.inner.streams(prefix)

    async def unfinished(self) -> tuple[str, ...]:
        return await self.inner.unfinished()

    async def _pause(self) -> None:
        if self.appended >= self.at and not self.going.is_set():
            self.paused.set()
            await self.going.wait()


def short_leased(stage: Rehearsal, holder: str) -> Ports:
    return replace(stage.ports(holder), lease_s=LEASE_S)


async def roll_out(stage: Rehearsal, ports: Ports, purpose: Purpose = "rollout") -> Rollout:
    manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
    return await begin(ports, requests.from_manifest(ports, manifest, purpose, "rehearsal"))


async def newest(stage: Rehearsal) -> str:
    return (await stage.store.streams("rollout-"))[-1].removeprefix("rollout-")


async def killed(stage: Rehearsal, at: int, purpose: Purpose = "rollout") -> str:
    """A rollout whose orchestrator dies at the moment; its id."""
    stage.fuse = Fuse(at=at)
    with pytest.raises(Killed):
        await roll_out(stage, short_leased(stage, "first"), purpose)
    stage.fuse = Fuse()
    return await newest(stage)


def outcome(rollout: Rollout) -> str:
    return rollout.concluded.outcome if rollout.concluded else "unfinished"


MOMENTS = [
    pytest.param(1, "rollout", id="before-it-has-a-lease"),
    pytest.param(12, "rollout", id="leased-and-nothing-touched"),
    pytest.param(60, "rollout", id="while-the-service-is-down"),
    pytest.param(8, "verify", id="a-verification-which-takes-none"),
]


@pytest.mark.parametrize(("moment", "purpose"), MOMENTS)
def test_a_dead_orchestrators_rollout_is_taken_over_once_its_lease_is_over(moment: int, purpose: Purpose) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            name = await killed(stage, moment, purpose)
            await asyncio.sleep(LEASE_S / 2)
            with pytest.raises(LeaseHeld, match=rf"Rollout {name} is held by first until .* \(rehearsal\)") as refused:
                await recover(short_leased(stage, "second"), name)
            assert refused.value.exit_code == 3
            await asyncio.sleep(LEASE_S)
            ended = await recover(short_leased(stage, "second"), name)
            assert outcome(ended) == ("unproven" if purpose == "verify" else "promoted")
            assert ended.ended

    run()


def test_a_live_orchestrator_keeps_its_rollout_for_as_long_as_it_takes() -> None:
    """Renewal, not the first lease, is what counts: the start alone takes longer than a lease here."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(settings={"stage_seconds": {"weights": 10.0}}) as stage:
            await asyncio.sleep(30.0)
            ports = replace(stage.ports("first"), lease_s=2.0)
            driven = asyncio.create_task(roll_out(stage, ports))
            refusals = 0
            while not driven.done():
                await asyncio.sleep(0.5)
                if driven.done() or not await stage.store.streams("rollout-"):
                    continue
                try:
                    await recover(replace(stage.ports("second"), lease_s=2.0), await newest(stage))
                except LeaseHeld as held:
                    refusals += held.holder == "first"
            assert refusals > 5
            assert outcome(await driven) == "promoted"

    run()


@pytest.mark.parametrize("at", [pytest.param(12, id="before-the-stop"), pytest.param(24, id="after-the-stop")])
def test_an_orchestrator_that_was_away_too_long_stops_and_does_no_harm(at: int) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            ports = short_leased(stage, "first")
            store = Pausable(stage.store, at)
            driven = asyncio.create_task(roll_out(stage, replace(ports, events=store)))
            await store.paused.wait()
            await asyncio.sleep(LEASE_S + 1)
            ended = await recover(short_leased(stage, "second"), await newest(stage))
            assert outcome(ended) == "promoted"
            before = await stage.state()
            store.going.set()
            with pytest.raises(TakenOver, match="Another orchestrator goes on with rollout"):
                await driven
            assert await stage.state() == before

    run()


def test_of_two_that_recover_at_once_one_goes_on() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            name = await killed(stage, 60)
            await asyncio.sleep(LEASE_S + 1)
            ends = await asyncio.gather(
                *(recover(short_leased(stage, holder), name) for holder in ("second", "third")), return_exceptions=True
            )
            (gone_on,) = [end for end in ends if isinstance(end, Rollout)]
            (refused,) = [end for end in ends if isinstance(end, LeaseHeld | TakenOver)]
            assert outcome(gone_on) == "promoted"
            assert name in str(refused)

    run()


def test_what_has_ended_is_only_told_again() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            first = await roll_out(stage, short_leased(stage, "first"))
            name = await newest(stage)
            count = len(await stage.store.read(f"rollout-{name}"))
            assert await recover(short_leased(stage, "second"), name) == first
            assert len(await stage.store.read(f"rollout-{name}")) == count

    run()


def test_there_must_be_such_a_rollout() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            with pytest.raises(NotFound, match="no rollout `0123`"):
                await recover(stage.ports(), "0123")

    run()
