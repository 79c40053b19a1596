"""A soak before promotion: the proven start has to last."""

import asyncio

import pytest

from tasks.practice.scene import UNIT, USER
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time


@in_virtual_time
async def test_a_start_that_lasts_is_promoted_after_its_soak() -> None:
    async with rehearsal() as stage:
        begun = asyncio.get_running_loop().time()
        ended = await stage.roll_out(policy={"soak": "2m", "timer": "60s"})
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted", ended.concluded.summary
        assert asyncio.get_running_loop().time() - begun > 120
        assert "soak" in ended.done


@pytest.mark.parametrize("harm", [("restart",), ("kill", "--signal=SIGKILL")], ids=["restarted", "killed"])
def test_a_start_that_does_not_last_is_rolled_back(harm: tuple[str, ...]) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            before = await stage.state()
            harming = asyncio.create_task(_harm_during_the_soak(stage, harm))
            ended = await stage.roll_out(policy={"soak": "2m", "timer": "60s"})
            await harming
            assert ended.concluded is not None
            assert ended.concluded.outcome == "rolled-back"
            assert "The engine failed (exited)" in ended.concluded.summary
            assert (await stage.state()) == before

    run()


@in_virtual_time
async def test_a_map_of_drivers_that_does_not_last_is_rolled_back() -> None:
    async with rehearsal() as stage:
        before = await stage.state()

        async def boot() -> None:
            await asyncio.sleep(60)
            await stage.scene.hypervisor.reboot()

        booting = asyncio.create_task(boot())
        ended = await stage.roll_out(policy={"soak": "2m", "timer": "60s"})
        await booting
        assert ended.concluded is not None
        assert ended.concluded.outcome == "rolled-back", ended.concluded.summary
        assert "120 s after the proof, and not as the manifest says" in ended.concluded.summary
        assert (await stage.state()) == before


async def _harm_during_the_soak(stage: Rehearsal, harm: tuple[str, ...]) -> None:
    await asyncio.sleep(60)
    verb, *options = harm
    await stage.scene.serving.execute(("sudo", "-n", "--", "systemctl", verb, *options, "--", UNIT), user=USER)
