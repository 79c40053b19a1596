"""A device whose unbind is stuck: recorded, left alone, refused by later plans, and cleared by a person."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flows import quarantine as clearing
from flows import requests
from flows.history import History
from flows.looking import kept_out_of, look
from flows.ports import opened
from state.errors import LeaseHeld, NotFound, Refused
from state.events import DeviceCleared, DeviceQuarantined, RolloutRequested
from state.manifest.load import load_manifest
from state.narrative import narrate
from state.rollout import Rollout
from tasks.argv import quarantine
from tasks.practice.scene import GUEST_GPUS
from tests.flows.rehearsal import Killed, Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

FIRST, STUCK, *_ = GUEST_GPUS


@asynccontextmanager
async def stuck() -> AsyncIterator[Rehearsal]:
    """A scene whose second guest GPU does not come off its driver."""
    async with rehearsal() as stage:
        stage.scene.hypervisor.pci.stuck_unbind.add(STUCK)
        try:
            yield stage
        finally:
            stage.scene.hypervisor.pci.stuck_unbind.clear()
            await asyncio.sleep(5)  # what waits in the kernel ends


async def lets_go(stage: Rehearsal) -> None:
    stage.scene.hypervisor.pci.stuck_unbind.clear()
    await asyncio.sleep(5)


def name_of(rollout: Rollout) -> str:
    assert rollout.requested is not None
    return rollout.requested.rollout


def end(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


async def told(stage: Rehearsal, rollout: str) -> list[str]:
    recorded = await History(stage.ports(), rollout).recorded()
    return [f"{line.title}: {line.text}" for line in narrate(recorded)]


def request(stage: Rehearsal) -> RolloutRequested:
    manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
    return requests.from_manifest(stage.ports(), manifest, "rollout", "again")


BUT_FOR = f"The old state is back but for {STUCK} on hypervisor, in quarantine: "


@in_virtual_time
async def test_the_service_comes_back_and_the_device_is_left_for_a_person() -> None:
    async with stuck() as stage:
        before = await stage.state()
        ended = await stage.roll_out()
        rollout = name_of(ended)
        outcome, summary = end(ended)
        assert outcome == "rolled-back", summary
        assert f"the unbind of {STUCK} from nvidia on hypervisor is stuck: it is quarantined" in summary
        assert f"moved back: {FIRST}. {BUT_FOR}18 of 19 claims held" in summary
        (fact,) = ended.quarantined.values()
        recorded = (fact.action, fact.host, fact.address, fact.driver)
        assert recorded == ("do:4:rebind-gpus", "hypervisor", STUCK, "nvidia")
        lines = await told(stage, rollout)
        assert f"rebind-gpus: device {STUCK} on hypervisor is quarantined: its unbind from nvidia is stuck" in lines
        assert [line for line in lines if f"`interlock gpu clear {rollout} {STUCK}`" in line]
        assert f"undo rebind-gpus: 0 devices moved and read back; left in quarantine: {STUCK}" in lines
        after = await stage.state()
        restored = (before.unit_file, before.argv, "active", ())
        assert (after.unit_file, after.argv, after.active, after.leftovers) == restored


@in_virtual_time
async def test_another_device_off_its_driver_is_no_old_state_however_many_are_in_quarantine() -> None:
    async with stuck() as stage:
        stage.scene.hypervisor.pci.refuse_probe[FIRST, "nvidia"] = ["NVRM: GPU {address}: RmInitAdapter failed!"]
        ended = await stage.roll_out()
        outcome, summary = end(ended)
        assert outcome == "stranded", summary
        assert f"could not be moved back: {FIRST}" in summary
        assert ended.concluded is not None
        rollout = name_of(ended)
        commands = [words.partition("    #")[0] for words in ended.concluded.next_argvs]
        assert commands[-2:] == [f"interlock gpu clear {rollout} {STUCK}", f"interlock recover {rollout}"]


@in_virtual_time
async def test_a_person_clears_it_once_the_kernel_has_let_go_and_the_next_rollout_may_move_it() -> None:
    async with stuck() as stage:
        rollout = name_of(await stage.roll_out())
        with pytest.raises(Refused, match=f"{STUCK} on hypervisor is not well yet: its unbind still waits"):
            await clearing.clear(stage.ports("ada"), rollout, STUCK, "too early")
        again = await stage.roll_out()
        outcome, summary = end(again)
        assert outcome == "refused", summary
        assert f"`interlock gpu clear {rollout} {STUCK}` clears it" in summary
        await lets_go(stage)
        cleared = await clearing.clear(stage.ports("ada"), rollout, STUCK, "the guest was ended")
        assert cleared == DeviceCleared(host="hypervisor", address=STUCK, actor="ada", reason="the guest was ended")
        line = f"gpu clear: device {STUCK} on hypervisor is quarantined no longer, says ada: the guest was ended"
        assert (await told(stage, rollout))[-1] == line
        assert end(await stage.roll_out())[0] == "promoted"


@in_virtual_time
async def test_a_later_plan_is_refused_by_the_rollout_s_name_and_the_command_that_clears_it() -> None:
    async with stuck() as stage:
        rollout = name_of(await stage.roll_out())
        wanted = request(stage)
        async with opened(stage.ports(), wanted.hosts) as hosts:
            plan, _ = await look(hosts, wanted.revision, stage.ports())
            (sentence,) = await kept_out_of(hosts, wanted.revision, plan)
        assert (
            f"gpus: {STUCK} is quarantined on hypervisor (unbind from nvidia was stuck in rollout {rollout}: "
            in sentence
        )
        assert sentence.endswith(f"when it is well again, `interlock gpu clear {rollout} {STUCK}` clears it")


@pytest.mark.parametrize(
    ("address", "named"),
    [
        pytest.param(FIRST, FIRST, id="another-device"),
        pytest.param("0000:ff:00.0", "0000:ff:00.0", id="no-device"),
    ],
)
@in_virtual_time
async def test_what_is_in_no_quarantine_cannot_be_cleared(address: str, named: str) -> None:
    async with stuck() as stage:
        rollout = name_of(await stage.roll_out())
        with pytest.raises(NotFound, match=named):
            await clearing.clear(stage.ports(), rollout, address, "why not")


@in_virtual_time
async def test_a_quarantine_of_another_rollout_is_not_cleared_by_this_one_s_name() -> None:
    async with stuck() as stage:
        rollout = name_of(await stage.roll_out())
        await lets_go(stage)
        files = stage.scene.hypervisor.files
        files.put(quarantine(STUCK), files.read(quarantine(STUCK)).decode().replace(rollout, "abc123"))
        with pytest.raises(Refused, match=r"another quarantine.*in rollout abc123") as refused:
            await clearing.clear(stage.ports(), rollout, STUCK, "mine")
        assert f"`interlock gpu clear abc123 {STUCK}` clears it" in refused.value.hint


@in_virtual_time
async def test_a_mark_that_somebody_removed_by_hand_is_cleared_in_the_history_too() -> None:
    async with stuck() as stage:
        rollout = name_of(await stage.roll_out())
        await lets_go(stage)
        stage.scene.hypervisor.files.remove(quarantine(STUCK))
        await clearing.clear(stage.ports("ada"), rollout, STUCK, "removed by hand")
        assert (await History(stage.ports(), rollout).load()).quarantined == {}


@in_virtual_time
async def test_killed_at_any_moment_around_the_mark_the_next_orchestrator_records_it_once() -> None:
    async with stuck() as stage:
        _, marked = await asyncio.gather(stage.roll_out(), moment_of_the_mark(stage))
        moments = [*range(marked - 3, marked + 6), *range(marked + 6, stage.fuse.passed, 6)]
    for moment in moments:
        async with stuck() as stage:
            stage.fuse.at = moment
            with pytest.raises(Killed):
                await stage.roll_out()
            (stream,) = await stage.store.streams("rollout-")
            outcome, summary = end(await stage.recover())
            assert (outcome, BUT_FOR in summary) == ("rolled-back", True), (moment, summary)
            recorded = [e for e in await stage.store.read(stream) if e.type == DeviceQuarantined.wire]
            assert [e.data["address"] for e in recorded] == [STUCK], moment
            assert ((await stage.state()).active, (await stage.state()).leftovers) == ("active", ()), moment


async def moment_of_the_mark(stage: Rehearsal) -> int:
    """How many moments had passed when the host was marked."""
    while not stage.scene.hypervisor.files.exists(quarantine(STUCK)):  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.001)
    return stage.fuse.passed


@in_virtual_time
async def test_nothing_is_cleared_while_the_rollout_may_be_driven() -> None:
    async with stuck() as stage:
        rolling = asyncio.ensure_future(stage.roll_out())
        await moment_of_the_mark(stage)
        (stream,) = await stage.store.streams("rollout-")
        with pytest.raises(LeaseHeld, match="held by first"):
            await clearing.clear(stage.ports("ada"), stream.removeprefix("rollout-"), STUCK, "too early")
        assert end(await rolling)[0] == "rolled-back"


@in_virtual_time
async def test_one_that_is_stuck_on_the_way_back_keeps_no_other_and_not_the_service() -> None:
    async with rehearsal(faults=({"fault": "flag-ignored", "when": {"speculative_algorithm": "NEXTN"}},)) as stage:
        before = await stage.state()
        pci = stage.scene.hypervisor.pci
        _, ended = await asyncio.gather(stuck_once_it_is_moved(stage), stage.roll_out())
        outcome, summary = end(ended)
        assert (outcome, BUT_FOR in summary) == ("rolled-back", True), summary
        (fact,) = ended.quarantined.values()
        assert (fact.action, fact.address, fact.driver) == ("undo:4:rebind-gpus", STUCK, "vfio-pci")
        others = {address: driver for address, driver in before.drivers.items() if address != STUCK}
        assert {a: f.driver for a, f in pci.functions.items() if a != STUCK} == others
        assert (await stage.state()).active == "active"
        await lets_go(stage)


async def stuck_once_it_is_moved(stage: Rehearsal) -> None:
    pci = stage.scene.hypervisor.pci
    while pci.functions[STUCK].driver != "vfio-pci":  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.001)
    pci.stuck_unbind.add(STUCK)
