"""A rollout's report: everything that a person would ask of it the morning after, in one value made of its history."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from state.claims import PLANES, Claim, Fact, Outcome, Plane, Undecidable, Verdict
from state.events import (
    EvidenceGathered,
    HoldAnswered,
    HoldOpened,
    Judged,
    PlanMade,
    ReadinessReached,
    RolloutConcluded,
    RolloutRequested,
    Side,
    decode,
)
from state.judging import refuting
from state.model import Value
from state.narrative import Line, narrate
from state.outage import Phase, phases
from state.store.port import RecordedEvent


class Level(Value):
    """A figure with its samples, and those of the configuration that it is compared with, in the order of taking."""

    claim: str
    statement: str
    outcome: Outcome
    unit: str
    samples: tuple[float, ...]
    baseline: tuple[float, ...] = ()
    value: float
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    change: bool = False


class Proof(Value):
    """The judgement that counted for a side: its newest, with the rounds and seconds of traffic behind it."""

    side: Side
    rounds: int
    seconds: float
    outcome: Outcome
    planes: tuple[tuple[Plane, tuple[Verdict, ...]], ...]
    levels: tuple[Level, ...]
    notes: tuple[str, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()


class Report(Value):
    """Stages are pairs (stage, seconds after the start); `evidence` names digests that `interlock show` and the
    evidence store know."""

    rollout: str
    service: str
    purpose: str
    revision: str
    actor: str
    reason: str
    requested_at: datetime
    outcome: str
    exit_code: int | None
    summary: str
    dark_s: float | None
    changes: tuple[str, ...]
    undecidable: tuple[Undecidable, ...]
    timeline: tuple[Line, ...]
    outage: tuple[Phase, ...]
    stages: tuple[tuple[Side, tuple[tuple[str, float], ...]], ...]
    proofs: tuple[Proof, ...]
    held: tuple[str, ...] = ()
    next_argvs: tuple[str, ...] = ()


def report_of(history: Sequence[RecordedEvent]) -> Report:
    """Of a history that begins with its request; an unfinished one has the outcome `unfinished`."""
    events = [decode(recorded) for recorded in history]
    requested = events[0]
    assert isinstance(requested, RolloutRequested)  # every stream begins with it
    concluded = next((e for e in reversed(events) if isinstance(e, RolloutConcluded)), None)
    planned = next((e.plan for e in events if isinstance(e, PlanMade)), None)
    ready = tuple((e.side, e.stages) for e in events if isinstance(e, ReadinessReached))
    claims = (*planned.claims, *planned.previous_claims) if planned else ()
    return Report(
        rollout=requested.rollout,
        service=requested.service,
        purpose=requested.purpose,
        revision=requested.revision.short,
        actor=requested.actor,
        reason=requested.reason,
        requested_at=history[0].recorded_at,
        outcome=concluded.outcome if concluded else "unfinished",
        exit_code=concluded.exit_code if concluded else None,
        summary=concluded.summary if concluded else "it has not ended",
        dark_s=concluded.dark_s if concluded else None,
        changes=(planned.changes or (planned.unchanged,)) if planned else (),
        undecidable=planned.undecidable if planned else (),
        timeline=tuple(narrate(history)),
        outage=phases(history),
        stages=ready,
        proofs=tuple(_proof(side, events, claims) for side in _judged_sides(events)),
        held=tuple(e.question if isinstance(e, HoldOpened) else f"{e.actor}: {e.answer}, {e.reason}"
                   for e in events if isinstance(e, HoldOpened | HoldAnswered)),
        next_argvs=concluded.next_argvs if concluded else (),
    )  # fmt: skip


def _judged_sides(events: Iterable[object]) -> tuple[Side, ...]:
    return tuple(dict.fromkeys(e.side for e in events if isinstance(e, Judged)))


def _proof(side: Side, events: Sequence[object], claims: Sequence[Claim]) -> Proof:
    judged = [e for e in events if isinstance(e, Judged) and e.side == side][-1]
    gathered = [e for e in events if isinstance(e, EvidenceGathered) and e.side == side]
    claimed = {claim.metric for claim in claims}
    newest = gathered[-1].items if gathered else {}
    return Proof(
        side=side,
        rounds=judged.round,
        seconds=round(sum(e.seconds for e in gathered), 3),
        outcome=judged.outcome,
        planes=by_plane(tuple(_refutable(verdict, claims) for verdict in judged.verdicts)),
        levels=tuple(levels(judged.verdicts, judged.facts, claims)),
        notes=tuple(f.text for f in judged.facts if f.metric not in claimed and f.metric in REPORTED and f.text),
        evidence=tuple((name, item.digest) for name, item in sorted(newest.items())),
    )


def _refutable(verdict: Verdict, claims: Sequence[Claim]) -> Verdict:
    """Verdicts of 0.1.0 did not say what would have refuted them; their claims do."""
    claim = next((c for c in claims if c.name == verdict.claim), None)
    if verdict.refuting or claim is None:
        return verdict
    return verdict.model_copy(update={"refuting": refuting(claim)})


REPORTED = ("answers.same", "memory.weights_gb")
"""Facts that no claim is about and that a reader wants to know."""


def by_plane(verdicts: Sequence[Verdict]) -> tuple[tuple[Plane, tuple[Verdict, ...]], ...]:
    """In the order of the planes; what is not held comes first within one."""
    rank = {"refuted": 0, "inconclusive": 1, "held": 2}
    grouped = []
    for plane in PLANES:
        own = sorted((v for v in verdicts if v.plane == plane), key=lambda v: rank[v.outcome])
        if own:
            grouped.append((plane, tuple(own)))
    return tuple(grouped)


def levels(verdicts: Sequence[Verdict], facts: Sequence[Fact], claims: Sequence[Claim]) -> Iterable[Level]:
    """The verdicts that rest on samples."""
    metric = {claim.name: claim for claim in claims}
    known = {fact.metric: fact for fact in facts}
    for verdict in verdicts:
        claim = metric.get(verdict.claim)
        fact = known.get(claim.metric) if claim else None
        if claim is None or fact is None or not fact.samples or verdict.estimate is None:
            continue
        yield Level(
            claim=verdict.claim,
            statement=verdict.statement,
            outcome=verdict.outcome,
            unit=claim.unit,
            samples=fact.samples,
            baseline=fact.baseline,
            value=verdict.estimate.value,
            low=verdict.estimate.low,
            high=verdict.estimate.high,
            bound=verdict.estimate.bound,
            change=claim.estimator == "change",
        )
