"""Acceptance from three sources: the log, our own requests' figures, the metrics; a contradiction is found."""

from typing import Any

import pytest
from core_evidence import ASKED, asked, evidence, facts, generations, verdicts

from state.claims import Outcome
from state.engines.sglang.verification import ENGINE
from state.target import Target

WITH_METRICS = asked(arguments=ASKED | {"enable_metrics": True})


def gauge(length: float) -> bytes:
    return (
        "# TYPE sglang:spec_accept_length gauge\n"
        f'sglang:spec_accept_length{{engine_type="unified",model_name="/m",tp_rank="0"}} {length}\n'
    ).encode()


@pytest.mark.parametrize(
    ("changes", "claim", "outcome", "reason"),
    [
        pytest.param({"metrics": gauge(3.2)}, "metrics-agree", "held", "log 3.20, metrics 3.20", id="they agree"),
        pytest.param(
            {"metrics": gauge(1.1)}, "metrics-agree", "refuted", "log 3.20, metrics 1.10", id="the dashboard is wrong"
        ),
        pytest.param(
            {"metrics": gauge(0.0)}, "metrics-agree", "inconclusive", "none in the metrics", id="0 was never set"
        ),
        pytest.param({"metrics": b""}, "metrics-agree", "inconclusive", "none in the metrics", id="empty metrics"),
        pytest.param({}, "metrics-agree", "inconclusive", "no evidence", id="no metrics"),
        pytest.param(
            {"metrics": gauge(3.2), "journal": None},
            "metrics-agree",
            "inconclusive",
            "no accept length in the log",
            id="metrics without a log prove no agreement",
        ),
        pytest.param(
            {"metrics": gauge(3.2), "generations": generations(1.0, 1.0, 1.1, 1.0, 1.0, 1.1)},
            "figures-agree",
            "refuted",
            "log 3.20, our requests 1.03",
            id="requests contradict log and metrics",
        ),
        pytest.param(
            {"metrics": gauge(3.2), "generations": generations(1.0, 1.0, 1.1, 1.0, 1.0, 1.1)},
            "accepted-per-request",
            "inconclusive",
            "mean 1.03",
            id="and the requests' own claim is not held by the log's figure",
        ),
    ],
)
def test_three_sources_of_one_figure(changes: dict[str, Any], claim: str, outcome: Outcome, reason: str) -> None:
    verdict = verdicts(evidence(**changes), WITH_METRICS)[claim]
    assert (verdict.outcome, reason in verdict.reason) == (outcome, True), verdict.reason


@pytest.mark.parametrize(
    ("target", "claimed"),
    [pytest.param(WITH_METRICS, True, id="metrics served"), pytest.param(asked(), False, id="not served")],
)
def test_what_cannot_be_decided_is_not_claimed_but_told(target: Target, claimed: bool) -> None:
    told = {u.claim: u for u in ENGINE.undecidable(target)}
    assert ("metrics-agree" in {c.name for c in ENGINE.derive(target)}) is claimed
    assert ("metrics-agree" in told) is not claimed
    assert claimed or told["metrics-agree"].instead == "set engine.arguments.enable_metrics: true"


def test_every_claim_that_is_derived_names_its_likely_causes() -> None:
    without = [c.name for c in ENGINE.derive(WITH_METRICS) if not c.causes]
    assert without == []


def test_causes_come_with_a_verdict_that_is_not_held() -> None:
    found = verdicts(evidence(metrics=gauge(1.1)), WITH_METRICS)
    assert found["metrics-agree"].causes[0].cause.startswith("the gauge is of the newest interval")
    assert found["active"].causes == ()


def test_each_verdict_says_what_would_refute_it() -> None:
    found = verdicts(evidence(), WITH_METRICS)
    assert found["accepted-per-request"].refuting == "an interval that lies wholly below 1.05"
    assert found["kernel-quiet"].refuting == "anything that is not 0"
    assert found["figures-agree"].refuting == "a value above 0.3"
    assert all(v.refuting for v in found.values())


def test_facts_of_metrics_cite_them() -> None:
    given = evidence(metrics=gauge(3.2))
    assert given.digests["metrics"] in facts(given, WITH_METRICS)["metrics.disagreement"].evidence
