"""How much traffic a proof takes: rounds that double, and what is worth another one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import sampling
from state.claims import Estimate, Outcome, Verdict
from state.sampling import ACCUMULATED, BUDGET_S, ROUNDS, ROUNDS_WITHOUT_FIGURES, another, carried


def verdict(outcome: Outcome, *, more: bool = True, figure: bool = True, deadline_s: float | None = None) -> Verdict:
    return Verdict(
        claim="accept-length", plane="speculation", outcome=outcome, statement="at least 2", reason="",
        more=more, estimate=Estimate(value=2.1) if figure else None, deadline_s=deadline_s,
    )  # fmt: skip


OPEN, UNSEEN = verdict("inconclusive"), verdict("inconclusive", figure=False)


@pytest.mark.parametrize(
    ("verdicts", "round_", "spent_s", "wanted"),
    [
        pytest.param([], 1, 0.0, False, id="no-claim-needs-none"),
        pytest.param([verdict("held")], 1, 0.0, False, id="all-held-needs-none"),
        pytest.param([verdict("held"), OPEN], 1, 0.0, True, id="one-open-that-samples-may-settle"),
        pytest.param([OPEN, verdict("refuted")], 1, 0.0, False, id="one-refuted-decides-it"),
        pytest.param([verdict("inconclusive", more=False)], 1, 0.0, False, id="open-for-another-reason"),
        pytest.param([OPEN], ROUNDS - 1, 1.0, True, id="before-the-last-round"),
        pytest.param([OPEN], ROUNDS, 1.0, False, id="after-the-last-round"),
        pytest.param([UNSEEN], ROUNDS_WITHOUT_FIGURES - 1, 1.0, True, id="no-figure-yet"),
        pytest.param([UNSEEN], ROUNDS_WITHOUT_FIGURES, 1.0, False, id="no-figure-came"),
        pytest.param([OPEN], 2, BUDGET_S - 1, True, id="within-the-budget"),
        pytest.param([OPEN], 2, BUDGET_S, False, id="the-budget-is-spent"),
        pytest.param([OPEN], 1, 10 * BUDGET_S, True, id="the-first-round-says-how-slow-it-is"),
        pytest.param([verdict("inconclusive", deadline_s=5.0)], 2, 6.0, False, id="a-deadline-of-its-own"),
        pytest.param([verdict("inconclusive", deadline_s=900.0)], 2, BUDGET_S, True, id="a-longer-deadline-of-its-own"),
        pytest.param([verdict("inconclusive", deadline_s=5.0), OPEN], 2, 6.0, True, id="one-has-time-left"),
    ],
)  # fmt: skip
def test_another_round(verdicts: list[Verdict], round_: int, spent_s: float, wanted: bool) -> None:
    assert another(verdicts, round_, spent_s) is wanted


@pytest.mark.parametrize("name", ["generations", "passes", "askings"])
def test_a_round_is_as_large_as_all_before_it(name: str) -> None:
    sizes = [getattr(sampling, name)(round_) for round_ in range(1, ROUNDS + 1)]
    assert all(sizes[at] == sum(sizes[:at]) for at in range(1, ROUNDS))
    assert sum(sizes) == 32 * sizes[0]


@pytest.mark.parametrize("name", ["passes", "askings"])
@given(round_=st.integers(1, 12))
def test_what_came_before_is_the_sum_of_the_rounds(name: str, round_: int) -> None:
    each = getattr(sampling, name)
    assert getattr(sampling, f"{name}_before")(round_) == sum(each(earlier) for earlier in range(1, round_))


def test_what_accumulates_is_carried_under_the_number_of_its_round() -> None:
    first = {"generations": "g1", "journal": "j1", "metrics-before": "m1", "metrics": "m"}
    second = carried(first, 2) | {"generations": "g2", "journal": "j2"}
    assert carried(first, 2) == {"generations@1": "g1", "metrics-before@1": "m1"}
    assert carried(second, 3) == {"generations@1": "g1", "metrics-before@1": "m1", "generations@2": "g2"}


@given(
    st.dictionaries(st.sampled_from([*ACCUMULATED, "journal", "metrics", "environ"]), st.integers()), st.integers(2, 9)
)
def test_nothing_that_accumulates_is_lost_or_overwritten(items: dict[str, int], rounds: int) -> None:
    kept = items
    for round_ in range(2, rounds + 1):
        kept = carried(kept, round_) | items
    assert all(f"{name}@{earlier}" in kept for name in items if name in ACCUMULATED for earlier in range(1, rounds))
    assert {name.partition("@")[0] for name in kept if "@" in name} <= set(ACCUMULATED)
