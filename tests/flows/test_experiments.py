"""The seed's story as an experiment: NEXTN with 5 steps, a gain claimed of 12 to 45 %, before and after on one host.

The stand-in gains about 38 % at concurrency 1 and 6 % at 8: what an accept length of 3.4 saves, drafts cost again.
"""

from typing import Any

import pytest

from flows.replay import rejudge
from state.claims import Verdict
from state.rollout import Rollout
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

SHORT = {"tokens": 96}
NEW = {"speculative_algorithm": "NEXTN"}


def gain(bound: str, **changes: Any) -> dict[str, Any]:
    return {"claim": "throughput", "at_least": bound} | changes


def verdict(ended: Rollout, claim: str) -> Verdict:
    """The last one of the new side."""
    judged = [j for j in ended.judged.values() if j.side == "new"][-1]
    return next(v for v in judged.verdicts if v.claim == claim)


async def rolled_out(stage: Rehearsal, *claims: dict[str, Any], **changes: Any) -> Rollout:
    ended = await stage.roll_out(claims=list(claims), **({"traffic": SHORT} | changes))
    assert ended.requested is not None
    changed = [d async for _, found in rejudge(stage.ports(), ended.requested.rollout) for d in found]
    assert changed == [], "the same evidence is judged alike"
    return ended


def ending(ended: Rollout) -> str:
    assert ended.concluded is not None
    return ended.concluded.outcome


def test_a_gain_that_is_there_is_held_and_promoted() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            ended = await rolled_out(stage, gain("+12%"))
            found = verdict(ended, "throughput-change-1")
            assert ending(ended) == "promoted", found.reason
            assert found.estimate is not None
            assert found.estimate.low is not None
            assert found.estimate.low >= 0.12
            assert 0.25 < found.estimate.value < 0.45
            assert found.estimate.baseline == pytest.approx(330, rel=0.05), "tokens a second without speculation"
            assert found.estimate.noise is not None
            items = [i for key, i in ended.gathered.items() if key.startswith("new")][-1]
            cited = {items[name].digest for name in ("load", "baseline-load")}
            assert set(found.evidence) >= cited

    run()


def test_a_gain_that_is_smaller_is_refuted_and_the_old_state_put_back_with_the_reason() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            before = await stage.state()
            ended = await rolled_out(stage, gain("+45%"))
            found = verdict(ended, "throughput-change-1")
            assert (ending(ended), found.outcome) == ("rolled-back", "refuted")
            assert "wanted at least +45.0%" in found.reason
            assert found.refuting == "an interval that lies wholly below +45.0%"
            assert next(c.cause for c in found.causes) == "too few drafts are accepted"
            assert ended.concluded is not None
            assert "throughput-change-1 refuted: change +" in ended.concluded.summary
            assert await stage.state() == before

    run()


def test_noise_as_large_as_the_gain_leaves_it_open_and_the_report_says_how_noisy() -> None:
    @in_virtual_time
    async def run() -> None:
        noisy = {"noise": 0.3, "noise_seconds": 2.0}
        async with rehearsal(settings=noisy) as stage:
            ended = await rolled_out(stage, gain("+36%", within="30s"))
            found = verdict(ended, "throughput-change-1")
            assert (ending(ended), found.outcome) == ("rolled-back", "inconclusive"), found.reason
            assert found.estimate is not None
            assert found.estimate.noise is not None
            assert found.estimate.noise > 0.03
            assert "noise between repeats of the old" in found.reason
            assert found.sample > 3, "it went on until the budget was over"

    run()


def test_what_is_gained_alone_is_lost_under_load() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            ended = await rolled_out(stage, gain("+12%", concurrency=[1, 16]))
            alone, loaded = (verdict(ended, f"throughput-change-{level}").estimate for level in (1, 16))
            assert alone is not None
            assert loaded is not None
            assert alone.value > 0.25
            assert loaded.value < 0.05
            assert verdict(ended, "throughput-change-16").outcome == "refuted"

    run()


def test_an_open_claim_goes_by_its_own_policy() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[{"fault": "streams-break", "when": NEW}]) as stage:
            ended = await rolled_out(stage, gain("+12%", inconclusive="accept"))
            assert verdict(ended, "throughput-change-1").outcome == "inconclusive"
            assert verdict(ended, "throughput-change-1").doubt == "accept"

    run()


