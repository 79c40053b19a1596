"""Two rollouts side by side: figures with intervals, and a change only where both have samples."""

from typing import Any

import pytest
from core_samples import target
from hypothesis import assume, given
from hypothesis import strategies as st

from state.claims import Fact, Outcome, Verdict
from state.comparison import Compared, compare, differences
from state.events import Judged
from state.manifest.claim_specs import ClaimSpec, GoodputSpec, ThroughputSpec
from state.plan import Plan
from state.rollout import Rollout
from state.stated_claims import manifest_claims
from state.traffic import Traffic

SPEED = ThroughputSpec(at_least=90.0)
GOODPUT = GoodputSpec(at_least=0.5, first_token=1.0, inter_token=0.1)


def rollout(
    *specs: ClaimSpec, outcome: Outcome = "held", samples: tuple[float, ...] = (), changes: dict[str, Any] | None = None
) -> Rollout:
    """A rollout that judged each spec alike, by the same samples."""
    claims = manifest_claims(specs)
    verdicts = tuple(
        Verdict(claim=c.name, plane=c.plane, statement=c.statement, outcome=outcome, reason="") for c in claims
    )
    facts = tuple(Fact(metric=c.metric, value=1.0, samples=samples) for c in claims)
    plan = {"service": "qwen", "revision": "a", "observed": "b", "steps": (), "changes": (), "claims": claims}
    made = Plan.model_validate(plan | {"target": target()} | (changes or {}))
    judged = Judged(action="judge", attempt=1, side="new", round=1, outcome=outcome, verdicts=verdicts, facts=facts)
    return Rollout(plan=made, judged={"new:1": judged})


def only(first: Rollout, second: Rollout) -> Compared:
    (row,) = compare(first, second)
    return row


FAST, SLOW = tuple(100.0 + i for i in range(6)), tuple(80.0 + i for i in range(6))

CHANGES = [
    pytest.param(SPEED, FAST, SLOW, -0.195, "", id="slower"),
    pytest.param(SPEED, FAST, FAST, 0.0, "", id="the-same"),
    pytest.param(SPEED, FAST[:3], SLOW[:3], None, "3 and 3 samples bound no change (-19.8%)", id="too-few-for-ranks"),
    pytest.param(SPEED, FAST, (80.0, 81.0), None, "not enough data: 2 of at least 3 samples", id="too-few-passes"),
    pytest.param(SPEED, FAST, (), None, "", id="nothing-measured-in-one"),
    pytest.param(SPEED, (0.0,) * 3, FAST, None, "a figure of zero has no relative change", id="from-zero"),
    pytest.param(GOODPUT, (1.0,) * 90 + (0.0,) * 10, (1.0,) * 45 + (0.0,) * 55, -0.5, "", id="half-the-good-ones"),
    pytest.param(GOODPUT, (0.0,) * 20, (1.0,) * 20, None, "the first share may be zero", id="from-none-good"),
]


@pytest.mark.parametrize(("spec", "first", "second", "change", "why"), CHANGES)
def test_the_change_has_an_interval_or_a_reason(
    spec: ClaimSpec, first: tuple[float, ...], second: tuple[float, ...], change: float | None, why: str
) -> None:
    row = only(rollout(spec, samples=first), rollout(spec, samples=second))
    assert why in row.why
    assert (row.change is None) == (change is None)
    if row.change is not None:
        assert row.change.middle == pytest.approx(change, abs=0.005)
        assert row.change.low < row.change.middle < row.change.high


def test_a_figure_has_its_interval_where_samples_suffice() -> None:
    row = only(rollout(SPEED, samples=FAST), rollout(SPEED, samples=(80.0, 81.0)))
    many, few = row.figures
    assert many is not None
    assert few is not None
    assert many.low is not None
    assert many.high is not None
    assert many.low < 102.5 < many.high
    assert (few.value, few.low, few.sample) == (80.5, None, 2)


WORSE = [
    pytest.param("held", "refuted", True, id="held-then-refuted"),
    pytest.param("held", "inconclusive", False, id="held-then-open"),
    pytest.param("refuted", "refuted", False, id="refuted-before-already"),
    pytest.param("refuted", "held", False, id="mended"),
]


@pytest.mark.parametrize(("first", "second", "worse"), WORSE)
def test_worse_is_what_was_held_and_is_refuted(first: Outcome, second: Outcome, worse: bool) -> None:
    assert only(rollout(SPEED, outcome=first), rollout(SPEED, outcome=second)).worse is worse


def test_what_one_alone_claims_is_told_as_such() -> None:
    rows = compare(rollout(SPEED, samples=FAST), rollout(GOODPUT, samples=(1.0,) * 9))
    assert [(r.claim, r.first, r.second, r.change) for r in rows] == [
        ("throughput-1", "held", None, None),
        ("goodput-1", None, "held", None),
    ]


def test_what_else_differs_is_said() -> None:
    first = rollout(SPEED, changes={"target": target(engine_version="0.5.20", arguments={"tp_size": 2, "a": 1})})
    second = rollout(
        SPEED,
        changes={
            "target": target(engine_version="0.5.23", arguments={"tp_size": 4, "a": 1}),
            "traffic": Traffic(tokens=64),
        },
    )
    assert list(differences(first, second)) == [
        "engine version: 0.5.20 → 0.5.23",
        "tp_size: 2 → 4",
        "the traffic is not the same: figures under load differ for that reason too",
    ]
    assert list(differences(first, first)) == []


SAMPLES = st.lists(st.floats(1.0, 100.0), min_size=6, max_size=8).map(tuple)


@given(SAMPLES, SAMPLES)
def test_a_change_read_backwards_is_its_inverse(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    there, back = (
        only(rollout(SPEED, samples=a), rollout(SPEED, samples=b)).change for a, b in ((first, second), (second, first))
    )
    assume(there is not None and back is not None)  # so far apart that there is no bound: then there is no change
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1, rel=1e-6)
