"""Every row of the table of what operators ask: refuted when it is broken, by the one who should say so; held when it
is whole."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from flows.prove import judged
from state.claims import Verdict
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tests.flows.operator_asks import ASKS, RECORDED, ROWS, UNDECIDED, WHOLE, Conduct, Row
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time


async def conducted(stage: Rehearsal, conduct: Conduct) -> Rollout:
    """The rollout that the conduct describes, with what befalls the host beside it."""
    if conduct.earlier:
        assert ending(await stage.roll_out(traffic={"tokens": 96})) == "promoted"
    for path, text in conduct.files.items():
        stage.scene.serving.files.put(path, text)
    await stage._run("systemctl", "daemon-reload")
    if conduct.meanwhile is None:
        return await stage.roll_out(conduct.arguments, **conduct.changes)
    beside = asyncio.ensure_future(conduct.meanwhile(stage))
    await asyncio.sleep(1)
    ended = await stage.roll_out(conduct.arguments, **conduct.changes)
    await beside
    stage.scene.serving.faults.clear()
    return ended


def ending(ended: Rollout) -> str:
    assert ended.concluded is not None
    return ended.concluded.outcome


def verdicts(ended: Rollout) -> dict[str, Verdict]:
    """Of the new side, as last judged."""
    found = [j for j in ended.judged.values() if j.side == "new"]
    return {v.claim: v for v in found[-1].verdicts} if found else {}


async def warnings(stage: Rehearsal) -> str:
    events: Sequence[RecordedEvent] = await stage.store.read_all()
    return " ".join(w for e in events if e.type == "preflight-passed" for w in e.data["warnings"])


def told(ended: Rollout, name: str) -> str:
    """Message and hint of the action that failed."""
    failed = [error for key, error in ended.failures.items() if name in key]
    return f"{failed[0].message} {failed[0].hint}" if failed else f"nobody; it ended: {ended.concluded}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
def test_what_is_broken_is_told_by_the_one_who_should(row: Row) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(**row.conduct.scene) as stage:
            ended = await conducted(stage, row.conduct)
            said = await warnings(stage) if row.by == "warning" else ""
        check(row, ended, said)

    run()


def check(row: Row, ended: Rollout, warned: str = "") -> None:
    """The row's decider said what it should, and the rollout ended as that demands."""
    if row.by == "claim":
        found = verdicts(ended)[row.name]
        assert (found.outcome, ending(ended)) == (row.result, "rolled-back"), found.reason
        assert re.search(row.says, found.reason), found.reason
        assert found.remedy
    elif row.by == "action":
        assert ending(ended) == row.result, ended.concluded
        assert re.search(row.says, told(ended, row.name), re.DOTALL), told(ended, row.name)
    else:
        assert ending(ended) == "promoted"
        assert re.search(row.says, warned), warned


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_whole_is_held(name: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(**WHOLE[name].scene) as stage:
            ended = await conducted(stage, WHOLE[name])
            assert await warnings(stage) == ""
            check_whole([row for row in ROWS if row.whole == name], ended)
            if name == "everything asked for":
                await lose_each_piece(stage, ended)

    run()


def check_whole(rows: Sequence[Row], ended: Rollout) -> None:
    """Everything is held, and whoever said that a row was broken says that it is whole."""
    assert ending(ended) == "promoted", ended.concluded
    found = verdicts(ended)
    assert {v.outcome for v in found.values()} == {"held"}
    assert [row.id for row in rows if row.by == "claim" and row.name not in found] == []
    passed = " ".join(ended.done)
    assert [row.id for row in rows if row.by == "action" and row.name not in passed] == []


PIECES = ("unit", "cmdline", "journal", "answers", "generations", "load", "metrics", "models", "kernel")


async def lose_each_piece(stage: Rehearsal, ended: Rollout) -> None:
    """The record holds argv, version, prompts, raw lines and what was left out as warm-up; and without any one piece of
    it something that was held is open, and nothing else changes."""
    assert RECORDED.result == "inconclusive"
    plan, key = ended.plan, [key for key in ended.gathered if key.startswith("new:")][-1]
    assert plan is not None
    assert plan.target.engine_version == "0.5.20"
    items, round_ = ended.gathered[key], int(key.rpartition(":")[2])
    kept = {name: await stage.evidence.get(items[name].digest) for name in PIECES}
    assert kept["cmdline"].split(b"\0")[:-1] == [word.encode() for word in plan.target.argv]
    assert all(word in kept["journal"] for word in (b"server_args=", b"Decode batch", b"accept len: "))
    assert all(word in kept["load"] for word in (b'"warm_up": true', b'"warm_up": false', b'"first_token_s": '))
    assert all(b'"prompt": ' in kept[name] for name in ("answers", "generations"))
    for piece in PIECES:
        left: dict[str, Any] = {name: item for name, item in items.items() if name.partition("@")[0] != piece}
        again = await judged(stage.evidence, plan, "again", 1, "new", round_, left)
        outcomes = {v.outcome for v in again.verdicts if v.outcome != "held"}
        assert outcomes == {RECORDED.result}, piece


def test_every_ask_is_in_the_table_or_said_to_be_undecided() -> None:
    assert sorted({row.ask for row in (*ROWS, RECORDED)} | set(UNDECIDED)) == sorted(ASKS)
    assert not {row.ask for row in ROWS} & set(UNDECIDED)
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.whole for row in ROWS} == set(WHOLE)
    assert sum(row.lab for row in ROWS) == 10
