"""Claims against facts: three outcomes, and no evidence is never `held`."""

from typing import Any

import pytest
from core_samples import claim, verdict
from hypothesis import given
from hypothesis import strategies as st

from state.claims import Claim, Fact, Outcome, Verdict, conclusion
from state.judging import judge

OUTCOMES: tuple[Outcome, ...] = ("held", "refuted", "inconclusive")
numbers = st.floats(-1e6, 1e6)
anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)
)
BOUNDS: dict[str, Any] = {"equals": 1, "one-of": [1, 2], "at-least": 1.0, "at-most": 1.0, "within": [1.0, 0.5]}


def judged(given_claim: Claim, fact: Fact | None) -> Verdict:
    (only,) = judge([given_claim], [fact] if fact else [])
    return only


@pytest.mark.parametrize(
    ("relation", "expected", "value", "outcome"),
    [
        pytest.param("equals", 5, 5, "held", id="equal"),
        pytest.param("equals", 5, 4, "refuted", id="not equal"),
        pytest.param("equals", 5, 5.0, "held", id="a whole float is its integer"),
        pytest.param("equals", 0.75, 0.75, "held", id="the same fraction"),
        pytest.param("equals", 1, True, "refuted", id="true is not 1"),
        pytest.param("equals", False, 0, "refuted", id="0 is not false"),
        pytest.param("equals", False, False, "held", id="false is false"),
        pytest.param("equals", "5", 5, "refuted", id="text is no number"),
        pytest.param("equals", [], [], "held", id="an empty list that was read is a value"),
        pytest.param("equals", [1, 2], [2, 1], "refuted", id="lists have an order"),
        pytest.param("equals", ("a", "b"), ["a", "b"], "held", id="a tuple is its list"),
        pytest.param("equals", ["a", "b"], ("a", "b"), "held", id="and the other way"),
        pytest.param("equals", {"a": ("b",)}, {"a": ["b"]}, "held", id="also inside a mapping"),
        pytest.param("one-of", ["a", "b"], "b", "held", id="one of them"),
        pytest.param("one-of", ["a", "b"], "c", "refuted", id="none of them"),
        pytest.param("one-of", [], "c", "refuted", id="one of nothing"),
        pytest.param("at-least", 2, 2, "held", id="at least includes the bound"),
        pytest.param("at-least", 2, 1.99, "refuted", id="below it"),
        pytest.param("at-most", 2, 2, "held", id="at most includes the bound"),
        pytest.param("at-most", 2, 2.01, "refuted", id="above it"),
        pytest.param("within", [1.91, 0.1], 1.83, "held", id="within the tolerance"),
        pytest.param("within", [1.91, 0.1], 2.02, "refuted", id="outside of it"),
        pytest.param("at-least", 2, "3", "inconclusive", id="text against a bound"),
        pytest.param("at-most", 2, True, "inconclusive", id="a truth value against a bound"),
        pytest.param("at-least", 2, float("nan"), "inconclusive", id="no number against a bound"),
        pytest.param("at-least", 2, float("inf"), "inconclusive", id="infinity against a bound"),
        pytest.param("at-least", 2, 10**400, "inconclusive", id="a number beyond all measure against a bound"),
        pytest.param("within", [1, 1], None, "inconclusive", id="unknown"),
        pytest.param("equals", None, None, "inconclusive", id="unknown is not equal to nothing"),
        pytest.param("one-of", [None], None, "inconclusive", id="unknown is not one of them"),
    ],
)
def test_relations(relation: str, expected: object, value: object, outcome: Outcome) -> None:
    assert judged(claim(relation=relation, expected=expected), Fact(metric="m", value=value)).outcome == outcome


@pytest.mark.parametrize("relation", sorted(BOUNDS))
def test_no_fact_is_inconclusive(relation: str) -> None:
    verdict_ = judged(claim(relation=relation, expected=BOUNDS[relation]), None)
    assert (verdict_.outcome, verdict_.reason, verdict_.sample) == (
        "inconclusive",
        "no evidence of it in our requests",
        0,
    )


@given(
    st.sampled_from(sorted(BOUNDS)), anything, st.integers(0, 20), st.integers(1, 20), st.none() | st.floats(0.5, 0.99)
)
def test_judging_is_total(relation: str, value: object, sample: int, minimum: int, confidence: float | None) -> None:
    level = relation in ("at-least", "at-most")
    stated = claim(
        relation=relation, expected=BOUNDS[relation], minimum_sample=minimum, confidence=confidence if level else None
    )
    verdict_ = judged(stated, Fact(metric="m", value=value, sample=sample))
    assert verdict_.outcome in OUTCOMES
    if value is None or sample < minimum:
        assert verdict_.outcome == "inconclusive"
    assert verdict_.reason


@given(st.sampled_from(sorted(BOUNDS)), anything, st.integers(0, 8))
def test_below_the_minimum_sample_nothing_is_decided(relation: str, value: object, sample: int) -> None:
    stated = claim(relation=relation, expected=BOUNDS[relation], minimum_sample=9)
    assert judged(stated, Fact(metric="m", value=value, sample=sample)).outcome == "inconclusive"


@given(numbers, numbers, numbers)
def test_more_never_harms_at_least_and_less_never_harms_at_most(a: float, b: float, bound: float) -> None:
    low, high = sorted((a, b))
    for relation, better, worse in (("at-least", high, low), ("at-most", low, high)):
        stated = claim(relation=relation, expected=bound)
        if judged(stated, Fact(metric="m", value=worse)).outcome == "held":
            assert judged(stated, Fact(metric="m", value=better)).outcome == "held"


