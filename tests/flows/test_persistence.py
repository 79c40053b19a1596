"""The driver map at boot, as a choice: written with the moves, undone with them, changed without an outage, killed."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from state.boot_rules import path_of, rules
from state.events import PreflightPassed
from state.rollout import Rollout
from tasks.practice.scene import GUEST_GPUS, SERVING_GPUS
from tests.flows.rehearsal import EVERY, Fuse, Killed, Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

PATH = path_of("qwen35-122b")
TEXT = rules("qwen35-122b", GUEST_GPUS)
BOOT = {"gpus": {"persist": "boot"}}
NEW = {"speculative_algorithm": "NEXTN"}
OTHERS = "# by somebody, from before\n"
ON = {**dict.fromkeys(SERVING_GPUS, "nvidia"), **dict.fromkeys(GUEST_GPUS, "vfio-pci")}
OFF = dict.fromkeys((*SERVING_GPUS, *GUEST_GPUS), "nvidia")


def file_of(stage: Rehearsal) -> tuple[str, int] | None:
    files = stage.scene.hypervisor.files
    return (files.read(PATH).decode(), files.stat(PATH).mode) if files.exists(PATH) else None


async def drivers_after_a_boot(stage: Rehearsal) -> Mapping[str, str | None]:
    await stage.scene.hypervisor.reboot()
    return (await stage.state()).drivers


def end(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


async def left_on(stage: Rehearsal) -> str:
    """What interlock still keeps on the GPU host beside its fence."""
    found = await stage.scene.hypervisor.execute(
        ("sudo", "-n", "--", "find", "/var/lib/interlock", "-type", "f"), user="interlock"
    )
    return " ".join(path for path in found.text.split() if not path.endswith("/fence"))


@in_virtual_time
async def test_a_map_that_is_kept_is_there_after_a_boot_and_none_takes_it_back_without_an_outage() -> None:
    async with rehearsal() as stage:
        ended = await stage.roll_out(**BOOT)
        assert end(ended)[0] == "promoted", end(ended)
        assert file_of(stage) == (TEXT, 0o644)
        assert await left_on(stage) == ""
        assert await drivers_after_a_boot(stage) == ON
        again = await stage.roll_out(**BOOT)
        assert end(again)[0] == "unchanged"
        assert "8 GPUs are on their drivers, now and after a boot" in end(again)[1]
        before = await stage.state()
        taken_back = await stage.roll_out()
        assert end(taken_back)[0] == "promoted", end(taken_back)
        assert taken_back.concluded is not None
        assert taken_back.concluded.dark_s is None
        assert file_of(stage) is None
        assert await stage.state() == before
        assert await drivers_after_a_boot(stage) == OFF


@in_virtual_time
async def test_without_the_choice_nothing_for_the_boot_is_written() -> None:
    async with rehearsal() as stage:
        ended = await stage.roll_out()
        assert end(ended)[0] == "promoted", end(ended)
        assert not stage.scene.hypervisor.files.names("/etc/udev/rules.d")
        assert await drivers_after_a_boot(stage) == OFF


@in_virtual_time
async def test_persistence_alone_stops_nothing_and_is_held_to_no_change_of_speed() -> None:
    async with rehearsal() as stage:
        assert end(await stage.roll_out())[0] == "promoted"
        before = await stage.state()
        faster = [{"claim": "throughput", "at_least": "+50%", "concurrency": [1]}]
        ended = await stage.roll_out(**BOOT, claims=faster)
        assert end(ended)[0] == "promoted", end(ended)
        assert ended.plan is not None
        assert ended.plan.dark_s is None
        assert [step.kind for step in ended.plan.steps] == ["stage-files", "arm-timer", "install-files"]
        assert "gpu-drivers" in [verdict.claim for verdict in ended.verdicts]
        assert file_of(stage) == (TEXT, 0o644)
        assert await stage.state() == before


@pytest.mark.parametrize("old", [pytest.param(None, id="absent"), pytest.param(OTHERS, id="another-content")])
@in_virtual_time
async def test_rolled_back_the_file_is_as_it_was_byte_for_byte(old: str | None) -> None:
    async with rehearsal(faults=[{"fault": "flag-ignored", "when": NEW}]) as stage:
        if old is not None:
            stage.scene.hypervisor.files.write(PATH, old, mode=0o600)
        before = file_of(stage)
        ended = await stage.roll_out(**BOOT)
        assert end(ended)[0] == "rolled-back", end(ended)
        assert file_of(stage) == before
        assert await left_on(stage) == ""
        assert await drivers_after_a_boot(stage) == OFF


@in_virtual_time
async def test_persistence_alone_that_is_refuted_is_taken_back_and_the_service_never_stopped() -> None:
    async with rehearsal() as stage:
        assert end(await stage.roll_out())[0] == "promoted"
        before = await stage.state()
        faster = [{"claim": "throughput", "at_least": 1_000_000, "concurrency": [1]}]
        outcome, summary = end(ended := await stage.roll_out(**BOOT, claims=faster))
        assert (outcome, "throughput-1 refuted" in summary) == ("rolled-back", True), summary
        assert [key for key in ended.attempts if "service" in key] == []
        assert file_of(stage) is None
        assert await stage.state() == before


@in_virtual_time
async def test_a_host_without_udev_is_refused_before_anything_is_touched() -> None:
    async with rehearsal() as stage:
        stage.scene.hypervisor.files.remove("/etc/udev/rules.d")
        outcome, summary = end(await stage.roll_out(**BOOT))
        assert outcome == "refused"
        assert "gpus.persist: no udev on hypervisor would read rules at a boot: no /etc/udev/rules.d there" in summary


@in_virtual_time
async def test_rules_of_another_service_that_contradict_the_map_are_told() -> None:
    async with rehearsal() as stage:
        other = path_of("another")
        stage.scene.hypervisor.files.write(other, rules("another", [SERVING_GPUS[0], GUEST_GPUS[0]]) or "")
        ended = await stage.roll_out(**BOOT)
        assert end(ended)[0] == "promoted", end(ended)
        passed = ended.done["preflight"]
        assert isinstance(passed, PreflightPassed)
        (told,) = [warning for warning in passed.warnings if "at a boot" in warning]
        assert told == (
            f"gpus: at a boot {other} on hypervisor keeps {SERVING_GPUS[0]} for vfio-pci; this map has it on nvidia"
        )
        assert stage.scene.hypervisor.files.exists(other)


@in_virtual_time
async def test_with_the_orchestrator_gone_the_gpu_hosts_timer_restores_the_file() -> None:
    async with rehearsal() as stage:
        stage.scene.hypervisor.files.write(PATH, OTHERS)
        before, drivers = file_of(stage), (await stage.state()).drivers
        with pytest.raises(Killed):
            await asyncio.gather(stage.roll_out(**BOOT), killed_once_on(stage, "vfio-pci"))
        assert file_of(stage) == (TEXT, 0o644)
        await asyncio.sleep(120)
        assert (file_of(stage), (await stage.state()).drivers) == (before, drivers)
        assert end(await stage.recover())[0] == "rolled-back"
        assert file_of(stage) == before


async def killed_once_on(stage: Rehearsal, driver: str) -> None:
    while stage.scene.hypervisor.pci.functions[GUEST_GPUS[0]].driver != driver:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.001)
    stage.fuse.at = stage.fuse.passed + 1


STRIDE = 4 if EVERY else 24
"""All moments of a rollout without the file are in `test_killed`; `make moments` takes more of these too."""

WAYS = [
    pytest.param((), False, 1.0, id="promoted"),
    pytest.param(({"fault": "flag-ignored", "when": NEW},), False, 1.0, id="refuted"),
    pytest.param((), False, 120.0, id="left-alone-until-the-timers-fired"),
    pytest.param((), True, 1.0, id="alone-beside-the-service"),
    pytest.param((), True, 120.0, id="alone-and-left-alone"),
]


@pytest.mark.parametrize(("faults", "alone", "away_s"), WAYS)
def test_killed_at_any_moment_file_and_drivers_are_old_or_new_together(
    faults: tuple[Mapping[str, Any], ...], alone: bool, away_s: float
) -> None:
    @in_virtual_time
    async def run() -> None:
        moment = 2
        while True:
            async with rehearsal(faults=faults) as stage:
                if alone:
                    assert end(await stage.roll_out())[0] == "promoted"
                drivers = (await stage.state()).drivers
                stage.fuse = Fuse(at=moment)
                try:
                    await stage.roll_out(**BOOT)
                except Killed:
                    await asyncio.sleep(away_s)
                else:
                    assert moment > 40
                    return
                streams = await stage.store.streams("rollout-")
                stage.fuse = Fuse()
                if await stage.is_unfinished():
                    await stage.recover()
                assert not await stage.is_unfinished(), moment
                after, kept = await stage.state(), file_of(stage)
                assert (kept, after.drivers) in (((TEXT, 0o644), ON), (None, drivers)), (moment, streams)
                assert after.active == "active", moment
                assert after.leftovers == (), moment
                assert not kept or not faults, moment
            moment += STRIDE

    run()
