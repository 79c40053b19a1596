"""Whose policy counts when claims stay open, and how question and answer are said."""

from collections.abc import Sequence

import pytest
from core_samples import fact, verdict
from hypothesis import given
from hypothesis import strategies as st

from state.claims import Doubt, Verdict
from state.hold import DEADLINE, HoldAnswered, policy_for, question, told

DOUBTS: tuple[Doubt, ...] = ("rollback", "hold", "accept")


def left(doubt: Doubt | None = None) -> Verdict:
    return verdict("inconclusive").model_copy(update={"doubt": doubt})


HELD = verdict("held")


@pytest.mark.parametrize(
    ("verdicts", "policy", "expected"),
    [
        pytest.param([left()], "rollback", "rollback", id="no policy of its own: the rollout's, rollback"),
        pytest.param([left()], "hold", "hold", id="no policy of its own: the rollout's, hold"),
        pytest.param([left()], "accept", "accept", id="no policy of its own: the rollout's, accept"),
        pytest.param([left("hold")], "accept", "hold", id="its own is stricter"),
        pytest.param([left("accept")], "rollback", "accept", id="its own is milder"),
        pytest.param([left("accept"), left()], "hold", "hold", id="of two the stricter: hold over accept"),
        pytest.param(
            [left("hold"), left("rollback")], "accept", "rollback", id="of two the stricter: rollback over hold"
        ),
        pytest.param(
            [left("accept"), left("hold"), left("rollback")], "accept", "rollback", id="of three the strictest"
        ),
        pytest.param(
            [left("accept"), HELD.model_copy(update={"doubt": "rollback"})],
            "accept",
            "accept",
            id="what was held has no say",
        ),
        pytest.param([], "accept", "rollback", id="nothing was judged: no policy makes a proof of that"),
    ],
)
def test_the_strictest_policy_of_what_stayed_open_counts(
    verdicts: Sequence[Verdict], policy: Doubt, expected: Doubt
) -> None:
    assert policy_for(verdicts, policy) == expected


@given(st.lists(st.sampled_from([None, *DOUBTS]), min_size=1), st.sampled_from(DOUBTS), st.sampled_from(DOUBTS))
def test_one_more_open_claim_never_makes_it_milder(own: list[Doubt | None], one: Doubt, policy: Doubt) -> None:
    before = policy_for([left(doubt) for doubt in own], policy)
    after = policy_for([left(doubt) for doubt in (*own, one)], policy)
    assert DOUBTS.index(after) <= DOUBTS.index(before)
    assert DOUBTS.index(after) <= DOUBTS.index(one)


def test_the_question_says_how_far_the_proof_came() -> None:
    assert question([HELD, HELD, left()]) == (
        "2 of 3 claims held, none is refuted, and open stayed c: promote, or roll back?"
    )


def test_an_answer_is_told_with_who_gave_it() -> None:
    given_ = fact("hold", answer="promote")
    assert isinstance(given_, HoldAnswered)
    assert told(given_) == "ada answered promote: so"
    default = given_.model_copy(
        update={"actor": DEADLINE, "reason": "nobody answered until noon", "answer": "rollback"}
    )
    assert told(default) == "nobody answered until noon, so the answer is rollback"
