"""The hosts' own timers: with the orchestrator gone for good, both put back what is theirs."""

import asyncio

import pytest

from tests.flows.rehearsal import Killed, Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

GUEST = "0000:81:00.0"


@in_virtual_time
async def test_with_the_orchestrator_gone_service_and_drivers_come_back_on_two_hosts() -> None:
    async with rehearsal() as stage:
        before = await stage.state()
        with pytest.raises(Killed):
            await asyncio.gather(stage.roll_out(), killed_after_the_rebinding(stage))
        assert (await stage.state()).drivers != before.drivers
        await asyncio.sleep(120)  # the timer's 60 s, the GPU host's 20 s more, and a start
        after = await stage.state()
        assert (after.unit_file, after.drivers, after.active, after.argv) == (
            before.unit_file,
            before.drivers,
            "active",
            before.argv,
        )
        ended = await stage.recover()
        assert ended.concluded is not None
        assert ended.concluded.outcome == "rolled-back"
        assert "restored the old state by its own timer" in ended.concluded.summary
        assert await stage.state() == before


@in_virtual_time
async def test_both_timers_are_renewed_for_as_long_as_the_orchestrator_lives() -> None:
    """The soak is longer than both timers."""
    async with rehearsal() as stage:
        ended = await stage.roll_out(policy={"soak": "5m", "timer": "60s"})
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted", ended.concluded.summary
        for machine in (stage.scene.serving, stage.scene.hypervisor):
            listed = await machine.execute(("sudo", "-n", "--", "systemctl", "list-timers", "--all"), user="interlock")
            assert "interlock-revert" not in listed.text


async def killed_after_the_rebinding(stage: Rehearsal) -> None:
    while stage.scene.hypervisor.pci.functions[GUEST].driver != "vfio-pci":  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.001)
    stage.fuse.at = stage.fuse.passed + 1
