"""A first generation may come before the engine's own word: readiness counts from it, traffic waits for the word."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from state.event import Event
from state.events import ActionFailed, EvidenceGathered, ReadinessReached, decode
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

WARM_UP_S = 4.0
SLOW_TO_WARM_UP = {"stage_seconds": {"warm-up": WARM_UP_S}}
FAILS = ({"fault": "warm-up-failed"},)


@in_virtual_time
async def test_a_generation_is_readiness_and_traffic_waits_for_the_word() -> None:
    async with rehearsal(settings=SLOW_TO_WARM_UP) as made:
        await made.roll_out()
        told = await history(made)
    begun, _ = told["action-started", "await-readiness:new"]
    ready, fact = told[ReadinessReached.wire, "await-readiness:new"]
    over, _ = told[EvidenceGathered.wire, "verify:new:1"]
    assert isinstance(fact, ReadinessReached)
    assert "generating" in dict(fact.stages)
    assert "ready" not in dict(fact.stages)
    assert (over - begun).total_seconds() >= WARM_UP_S > (ready - begun).total_seconds()


@pytest.mark.parametrize(
    ("faults", "settings"),
    [
        pytest.param(FAILS, SLOW_TO_WARM_UP, id="long-after-the-first-generation"),
        pytest.param(FAILS, {}, id="just-after-it"),
    ],
)
@in_virtual_time
async def test_what_ends_a_start_before_its_word_is_told_by_its_cause(
    faults: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> None:
    async with rehearsal(faults=faults, settings=settings) as made:
        ended = await made.roll_out()
        told = await history(made)
    assert ended.concluded is not None
    assert ended.concluded.outcome == "rolled-back"
    begun, _ = told["action-started", "verify:new:1"]
    failed, fact = told[ActionFailed.wire, "verify:new:1"]
    assert isinstance(fact, ActionFailed)
    assert "(warm-up-failed)" in fact.error.message
    assert fact.error.hint
    assert (failed - begun).total_seconds() < WARM_UP_S + 2


async def history(made: Rehearsal) -> dict[tuple[str, str], tuple[datetime, Event]]:
    """The newest event of each type and action, with its time."""
    (stream,) = await made.store.streams("rollout-")
    recorded = await made.store.read(stream)
    return {(one.type, str(one.data.get("action", ""))): (one.recorded_at, decode(one)) for one in recorded}