samples_ = st.lists(st.floats(0, 10), min_size=2, max_size=12)


@given(samples_, st.floats(0, 10), st.floats(0, 5))
def test_a_lower_bound_is_never_harder(samples: list[float], bound: float, less: float) -> None:
    rank = {"refuted": 0, "inconclusive": 1, "held": 2}
    fact = Fact(metric="m", value=sum(samples) / len(samples), sample=len(samples), samples=tuple(samples))
    hard = judged(claim(relation="at-least", expected=bound, confidence=0.95), fact)
    easy = judged(claim(relation="at-least", expected=bound - less, confidence=0.95), fact)
    assert rank[easy.outcome] >= rank[hard.outcome]


@given(samples_, st.floats(0, 10), st.floats(0.5, 0.99), st.floats(0.5, 0.99))
def test_what_is_decided_with_more_confidence_is_decided_with_less(
    samples: list[float], bound: float, one: float, other: float
) -> None:
    fact = Fact(metric="m", value=sum(samples) / len(samples), sample=len(samples), samples=tuple(samples))
    sure = judged(claim(relation="at-least", expected=bound, confidence=max(one, other)), fact).outcome
    less = judged(claim(relation="at-least", expected=bound, confidence=min(one, other)), fact).outcome
    assert sure in ("inconclusive", less)


@pytest.mark.parametrize(
    ("samples", "minimum", "relation", "outcome", "more"),
    [
        pytest.param((), 1, "at-least", "inconclusive", True, id="no samples"),
        pytest.param((6.0,), 1, "at-least", "inconclusive", True, id="one sample has no interval"),
        pytest.param((3.0,) * 5, 6, "at-least", "inconclusive", True, id="fewer than asked for"),
        pytest.param((3.0,) * 6, 6, "at-least", "held", False, id="all above"),
        pytest.param((1.0,) * 6, 6, "at-least", "refuted", False, id="all below"),
        pytest.param((1.0, 3.2) * 3, 6, "at-least", "inconclusive", True, id="the interval holds the bound"),
        pytest.param((2.0,) * 6, 6, "at-least", "inconclusive", True, id="on the bound, as printed figures are"),
        pytest.param((1.0,) * 6, 6, "at-most", "held", False, id="all below an upper bound"),
        pytest.param((3.0,) * 6, 6, "at-most", "refuted", False, id="all above an upper bound"),
    ],
)
def test_levels_need_their_sample(
    samples: tuple[float, ...], minimum: int, relation: str, outcome: Outcome, more: bool
) -> None:
    stated = claim(relation=relation, expected=2.0, confidence=0.95, minimum_sample=minimum)
    mean = sum(samples) / len(samples) if samples else 6.0
    verdict_ = judged(stated, Fact(metric="m", value=mean, sample=len(samples), samples=samples))
    assert (verdict_.outcome, verdict_.more) == (outcome, more)


def test_a_level_is_shown_with_its_interval_and_sample() -> None:
    stated = claim(relation="at-least", expected=2.0, confidence=0.95)
    reason = judged(stated, Fact(metric="m", value=1.5, samples=(1.0, 1.5, 2.0), sample=3)).reason
    assert reason == "mean 1.50, 95% interval -1.37 to 2.74, 3 samples"


def test_verdicts_come_in_the_order_of_the_claims_with_their_remedies() -> None:
    claims = [claim(name="b", metric="x"), claim(name="a", metric="y", expected=2)]
    facts = [Fact(metric="y", value=1, text="y reads 1", evidence=("d1",)), Fact(metric="x", value=1, evidence=("d2",))]
    held, refuted = judge(claims, facts)
    assert (held.claim, held.outcome, held.remedy, held.evidence) == ("b", "held", "", ("d2",))
    assert (refuted.claim, refuted.reason, refuted.remedy, refuted.evidence) == (
        "a", "y reads 1; wanted 2", "mend it", ("d1",),
    )  # fmt: skip


def test_a_fact_nobody_asked_for_changes_nothing() -> None:
    assert judge([claim()], [Fact(metric="m", value=1), Fact(metric="other", value=9)]) == judge(
        [claim()], [Fact(metric="m", value=1)]
    )


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param((), "inconclusive", id="no claims prove nothing"),
        pytest.param(("held",), "held", id="held"),
        pytest.param(("held", "inconclusive"), "inconclusive", id="one doubt is a doubt"),
        pytest.param(("inconclusive", "refuted", "held"), "refuted", id="one refuted is refuted"),
    ],
)
def test_conclusions(outcomes: tuple[Outcome, ...], expected: Outcome) -> None:
    assert conclusion([verdict(outcome) for outcome in outcomes]) == expected


@given(st.lists(st.sampled_from(OUTCOMES), max_size=6), st.sampled_from(OUTCOMES))
def test_another_verdict_never_makes_it_better(outcomes: list[Outcome], more: Outcome) -> None:
    rank = {"refuted": 0, "inconclusive": 1, "held": 2}
    verdicts = [verdict(o) for o in outcomes]
    if verdicts:
        assert rank[conclusion([*verdicts, verdict(more)])] <= rank[conclusion(verdicts)]


@given(
    st.recursive(
        anything, lambda inner: st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    )
)
def test_a_claim_is_the_same_after_it_was_stored(expected: Any) -> None:
    before = claim(expected=expected)
    after = Claim.model_validate(before.model_dump())
    assert after.expected == before.expected or before.expected != before.expected
    assert not isinstance(before.expected, tuple)
