"""A service that had asked for a key and, after a change, does so no more is taken back; one that never did is not."""

from typing import Any

import pytest

from state.keyless import KEYLESS, METRIC, facts
from state.rollout import Rollout
from tests.flows.keyed import ENGINES, KEY, KEY_FILE, OPEN, ask_for_a_key, ending, keyed, merged, nowhere, put_keys
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

NAMED = {"engine": {"key_file": KEY_FILE}}
"""What names the key for interlock, and tells the engine none."""


def verdict(ended: Rollout, judged: str) -> tuple[str, str]:
    (found,) = [v for v in ended.judged[judged].verdicts if v.claim == "key-asked-for"]
    return found.outcome, next(f.text for f in ended.judged[judged].facts if f.metric == METRIC)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_start_that_lost_its_key_is_taken_back(engine: Any) -> None:
    @in_virtual_time
    async def run() -> None:
        async with keyed(engine) as stage:
            before = await stage.state()
            ended = await stage.roll_out(**NAMED)
            assert ending(ended) == ("rolled-back", 1), ended.concluded
            assert verdict(ended, "new:1") == (
                "refuted",
                "without the key it answers HTTP 200; before, it was HTTP 401",
            )
            assert {v.outcome for v in ended.judged["old:1"].verdicts} - OPEN[engine] == {"held"}
            assert await stage.state() == before
            await nowhere(stage, KEY)

    run()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_start_that_asks_for_its_key_as_before_is_proven(engine: Any) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            await ask_for_a_key(stage)
            ended = await stage.roll_out(**merged(engine, key_file=KEY_FILE))
            assert ending(ended) == ("promoted", 0), ended.concluded
            assert verdict(ended, "new:1") == ("held", "without the key it answers HTTP 401, as it did before")

    run()


def test_a_service_that_never_asked_for_a_key_goes_on_so_and_a_look_says_it() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            put_keys(stage)
            ended = await stage.roll_out(**NAMED)
            assert ending(ended) == ("promoted", 0), ended.concluded
            assert verdict(ended, "new:1") == ("held", "without the key it answers HTTP 200, as it did before")
            seen = await stage.roll_out(purpose="verify", **NAMED)
            assert ending(seen)[1] == 1, seen.concluded
            assert verdict(seen, "new:1") == ("refuted", "without the key it answers HTTP 200")

    run()


def test_a_service_that_never_asked_for_a_key_is_given_back_so() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[{"fault": "accept-nothing"}]) as stage:
            put_keys(stage)
            ended = await stage.roll_out(**NAMED)
            assert ending(ended) == ("rolled-back", 1), ended.concluded
            assert "key-asked-for" not in {v.claim for v in ended.judged["old:1"].verdicts}

    run()


def test_nobody_without_a_key_is_asked_for_where_none_is_named() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            ended = await stage.roll_out()
            assert ending(ended) == ("promoted", 0), ended.concluded
            assert "key-asked-for" not in {v.claim for v in ended.verdicts}
            assert KEYLESS not in ended.gathered["new:1"]

    run()


TOLD = [
    # status now, status before (None: not asked), whether that is new, what is said of it
    pytest.param(401, 401, False, "without the key it answers HTTP 401, as it did before", id="as-before"),
    pytest.param(403, None, False, "without the key it answers HTTP 403", id="refused-by-a-gateway"),
    pytest.param(401, 200, False, "without the key it answers HTTP 401; before, it was HTTP 200", id="gained"),
    pytest.param(200, 401, True, "without the key it answers HTTP 200; before, it was HTTP 401", id="lost"),
    pytest.param(200, 200, False, "without the key it answers HTTP 200, as it did before", id="never-had"),
    pytest.param(200, None, True, "without the key it answers HTTP 200", id="open-and-nothing-before"),
    pytest.param(200, 0, True, "without the key it answers HTTP 200", id="open-and-silent-before"),
    pytest.param(503, 401, None, "without the key it answers HTTP 503; before, it was HTTP 401", id="another-answer"),
    pytest.param(0, 401, None, "without the key it does not answer; before, it was HTTP 401", id="no-answer"),
]


@pytest.mark.parametrize(("now", "before", "newly", "said"), TOLD)
def test_what_an_answer_without_the_key_tells(now: int, before: int | None, newly: bool | None, said: str) -> None:
    (fact,) = facts([{"status": now}], [] if before is None else [{"status": before}], ("d",))
    assert (fact.value, fact.text, fact.evidence) == (newly, said, ("d",))
    assert list(facts([], [{"status": 401}], ())) == []
