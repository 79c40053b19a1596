"""An orchestrator killed at every append and every round trip: the next one comes to the same end."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.flows.rehearsal import PARTS, Fuse, HostState, Killed, moments_of, rehearsal
from tests.practice.virtual_time import in_virtual_time

NEW = {"speculative_algorithm": "NEXTN"}
WAYS = [
    pytest.param((), id="promoted"),
    pytest.param(({"fault": "flag-ignored", "when": NEW},), id="refuted"),
    pytest.param(({"fault": "crash-loading-draft", "when": NEW},), id="start-failed"),
]


@dataclass(frozen=True)
class End:
    outcome: str
    host: HostState
    moments: int


async def whole(faults: Sequence[Mapping[str, Any]]) -> End:
    """The uninterrupted run, and how many moments it has."""
    async with rehearsal(faults=faults) as stage:
        ended = await stage.roll_out()
        assert ended.concluded is not None
        return End(ended.concluded.outcome, await stage.state(), stage.fuse.passed)


async def killed_at(
    moment: int, faults: Sequence[Mapping[str, Any]], away_s: float
) -> tuple[str, HostState, HostState]:
    """Die at the moment, be away for a while, be recovered: the ending, the host before and after."""
    async with rehearsal(faults=faults) as stage:
        before = await stage.state()
        stage.fuse = Fuse(at=moment)
        try:
            await stage.roll_out()
        except Killed:
            await asyncio.sleep(away_s)
        stage.fuse = Fuse()
        if not await stage.store.streams("rollout-"):
            return "nothing recorded", before, await stage.state()
        ended = await stage.recover()
        assert ended.concluded is not None
        assert not await stage.is_unfinished()
        return ended.concluded.outcome, before, await stage.state()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("faults", WAYS)
def test_every_moment_of_death_leads_to_the_same_end(faults: Sequence[Mapping[str, Any]], part: int) -> None:
    @in_virtual_time
    async def run() -> None:
        end = await whole(faults)
        assert end.moments > 50
        for moment in moments_of(part, end.moments):
            outcome, before, after = await killed_at(moment, faults, away_s=1.0)
            if outcome == "nothing recorded":
                assert after == before, moment
                continue
            assert outcome == end.outcome, moment
            assert after.leftovers == (), moment
            assert same_but_pids(after, end.host), moment

    run()


@pytest.mark.parametrize("part", range(PARTS))
def test_a_host_left_alone_for_longer_than_its_timer_has_healed_itself(part: int) -> None:
    """Whatever the moment of death: after the timer's deadline the host is old or new, whole, and answers."""

    @in_virtual_time
    async def run() -> None:
        end = await whole(())
        for moment in moments_of(part, end.moments):
            outcome, before, after = await killed_at(moment, (), away_s=120.0)
            assert outcome in ("promoted", "rolled-back", "unchanged", "nothing recorded"), (moment, outcome)
            assert same_but_pids(after, end.host if outcome in ("promoted", "unchanged") else before), moment
            assert after.leftovers == (), moment

    run()


def same_but_pids(one: HostState, other: HostState) -> bool:
    return (one.unit_file, one.drivers, one.active, one.argv) == (
        other.unit_file,
        other.drivers,
        other.active,
        other.argv,
    )
