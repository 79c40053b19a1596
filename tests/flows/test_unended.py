"""A rollout that is proven, and whose last step fails for good: the command says so, and the next session ends it."""

import asyncio
import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from deployments.run import report
from tests.flows.host_faults import recorded
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time


async def refuses_from(stage: Rehearsal, action: str) -> None:
    """From that action on, the host runs no fenced script."""

    def fence(words: Sequence[str]) -> bool:
        return words[:2] == ("grep", "-qxF") and "fence" in words[-1]

    await recorded(stage, "action-started", action)
    stage.scene.serving.faults.fail(fence, times=None)


@in_virtual_time
async def test_the_command_names_what_failed_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    async with rehearsal() as stage:
        refusing = asyncio.create_task(refuses_from(stage, "soak"))
        ended = await stage.roll_out(policy={"soak": "5s"})
        await refusing
        assert (ended.concluded, ended.released) == (None, False)
        assert report(Console(file=io.StringIO()), [ended], as_json=False) == 1
        said = capsys.readouterr().err
        assert ended.requested is not None
        name = ended.requested.rollout
        assert said.startswith(f"error: Rollout {name} has not ended: ")
        assert said.endswith(f"hint: `interlock recover {name}` goes on with it\n")
        assert "Traceback" not in said
        stage.scene.serving.faults.clear()
        gone_on = await stage.recover()
        assert gone_on.concluded is not None
        assert gone_on.concluded.outcome == "promoted"
