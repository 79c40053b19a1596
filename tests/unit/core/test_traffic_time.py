"""Doubts about a claim's seconds: only where no service could fill them, and what is said then."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.claims import Claim
from state.manifest.claim_specs import (
    AcceptLengthSpec,
    AnswersSpec,
    ClaimSpec,
    GoodputSpec,
    InterTokenSpec,
    ThroughputSpec,
)
from state.stated_claims import manifest_claims
from state.traffic import Traffic, requests_in_pass
from state.traffic_time import FASTEST_STREAM, doubts, needs

GOODPUT = {"at_least": "95%", "first_token": "2s", "inter_token": "50ms"}


def speed(*levels: int, **more: Any) -> ClaimSpec:
    return ThroughputSpec(at_least="+12%", concurrency=levels, **more)


def claimed(*specs: ClaimSpec, **traffic: Any) -> tuple[tuple[Claim, ...], Traffic]:
    asked = Traffic(**traffic)
    return manifest_claims(specs, asked), asked


@pytest.mark.parametrize(
    ("specs", "traffic"),
    [
        pytest.param([], {"budget_s": 0.001}, id="no-claim-needs-no-time"),
        pytest.param([speed(1, 8, 32)], {}, id="the-usual-budget"),
        pytest.param([speed(4096)], {}, id="many-at-once-without-a-rate"),
        pytest.param([speed(32)], {"rate": 8.0}, id="a-rate-that-starts-them-in-time"),
        pytest.param([speed(8)], {"budget_s": 1.0, "tokens": 128}, id="few-tokens-in-a-second"),
        pytest.param([speed(8, within="3m")], {"budget_s": 1.0}, id="a-deadline-of-its-own-that-is-longer"),
        pytest.param([GoodputSpec(concurrency=(8,), **GOODPUT)], {"budget_s": 0.6}, id="a-share-of-one-pass"),
        pytest.param([AcceptLengthSpec(at_least=2.0)], {"budget_s": 0.1}, id="generations-heed-no-budget"),
        pytest.param([AnswersSpec(at_least="90%")], {"budget_s": 0.1}, id="questions-are-no-passes"),
    ],
)
def test_nothing_is_said_where_a_service_could_be_fast_enough(specs: list[ClaimSpec], traffic: dict[str, Any]) -> None:
    assert doubts(*claimed(*specs, **traffic)) == ()


@pytest.mark.parametrize(
    ("specs", "traffic", "said"),
    [
        pytest.param(
            [speed(1)],
            {"budget_s": 1.0},
            "claims about load cannot be decided: 4 passes of 4 requests at concurrency 1 take 2.05 s at least with 256"
            " tokens each, however fast the service is, and 1 s is all that they have; give them more"
            " (`traffic.budget`, `within`), fewer `traffic.tokens`, or less `concurrency`",
            id="a-budget-of-a-second",
        ),
        pytest.param(
            [speed(4096)],
            {"rate": 8.0},
            "claims about load cannot be decided: 4 passes of 8192 requests at concurrency 4096 take 4096 s at least"
            " with `traffic.rate` 8, and 180 s is all that they have; give them more (`traffic.budget`, `within`),"
            " a higher `traffic.rate`, or less `concurrency`",
            id="a-rate-that-starts-too-few",
        ),
        pytest.param(
            [speed(1, 8, within="2s"), InterTokenSpec(at_most="50ms", concurrency=(16,), within="3s")],
            {},
            "4 passes of 4 requests at concurrency 1 take 2.05 s at least (4.1 s at all 3 levels) with 256 tokens each,"
            " however fast the service is, and 3 s is all that they have",
            id="levels-that-fit-one-by-one-and-not-together",
        ),
        pytest.param(
            [GoodputSpec(concurrency=(8,), **GOODPUT)],
            {"budget_s": 0.4},
            "2 passes of 16 requests at concurrency 8 take 0.512 s at least",
            id="not-one-measured-pass",
        ),
    ],
)
def test_what_no_service_could_fill_is_said(specs: list[ClaimSpec], traffic: dict[str, Any], said: str) -> None:
    (sentence,) = doubts(*claimed(*specs, **traffic))
    assert said in sentence


@given(
    level=st.integers(1, 4096),
    tokens=st.integers(8, 16_384),
    rate=st.none() | st.floats(0.01, 1000),
)
def test_no_service_is_faster_than_what_is_said_that_it_needs(level: int, tokens: int, rate: float | None) -> None:
    """A service whose every stream runs at the most that there is, without a wait: its passes take that long."""
    claims, traffic = claimed(speed(level), tokens=tokens, rate=rate)
    (need,) = needs(claims, traffic)
    free, ends, start = [0.0] * level, 0.0, 0.0
    for index in range(requests_in_pass(level)):
        place = index % level
        start = max(free[place], 0.0 if rate is None else index / rate)
        free[place] = start + tokens / FASTEST_STREAM
        ends = max(ends, free[place])
    assert need.seconds <= need.passes * ends * (1 + 1e-9)
    assert (need.level, need.passes) == (level, 4)
