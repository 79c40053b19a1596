"""Each way a rollout can go, on a host with a systemd of its own: the ends that the simulated host comes to."""

import re
from pathlib import Path
from typing import Any

import pytest

from flows.ports import Watch
from state.rollout import Rollout
from tasks.practice.scene import UNIT, UNIT_FILE
from tests.flows.test_rollout_endings import ENDINGS, fault
from tests.lab.contained import Stage, stage, unit_with

pytestmark = pytest.mark.lab
PYTHON = "/opt/sglang/bin/python"


def end(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


async def test_a_whole_start_is_proven_and_promoted(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        ended = await made.roll_out()
        assert end(ended)[0] == "promoted", end(ended)
        assert {v.outcome for v in ended.verdicts} == {"held"}
        assert ended.released
        after = await made.state()
        assert "--speculative-algorithm" in after.argv
        assert (after.active, after.units, after.reload) == ("active", (), "no")
        assert end(await made.roll_out())[0] == "unchanged"


@pytest.mark.parametrize(("scripted", "cause", "remedy"), ENDINGS)
async def test_a_broken_start_is_found_and_the_old_state_put_back(
    tmp_path: Path, scripted: dict[str, Any], cause: str, remedy: str
) -> None:
    async with stage(tmp_path, scripted) as made:
        before = await made.state()
        ended = await made.roll_out()
        outcome, summary = end(ended)
        assert outcome == "rolled-back", summary
        assert re.search(cause, summary), summary
        assert await made.state() == before
        first = list(ended.failures.values()) or [v for v in ended.judged["new:1"].verdicts if v.remedy]
        told = " ".join(getattr(x, "hint", "") or getattr(x, "remedy", "") for x in first)
        assert re.search(remedy, told, re.IGNORECASE), told


async def test_a_unit_that_systemd_refuses_is_told_before_the_stop(tmp_path: Path) -> None:
    async with stage(tmp_path) as made:
        await put(made, f"/etc/systemd/system/{UNIT}.d/before.conf", "[Service]\nExecStartPre=/no/such/program\n")
        before = await made.state()
        outcome, summary = end(await made.roll_out())
        assert (outcome, await stops(made)) == ("aborted", 0), summary
        assert re.search(rf"systemd on serving refuses {UNIT}: .*/no/such/program", summary), summary
        assert await made.state() == before


async def test_an_engine_behind_a_wrapper_is_known_by_its_arguments(tmp_path: Path) -> None:
    """The wrapper becomes the engine: the process has another program's name, and the same arguments."""
    async with stage(tmp_path, unit=unit_with((f"ExecStart={PYTHON}", f"ExecStart={PYTHON}-wrapper"))) as made:
        wrapped = {"command": [f"{PYTHON}-wrapper", "-m", "sglang.launch_server"]}
        ended = await made.roll_out(engine=wrapped)
        assert end(ended)[0] == "promoted", end(ended)
        assert (await made.state()).argv[:2] == ("/usr/bin/python3", "-S")
        assert end(await made.roll_out(engine=wrapped))[0] == "unchanged"


async def test_a_restart_loop_is_no_start(tmp_path: Path) -> None:
    """systemd starts it again and again: a later start that came up would not be the one that was asked for."""
    dies = fault("crash-loading-draft")
    async with stage(tmp_path, dies) as made:
        before = await made.state()
        outcome, summary = end(await made.roll_out(unit={"restart": "always"}))
        assert outcome == "rolled-back", summary
        assert re.search("The engine failed", summary), summary
        assert await made.state() == before


async def test_a_unit_changed_on_disk_is_warned_of_and_put_back_as_it_was(tmp_path: Path) -> None:
    """systemd has not read the file: the rollback gives the file back, and systemd then has read it."""
    async with stage(tmp_path, fault("flag-ignored")) as made:
        changed = made.path(UNIT_FILE).read_text().replace("Description=", "Description=Changed ")
        made.path(UNIT_FILE).write_text(changed)
        before = await made.state()
        assert before.reload == "yes"
        told: list[str] = []
        watch = Watch(recorded=lambda _, event: told.extend(event.data.get("warnings", ())))
        ended = await made.roll_out(watch=watch)
        assert end(ended)[0] == "rolled-back", end(ended)
        assert [warning for warning in told if f"{UNIT} was changed on disk" in warning]
        after = await made.state()
        assert (after.files, after.argv, after.reload) == (before.files, before.argv, "no")


async def put(made: Stage, path: str, text: str) -> None:
    """Write a file of the host and let systemd read it."""
    made.path(path).parent.mkdir(parents=True, exist_ok=True)
    made.path(path).write_text(text)
    await made.run("systemctl", "daemon-reload")


async def stops(made: Stage) -> int:
    """How often systemd has stopped the service."""
    return (await made.journal(f"--unit={UNIT}")).count(f"Stopping {UNIT}")
