"""What an earlier start loaded is remembered, and held against the estimate before the next start."""

from typing import Any

import pytest

from state.rollout import Rollout
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

PLAIN = {"speculative_algorithm": None, "speculative_num_steps": None, "speculative_draft_model_path": None}
PLAIN |= {"speculative_eagle_topk": None, "speculative_num_draft_tokens": None}


async def fit(stage: Rehearsal, ended: Rollout) -> str:
    """What the preflight of a rollout said of memory."""
    assert ended.requested is not None
    events = await stage.store.read(f"rollout-{ended.requested.rollout}")
    checks = [check for event in events if event.type == "preflight-passed" for check in event.data["checks"]]
    (found,) = [check for check in checks if check.startswith("the weights need about")]
    return str(found)


def weights(ended: Rollout) -> float:
    """GB on the fullest rank, as the newest judgement has them."""
    facts = [fact for judged in ended.judged.values() for fact in judged.facts if fact.metric == "memory.weights_gb"]
    return float(facts[-1].value)


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        pytest.param({}, {"mem_fraction_static": 0.7}, True, id="the-same-weights-with-another-argument"),
        pytest.param({}, PLAIN, False, id="without-the-draft-it-is-another-load"),
    ],
)
def test_the_next_start_knows_what_the_last_one_loaded(
    first: dict[str, Any], second: dict[str, Any], known: bool
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            before = await stage.roll_out(first, claims=[])
            assert before.concluded is not None
            assert before.concluded.outcome == "promoted", before.concluded.summary
            assert "an earlier start" not in await fit(stage, before), "nothing is known of the first"
            told = await fit(stage, await stage.roll_out(second, claims=[]))
            assert (f"; an earlier start loaded {weights(before):.1f} GB" in told) is known, told

    run()


def test_a_start_that_was_turned_back_is_no_measure() -> None:
    @in_virtual_time
    async def run() -> None:
        fault = {"fault": "accept-nothing", "when": {"speculative_num_steps": 4}}
        async with rehearsal(faults=[fault]) as stage:
            refuted = await stage.roll_out({"speculative_num_steps": 4, "speculative_num_draft_tokens": 5}, claims=[])
            assert refuted.concluded is not None
            assert refuted.concluded.outcome == "rolled-back", refuted.concluded.summary
            assert "an earlier start" not in await fit(stage, await stage.roll_out(claims=[]))

    run()
