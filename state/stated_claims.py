"""The claims that a manifest states, from its specs: one claim for each level of concurrency."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from state.claims import Cause, Claim, Relation
from state.manifest.claim_specs import (
    AcceptLengthSpec,
    AnswersSpec,
    ClaimSpec,
    CommonSpec,
    FirstTokenSpec,
    GoodputSpec,
    InterTokenSpec,
    LoadSpec,
    ThroughputSpec,
    ratio,
)
from state.traffic import LOAD, QUIZ, Traffic

MINIMUM_REQUESTS = 12
"""Requests below which no level of acceptance is claimed as known: one request proves the mechanism, not the tuning,
and where prompts are of two kinds, six may well be all of one (benchmarks/false_verdicts.py)."""

MINIMUM_COMPARED = 6
"""Samples of either side below which no change of acceptance is: ranks, unlike a mean, are not misled by few kinds."""

BUSY = Cause(
    cause="something else used the host or its GPUs meanwhile",
    check="compare the spread between passes with the noise of the baseline, and look for other processes on the GPUs",
)
COSTLY_DRAFTS = Cause(
    cause="drafting and verifying cost more than the accepted drafts save at this concurrency",
    check="compare accept length and throughput at concurrency 1 and above; try fewer steps",
)
FEW_ACCEPTED = Cause(
    cause="too few drafts are accepted",
    check="see the accept length of the same rollout, and whether the draft weights belong to this model",
)
QUEUED = Cause(
    cause="requests wait for a place: the limit of running requests is below the concurrency",
    check="see #queue-req in the log, and max_running_requests (48 under speculation unless it is set)",
)


def manifest_claims(specs: Sequence[ClaimSpec], traffic: Traffic | None = None) -> tuple[Claim, ...]:
    """The claims that the manifest states; `traffic` gives the deadline of those that have none."""
    return tuple(claim for spec in specs for claim in _claims(spec, traffic or Traffic()))


def _claims(spec: ClaimSpec, traffic: Traffic) -> Iterator[Claim]:
    match spec:
        case AcceptLengthSpec():
            yield _accept_length(spec, traffic)
        case ThroughputSpec():
            yield from (_throughput(spec, level, traffic) for level in spec.concurrency)
        case FirstTokenSpec() | InterTokenSpec():
            yield from (_latency(spec, level, traffic) for level in spec.concurrency)
        case GoodputSpec():
            yield from (_goodput(spec, level, traffic) for level in spec.concurrency)
        case AnswersSpec():
            yield from (_answers(spec, level, traffic) for level in spec.concurrency)


def _accept_length(spec: AcceptLengthSpec, traffic: Traffic) -> Claim:
    change = ratio(spec.at_least)
    claim = partial(
        Claim,
        plane="speculation",
        relation="at-least",
        minimum_sample=MINIMUM_REQUESTS if change is None else MINIMUM_COMPARED,
        remedy="drafts are accepted, but fewer than claimed: try fewer steps, or a draft trained for this model",
        **_common(spec, traffic),
    )
    if change is None:
        return claim(
            name="accept-length",
            statement=f"accept length is at least {spec.at_least:g} ({spec.confidence:.0%} sure)",
            metric="requests.accept_length",
            expected=spec.at_least,
            estimator="mean",
            source="acceptance of our own requests",
        )
    return claim(
        name="accept-length-change",
        statement=f"accept length is {_than_before(change, 'at-least')} ({spec.confidence:.0%} sure)",
        metric="generations.accept_length",
        expected=change,
        estimator="change",
        source="acceptance of our own requests, before and after",
    )


def _throughput(spec: ThroughputSpec, level: int, traffic: Traffic) -> Claim:
    return _figure(
        spec, level, traffic, spec.at_least, "at-least",
        name="throughput",
        what="output tokens a second",
        metric=f"{LOAD}.throughput.{level}",
        unit="tokens/s",
        remedy=f"slower than claimed at concurrency {level}: see what accept length and the other levels say",
        causes=(COSTLY_DRAFTS, FEW_ACCEPTED, QUEUED, BUSY) if level > 1 else (FEW_ACCEPTED, COSTLY_DRAFTS, BUSY),
    )  # fmt: skip


def _latency(spec: FirstTokenSpec | InterTokenSpec, level: int, traffic: Traffic) -> Claim:
    first = isinstance(spec, FirstTokenSpec)
    return _figure(
        spec, level, traffic, spec.at_most, "at-most",
        name=spec.claim,
        what="median time to first token" if first else "median time between tokens",
        metric=f"{LOAD}.{'first_token' if first else 'inter_token'}.{level}",
        unit="s",
        resolution=0.0005 if first else 0.00005,
        remedy=f"{'the first token comes' if first else 'tokens follow'} later than claimed at concurrency {level}",
        causes=(QUEUED, BUSY) if first else (COSTLY_DRAFTS, FEW_ACCEPTED, BUSY),
    )  # fmt: skip


def _figure(
    spec: LoadSpec,
    level: int,
    traffic: Traffic,
    bound: float | str,
    relation: Relation,
    *,
    name: str,
    what: str,
    **rest: Any,
) -> Claim:
    """A claim about a figure of each pass: its mean, or its change where the bound is a change."""
    change = ratio(bound)
    named = f"{name}-change-{level}" if change is not None else f"{name}-{level}"
    wanted = (
        _than_before(change, relation)
        if change is not None
        else f"{relation.replace('-', ' ')} {float(bound):g} {rest['unit']}"
    )
    return Claim(
        name=named,
        plane="performance",
        statement=f"{what} at concurrency {level}: {wanted} ({spec.confidence:.0%} sure)",
        relation=relation,
        expected=float(bound) if change is None else change,
        estimator="mean" if change is None else "change",
        source="our own requests under load" + ("" if change is None else ", before and after"),
        conditions={"concurrency": level},
        **_common(spec, traffic),
        **rest,
    )


def _goodput(spec: GoodputSpec, level: int, traffic: Traffic) -> Claim:
    limits = f"{spec.first_token:g} s to the first token and {spec.inter_token:g} s between tokens"
    return Claim(
        name=f"goodput-{level}",
        plane="performance",
        statement=f"at least {spec.at_least:.4g} of requests at concurrency {level} within {limits} "
        f"({spec.confidence:.0%} sure)",
        metric=f"{LOAD}.goodput.{level}",
        relation="at-least",
        expected=spec.at_least,
        estimator="proportion",
        source="our own requests under load",
        remedy=f"too many requests at concurrency {level} are late or fail: see which of the two bounds they miss",
        causes=(QUEUED, COSTLY_DRAFTS, BUSY),
        conditions={"concurrency": level, "first_token": spec.first_token, "inter_token": spec.inter_token},
        **_common(spec, traffic),
    )


def _answers(spec: AnswersSpec, level: int, traffic: Traffic) -> Claim:
    questions = [question.model_dump() for question in spec.questions]
    which = f"{len(questions)} questions" if questions else "the built-in questions"
    return Claim(
        name=f"answers-{level}",
        plane="function",
        statement=f"at least {spec.at_least:.4g} of answers to {which} are right at concurrency {level} "
        f"({spec.confidence:.0%} sure)",
        metric=f"{QUIZ}.right.{level}",
        relation="at-least",
        expected=spec.at_least,
        estimator="proportion",
        source="our own requests",
        remedy="the model answers, but too often wrongly: compare with speculation off, "
        "and check the chat template and quantisation",
        causes=(
            Cause(cause="the patterns refuse right answers", check="read what was answered in the evidence `quiz`"),
            Cause(
                cause="sequences that are decoded together disturb each other",
                check="claim the same at concurrency 1 and compare",
            ),
        ),
        conditions={"concurrency": level, **({"questions": questions} if questions else {})},
        **_common(spec, traffic),
    )


def _common(spec: CommonSpec, traffic: Traffic) -> dict[str, Any]:
    return {
        "confidence": spec.confidence,
        "deadline_s": spec.within if spec.within is not None else traffic.budget_s,
        "doubt": spec.inconclusive,
    }


def _than_before(change: float, relation: Relation) -> str:
    return f"{relation.replace('-', ' ')} {change * 100:+.4g}% against what it was before"
