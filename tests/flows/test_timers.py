"""The hosts' own timers: with the orchestrator gone for good, both put back what is theirs."""

import asyncio
from dataclasses import replace

import pytest

from flows import requests
from flows.session import begin
from state.manifest.load import load_manifest
from tasks.timer_units import timer_text
from tests.flows.rehearsal import Killed, Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

GUEST = "0000:81:00.0"
REVERT = "interlock-revert-qwen35-122b.service"


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
async def test_with_the_orchestrator_gone_a_host_that_boots_meanwhile_restores_itself_after_it() -> None:
    """The timer counts from the boot anew; once it has acted, the next boot finds nothing of it."""
    async with rehearsal() as stage:
        before = await stage.state()
        with pytest.raises(Killed):
            await asyncio.gather(stage.roll_out(), killed_after_the_rebinding(stage))
        await stage.scene.serving.reboot()
        assert (await stage.state()).leftovers == ("interlock-revert-qwen35-122b.timer", REVERT)
        assert (await stage.state()).active == "inactive", "nothing starts this service at boot"
        await asyncio.sleep(120)
        after = await stage.state()
        assert (after.unit_file, after.active, after.argv) == (before.unit_file, "active", before.argv)
        assert stage.scene.serving.files.names("/etc/systemd/system/timers.target.wants") == []
        assert not stage.scene.serving.files.exists(f"/etc/systemd/system/{REVERT}")
        ended = await stage.recover()
        assert ended.concluded is not None
        assert ended.concluded.outcome == "rolled-back"
        assert await stage.state() == before


@in_virtual_time
async def test_a_timer_may_be_renewed_more_often_than_systemd_lets_units_start() -> None:
    """Five starts in ten seconds is its limit, after which a unit fails; the lease alone asks for more of these."""
    async with rehearsal() as stage:
        text = timer_text("qwen35-122b", 60.0)
        assert "\nStartLimitIntervalSec=0\n" in text.partition("[Timer]")[0]
        ports = replace(stage.ports(), lease_s=1.5)
        manifest = load_manifest(stage.scene.manifest(policy={"soak": "1m"}), "manifest.yaml")
        ended = await begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted", ended.concluded.summary


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


@in_virtual_time
async def test_a_gpu_host_that_still_restores_itself_is_waited_for_by_its_own_timer_s_name() -> None:
    async with rehearsal() as stage:
        before = await stage.state()
        with pytest.raises(Killed):
            await asyncio.gather(stage.roll_out(), killed_after_the_rebinding(stage))
        hypervisor = stage.scene.hypervisor
        hypervisor.faults.hang(lambda _words: True)
        await asyncio.sleep(120)
        going_on = asyncio.ensure_future(stage.recover())
        await asyncio.sleep(60)
        assert not going_on.done(), "it went on beside the host's own restoring"
        stop = ("sudo", "-n", "--", "systemctl", "stop", "--", REVERT.replace(".service", ":gpus.service"))
        await hypervisor.execute(stop, user="interlock")
        ended = await going_on
        assert ended.concluded is not None
        assert ended.concluded.outcome == "rolled-back", ended.concluded.summary
        assert (await stage.state()).drivers == before.drivers


async def killed_after_the_rebinding(stage: Rehearsal) -> None:
    while stage.scene.hypervisor.pci.functions[GUEST].driver != "vfio-pci":  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.001)
    stage.fuse.at = stage.fuse.passed + 1
