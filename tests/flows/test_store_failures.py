"""Every call on the store of a whole rollout fails once, for good, or without an answer: how it ends, and what is told.

All moments with INTERLOCK_EVERY_MOMENT=1 (`make moments`); the simulation does the same with hosts that are quicker
(`tests/simulation/test_store_calls.py`), and checks its invariants after each.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.history import History
from flows.session import resume
from flows.spooled import flush_left
from state.errors import InterlockError, Refused, StoreUnavailable
from state.rollout import Rollout
from state.store.verification import verify_history
from tests.flows.rehearsal import EVERY, HostState, rehearsal
from tests.flows.store_faults import STAGED, STOPPED, How, Line, ports_over, roll_out
from tests.flows.test_killed import same_but_pids
from tests.practice.virtual_time import in_virtual_time

STRIDE = 3 if EVERY else 31


@dataclass
class Told:
    """How one run went: what the command said, what the store knew then, what it knew once it was back."""

    call: str
    ended: Rollout | InterlockError
    then: str
    later: Rollout
    before: HostState
    after: HostState
    heard: list[str]
    left: list[str]
    calls: list[str]


async def failing(at: int, how: How, folder: Path) -> Told | None:
    """None if there is no such call any more, or nothing to go on with: the request itself was not recorded."""
    async with rehearsal() as stage:
        line, heard = Line(at, how), list[str]()
        ports = ports_over(stage, line, folder, heard)
        before = await stage.state()
        ended: Rollout | InterlockError
        try:
            ended = await roll_out(stage, ports)
        except InterlockError as error:
            ended = error
        if len(line.calls) < at:
            return None
        streams = await stage.store.streams("rollout-")
        if not streams:
            assert isinstance(ended, StoreUnavailable)
            assert await stage.state() == before
            return None
        name, calls = streams[0].removeprefix("rollout-"), list(line.calls)
        then = (await History(stage.ports(), name).load()).concluded
        line.mended()
        await flush_left(ports)
        later = await History(stage.ports(), name).load()
        if not later.ended:
            later = await resume(ports, name)
        assert (await verify_history(stage.store)).faults == ()
        told = then.outcome if then else ""
        return Told(calls[at - 1], ended, told, later, before, await stage.state(), heard, left_in(folder), calls)


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name != "reserve"] if folder.exists() else []


def stage_of(told: Told, at: int) -> str:
    """`before` a host was changed, `guards` before the stop, or `after` it."""
    earlier = " ".join(told.calls[: at - 1])
    return "after" if STOPPED in earlier else "guards" if STAGED in earlier else "before"


def check(told: Told, at: int, how: How) -> None:
    assert told.left == [], told.call
    assert told.after.leftovers == (), told.call
    assert told.later.ended, told.call
    assert told.later.concluded is not None
    outcome = told.later.concluded.outcome
    promoted = told.after.unit_file != told.before.unit_file
    assert promoted == (outcome == "promoted"), told.call
    assert same_but_pids(told.after, told.before) or promoted, told.call
    if isinstance(told.ended, InterlockError):
        assert isinstance(told.ended, Refused), told.call
        assert stage_of(told, at) == "before", told.call
        assert "nothing was touched" in told.ended.hint
        return
    assert told.ended.concluded is not None
    assert told.ended.concluded.outcome == outcome, told.call
    match stage_of(told, at), how:
        case "guards", "for-good":
            assert outcome in ("aborted", "rolled-back"), told.call
        case _:
            assert outcome == "promoted", told.call
    if how == "for-good" and stage_of(told, at) != "before":
        assert any("wait in" in sentence for sentence in told.heard), told.call


def test_a_store_lost_around_the_stop_turns_back_before_it_and_goes_on_after_it(tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        line = Line()
        async with rehearsal() as stage:
            await roll_out(stage, ports_over(stage, line, tmp_path / "whole", []))
        stop = next(n for n, call in enumerate(line.calls, 1) if STOPPED in call)
        ends = {}
        for at in range(stop - 6, stop + 3):
            told = await failing(at, "for-good", tmp_path / str(at))
            assert told is not None
            check(told, at, "for-good")
            assert told.later.concluded is not None
            ends[at - stop] = told.later.concluded.outcome
        assert [ends[n] for n in (-1, 0, 1, 2)] == ["rolled-back", "rolled-back", "promoted", "promoted"]
        assert set(ends.values()) == {"aborted", "rolled-back", "promoted"}

    run()


HOWS = [pytest.param("once"), pytest.param("for-good"), pytest.param("answer-lost", id="done-but-not-answered")]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("part", range(3))
def test_whatever_call_fails_the_rollout_ends_as_it_says(how: How, part: int, tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        at, seen = 1 + part * STRIDE // 3 + len(how) % 3, set()
        while True:
            told = await failing(at, how, tmp_path / str(at))
            if told is not None:
                check(told, at, how)
                seen.add(stage_of(told, at))
            elif at > 20:
                break
            at += STRIDE
        assert "after" in seen
        assert at > 90

    run()
