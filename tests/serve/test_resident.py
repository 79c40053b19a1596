"""The resident runner: one rollout of a service at a time, recorded before it is begun, ended safely whatever comes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.serve.marks import Marks
from deployments.serve.resident import Resident
from flows import requests
from flows.history import History
from flows.ports import Ports, Watch
from flows.session import resume
from state.errors import LeaseHeld, Refused
from state.events import ActionStarted, CancelRequested, RolloutRequested, decode
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tests.flows.rehearsal import Fuse, Killed, Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

REASON = "rehearsal of the resident runner"


def asked(stage: Rehearsal, ports: Ports) -> RolloutRequested:
    return requests.from_manifest(ports, load_manifest(stage.scene.manifest(), "manifest.yaml"), "rollout", REASON)


def outcome(rollout: Rollout) -> str:
    return rollout.concluded.outcome if rollout.concluded else "unfinished"


def once(begins: str, then: Callable[[], None]) -> Callable[[str], Watch]:
    """A watch that calls `then` when an action whose key begins so is begun."""

    def recorded(_rollout: Rollout, event: RecordedEvent) -> None:
        fact = decode(event)
        if isinstance(fact, ActionStarted) and fact.action.startswith(begins):
            then()

    return lambda _name: Watch(recorded=recorded)


@in_virtual_time
async def test_a_request_is_on_record_before_start_returns_and_ends_promoted(tmp_path: Path) -> None:
    async with rehearsal() as stage:
        ports = stage.ports()
        resident, marks = Resident(ports, Marks(tmp_path)), Marks(tmp_path)
        requested = asked(stage, ports)
        await resident.start(requested)
        assert (await History(ports, requested.rollout).load()).requested == requested
        assert resident.under_way == {requested.service: requested.rollout}
        assert marks.all() == {requested.rollout: 0}
        assert outcome(await resident.ended(requested.rollout)) == "promoted"
        assert (resident.under_way, marks.all()) == ({}, {})


@in_virtual_time
async def test_of_two_rollouts_of_a_service_the_second_is_refused_untouched(tmp_path: Path) -> None:
    async with rehearsal() as stage:
        ports = stage.ports()
        resident = Resident(ports, Marks(tmp_path))
        first, second = asked(stage, ports), asked(stage, ports)
        await resident.start(first)
        with pytest.raises(LeaseHeld, match=f"rollout {first.rollout} is under way"):
            await resident.start(second)
        await resident.ended(first.rollout)
        assert await stage.store.streams("rollout-") == (f"rollout-{first.rollout}",)
        await resident.start(second)
        assert outcome(await resident.ended(second.rollout)) == "unchanged"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param("lease", "cancelled", id="before the service is stopped nothing is touched"),
        pytest.param("do:1:", "cancelled", id="nor by a step before that"),
        pytest.param("await-readiness", "rolled-back", id="after the stop the old state comes back"),
    ],
)
def test_a_cancellation_ends_safely_and_says_on_whose_behalf(tmp_path: Path, action: str, expected: str) -> None:
    @in_virtual_time
    async def cancelled() -> None:
        async with rehearsal() as stage:
            ports, reached = stage.ports(), asyncio.Event()
            resident = Resident(ports, Marks(tmp_path), watched=once(action, reached.set))
            before, requested = await stage.state(), asked(stage, ports)
            await resident.start(requested)
            await reached.wait()
            assert await resident.cancel(requested.rollout, "ada")
            assert outcome(await resident.ended(requested.rollout)) == expected
            events = map(decode, await History(ports, requested.rollout).recorded())
            assert [e.actor for e in events if isinstance(e, CancelRequested)] == ["ada"]
            after = await stage.state()
            assert (after.unit_file, after.active, after.drivers) == (before.unit_file, before.active, before.drivers)
            assert not await resident.cancel(requested.rollout, "ada")

    cancelled()


@pytest.mark.parametrize(
    ("grace_s", "expected"),
    [
        pytest.param(3600.0, "promoted", id="what ends within the grace ends by itself"),
        pytest.param(0.5, "rolled-back", id="what does not is turned back"),
    ],
)
def test_a_stop_takes_nothing_new_and_leaves_nothing_half_done(tmp_path: Path, grace_s: float, expected: str) -> None:
    @in_virtual_time
    async def stopped() -> None:
        async with rehearsal() as stage:
            ports, reached = stage.ports(), asyncio.Event()
            resident = Resident(ports, Marks(tmp_path), watched=once("await-readiness", reached.set))
            requested = asked(stage, ports)
            await resident.start(requested)
            await reached.wait()
            stopping = asyncio.create_task(resident.stop(grace_s))
            await asyncio.sleep(0)
            with pytest.raises(Refused, match="stopping"):
                await resident.start(asked(stage, ports))
            await stopping
            assert outcome(await resident.ended(requested.rollout)) == expected

    stopped()


@in_virtual_time
async def test_a_second_signal_ends_the_grace(tmp_path: Path) -> None:
    async with rehearsal() as stage:
        ports, reached = stage.ports(), asyncio.Event()
        resident = Resident(ports, Marks(tmp_path), watched=once("await-readiness", reached.set))
        requested = asked(stage, ports)
        await resident.start(requested)
        await reached.wait()
        stopping = asyncio.create_task(resident.stop(3600.0))
        await asyncio.sleep(0.1)
        resident.hurry()
        await stopping
        assert outcome(await resident.ended(requested.rollout)) == "rolled-back"


async def killed(stage: Rehearsal, at: int) -> str:
    """A rollout whose orchestrator dies; its id."""
    stage.fuse = Fuse(at=at)
    with pytest.raises(Killed):
        await stage.roll_out()
    stage.fuse = Fuse()
    return (await stage.store.streams("rollout-"))[-1].removeprefix("rollout-")


@in_virtual_time
async def test_a_successor_goes_on_at_once_with_what_its_predecessor_drove(tmp_path: Path) -> None:
    async with rehearsal() as stage:
        rollout = await killed(stage, 40)
        Marks(tmp_path).set(rollout, 0)
        resident = Resident(stage.ports("second"), Marks(tmp_path))
        assert await resident.recover_all() == (rollout,)
        assert outcome(await resident.ended(rollout)) == "promoted"
        assert await resident.recover_all() == ()


@in_virtual_time
async def test_what_another_orchestrator_may_still_drive_is_left_alone_until_its_lease_is_over(tmp_path: Path) -> None:
    async with rehearsal() as stage:
        rollout = await killed(stage, 40)
        begun = asyncio.Event()
        resident = Resident(stage.ports("second"), Marks(tmp_path), watched=once("lease", begun.set))
        assert await resident.recover_all() == ()
        going, clock = asyncio.create_task(resident.recover_for_ever(60.0)), asyncio.get_running_loop().time
        since = clock()
        await begun.wait()
        assert clock() - since > 200
        assert outcome(await resident.ended(rollout)) in ("promoted", "rolled-back")
        going.cancel()


@in_virtual_time
async def test_a_mark_of_an_earlier_session_takes_nothing_over(tmp_path: Path) -> None:
    """Somebody recovered it while no server was there, and may drive it still."""
    async with rehearsal() as stage:
        rollout = await killed(stage, 40)
        Marks(tmp_path).set(rollout, 0)
        stage.fuse = Fuse(at=8)
        with pytest.raises(Killed):
            await resume(stage.ports("second"), rollout)
        stage.fuse = Fuse()
        assert await Resident(stage.ports("third"), Marks(tmp_path)).recover_all() == ()