NEVER_HELD = [
    pytest.param({"fault": "streams-break", "when": NEW}, "stream broke off", id="broken-probe"),
    pytest.param({"fault": "streams-break"}, "stream broke off", id="broken-on-both-sides"),
    pytest.param(
        {"fault": "streams-break", "when": {"speculative_algorithm": None}},
        "not enough data: 0 of at least 3 samples of the baseline",
        id="a-baseline-that-could-not-be-measured",
    ),
]


@pytest.mark.parametrize(("fault", "reason"), NEVER_HELD)
def test_without_a_successful_request_nothing_is_held(fault: dict[str, Any], reason: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[fault]) as stage:
            before = await stage.state()
            ended = await rolled_out(stage, gain("+12%"), {"claim": "inter-token-latency", "at_most": "1s"})
            assert ending(ended) == "rolled-back"
            for judged in ended.judged.values():
                assert {v.outcome for v in judged.verdicts if v.plane == "performance"} <= {"inconclusive"} or (
                    reason.startswith("not enough")
                )
            found = verdict(ended, "throughput-change-1")
            assert found.outcome == "inconclusive"
            assert reason in found.reason
            assert await stage.state() == before

    run()


def test_a_full_queue_is_seen_by_goodput_and_is_no_throughput() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[{"fault": "overloaded", "above": 2, "when": NEW}]) as stage:
            ended = await rolled_out(
                stage,
                gain("+1%", concurrency=[8]),
                {"claim": "goodput", "at_least": "95%", "first_token": "2s", "inter_token": "50ms", "concurrency": [8]},
            )
            assert ending(ended) == "rolled-back"
            assert verdict(ended, "goodput-8").outcome == "refuted"
            assert "HTTP 503" in verdict(ended, "throughput-change-8").reason

    run()


def test_garbage_under_load_alone_is_no_throughput_and_no_goodput() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[{"fault": "garbage-in-company", "above": 4, "when": NEW}]) as stage:
            ended = await rolled_out(
                stage,
                {"claim": "throughput", "at_least": 100, "concurrency": [8]},
                {"claim": "goodput", "at_least": "95%", "first_token": "2s", "inter_token": "50ms", "concurrency": [8]},
            )
            assert ending(ended) == "rolled-back"
            names = ("throughput-8", "goodput-8", "not-degenerate")
            speed, good, sound = (verdict(ended, name) for name in names)
            assert (speed.outcome, good.outcome, sound.outcome) == ("inconclusive", "refuted", "refuted")
            assert "answers are degenerate" in speed.reason
            assert verdict(ended, "answers").outcome == "held", "alone and two at a time it is well"

    run()


def test_a_slower_release_is_found_by_latency_against_the_baseline() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[{"fault": "slower", "factor": 2, "when": NEW}]) as stage:
            ended = await rolled_out(stage, {"claim": "inter-token-latency", "at_most": "+10%"})
            assert ending(ended) == "rolled-back"
            found = verdict(ended, "inter-token-latency-change-1")
            assert found.outcome == "refuted", found.reason

    run()


def test_the_second_rollout_is_held_against_the_acceptance_of_the_first() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            await rolled_out(stage)
            fewer = {"speculative_num_steps": 2, "speculative_num_draft_tokens": 3}
            length = {"claim": "accept-length", "at_least": "-5%"}
            ended = await stage.roll_out(fewer, claims=[length], traffic=SHORT)
            found = verdict(ended, "accept-length-change")
            assert (ending(ended), found.outcome) == ("rolled-back", "refuted")
            assert found.estimate is not None
            assert found.estimate.baseline == pytest.approx(3.4, rel=0.1)
            assert found.estimate.value < -0.2

    run()


def test_stated_questions_are_proven_in_a_rollout() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            own = [{"prompt": "What is 12 + 12? Answer with the number only.", "matches": r"\b24\b"}]
            ended = await rolled_out(
                stage, {"claim": "answers", "at_least": "80%", "questions": own, "concurrency": [2]}
            )
            assert ending(ended) == "promoted", verdict(ended, "answers-2").reason
            wrong = await stage.roll_out(
                {"mem_fraction_static": 0.7},
                claims=[{"claim": "answers", "at_least": "80%", "questions": [own[0] | {"matches": "25"}]}],
            )
            assert verdict(wrong, "answers-1").outcome == "refuted"

    run()
