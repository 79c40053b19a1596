"""Ten rows of the table of what operators ask, on container hosts: what is broken is told by the same claim or action
as on the simulated host, and the host is as it was before."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from state.rollout import Rollout
from tests.flows.operator_asks import METRICS, NEW, OFFERS, ROWS, WHOLE, Conduct, Row
from tests.flows.test_operator_asks import check, check_whole
from tests.lab.contained import Stage, stage

pytestmark = pytest.mark.lab
LAB_ROWS = [row for row in ROWS if row.lab]
SLOW = {"fault": "slow-load", "when": NEW, "seconds": 8}
SOUND = Conduct(scene={"faults": [SLOW]}, arguments=METRICS, changes=OFFERS)
"""Everything is asked for, and loading takes longer than the broken row of B13 allows."""


async def conducted(made: Stage, conduct: Conduct) -> Rollout:
    made.script_faults(*conduct.scene.get("faults", ()))
    for path, text in conduct.files.items():
        made.put(path, text)
    await made.run("systemctl", "daemon-reload")
    try:
        return await made.roll_out(conduct.arguments, **conduct.changes)
    finally:
        made.script_faults()
        for path in conduct.files:
            made.path(path).unlink()
            made.path(path).parent.rmdir()
        await made.run("systemctl", "daemon-reload")


async def each_is_told(made: Stage, rows: Sequence[Row]) -> None:
    before = await made.state()
    for row in rows:
        check(row, await conducted(made, row.conduct))
        assert await made.state() == before, row.id


async def all_is_held(made: Stage, name: str) -> None:
    """What is slow to load is whole as well, and everything is asked for."""
    adaptive = "adaptive, nothing accepted"
    ended = await conducted(made, WHOLE[name] if name == adaptive else SOUND)
    check_whole([row for row in LAB_ROWS if (row.whole == adaptive) == (name == adaptive)], ended)


async def test_what_is_broken_is_told_and_what_is_whole_is_held(tmp_path: Path) -> None:
    """Three hosts side by side, each with a store of its own: they have the same service."""
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(stage(folder(tmp_path, name))) for name in ("one", "two", "three")]
        async with asyncio.TaskGroup() as side:
            side.create_task(each_is_told(hosts[0], LAB_ROWS[::3]))
            side.create_task(told_and_held(hosts[1], LAB_ROWS[1::3], "everything asked for"))
            side.create_task(told_and_held(hosts[2], LAB_ROWS[2::3], "adaptive, nothing accepted"))


async def told_and_held(made: Stage, rows: Sequence[Row], whole: str) -> None:
    await each_is_told(made, rows)
    await all_is_held(made, whole)


def folder(below: Path, name: str) -> Path:
    made = below / name
    made.mkdir()
    return made
