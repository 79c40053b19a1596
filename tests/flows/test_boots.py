"""A host that boots in the middle of a rollout: the PIDs that were noted before are other processes' after it."""

import asyncio

import pytest

from tasks.practice.gpus import Stranger
from tests.flows.host_faults import recorded
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

SSHD = ("sshd: interlock [priv]",)


async def boots_and_the_pids_go_to_others(stage: Rehearsal, kind: str, action: str) -> set[int]:
    """The PIDs, which strangers have once the host is up again."""
    await recorded(stage, kind, action)
    (noted,) = [e.data["pids"] for e in await stage.store.read_all() if e.type == "baseline-recorded"]
    await stage.scene.serving.reboot()
    stage.scene.serving.strangers.update({pid: Stranger(SSHD, (), ()) for pid in noted})
    return set(noted)


@pytest.mark.parametrize("leftovers", ["refuse", "kill"])
@pytest.mark.parametrize(
    ("kind", "action", "outcome"),
    [
        pytest.param("step-succeeded", "do:2:arm-timer", "promoted", id="before-the-stop"),
        pytest.param("action-started", "await-readiness:new", "rolled-back", id="before-the-way-back"),
    ],
)
@in_virtual_time
async def test_who_has_the_services_pids_after_a_boot_is_neither_in_the_way_nor_ended(
    kind: str, action: str, outcome: str, leftovers: str
) -> None:
    async with rehearsal() as stage:
        ended, noted = await asyncio.gather(
            stage.roll_out(unit={"stop": {"leftovers": leftovers}}),
            boots_and_the_pids_go_to_others(stage, kind, action),
        )
        assert ended.concluded is not None
        assert ended.concluded.outcome == outcome, ended.concluded.summary
        assert noted
        assert set(stage.scene.serving.strangers) == noted
