"""Two rollouts side by side: their verdicts, their figures with intervals, and the change from one to the other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from state.claims import Claim, Fact, Outcome
from state.interval import Bounds, change_bounds, mean_bounds, share_bounds
from state.judging import LEAST_SAMPLES
from state.plan import Plan
from state.rollout import Rollout

CONFIDENCE = 0.95
"""Of each interval; a comparison looks once."""

ERROR = (1 - CONFIDENCE) / 2

UNBOUNDED = 1000.0
"""A change that so few samples cannot exclude by their ranks comes as about this many times."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one rollout measured for a claim; bounds None where there are too few samples for an interval."""

    value: float
    low: float | None
    high: float | None
    sample: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A claim in both rollouts; outcome None where a rollout had no such claim. `change` is relative, from the first to
    the second; `why` says what it lacks where both measured the figure and there is none."""

    claim: str
    plane: str
    first: Outcome | None
    second: Outcome | None
    unit: str = ""
    figures: tuple[Figure | None, Figure | None] = (None, None)
    change: Bounds | None = None
    why: str = ""

    @property
    def worse(self) -> bool:
        return self.first == "held" and self.second == "refuted"


def compare(first: Rollout, second: Rollout) -> tuple[Compared, ...]:
    """The claims of both, those of the first in its order, then what only the second has."""
    sides = (_judged(first), _judged(second))
    names = dict.fromkeys([*sides[0], *sides[1]])
    return tuple(_compared(name, sides[0].get(name), sides[1].get(name)) for name in names)


def differences(first: Rollout, second: Rollout) -> Iterator[str]:
    """Sentences about what else differs, and may be the cause of a change."""
    before, after = first.plan, second.plan
    if before is None or after is None:
        return
    for what, a, b in (
        ("service", before.service, after.service),
        ("engine", before.target.engine, after.target.engine),
        ("engine version", before.target.engine_version, after.target.engine_version),
        ("host", before.target.unit_host, after.target.unit_host),
    ):
        if a != b:
            yield f"{what}: {a or 'unknown'} → {b or 'unknown'}"
    yield from _arguments(before, after)
    if before.traffic != after.traffic:
        yield "the traffic is not the same: figures under load differ for that reason too"


def _arguments(before: Plan, after: Plan) -> Iterator[str]:
    old, new = before.target.arguments, after.target.arguments
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'not set')} → {new.get(name, 'not set')}"


Side = tuple[Claim | None, Outcome, Fact | None]


def _judged(rollout: Rollout) -> Mapping[str, Side]:
    """By claim: what the plan says of it, its last outcome on the new side, and the fact behind it."""
    last = next((j for j in reversed(tuple(rollout.judged.values())) if j.side == "new"), None)
    if last is None:
        return {}
    claims = {claim.name: claim for claim in rollout.plan.claims} if rollout.plan else {}
    facts = {fact.metric: fact for fact in last.facts}
    known = ((v, claims.get(v.claim)) for v in last.verdicts)
    return {v.claim: (claim, v.outcome, facts.get(claim.metric) if claim else None) for v, claim in known}


def _compared(name: str, first: Side | None, second: Side | None) -> Compared:
    claim = next((side[0] for side in (second, first) if side and side[0]), None)
    facts = tuple(side[2] if side else None for side in (first, second))
    samples = tuple(fact.samples if fact else () for fact in facts)
    share = claim is not None and claim.estimator == "proportion"
    change, why = _change(samples[0], samples[1], share=share) if all(samples) else (None, "")
    return Compared(
        claim=name,
        plane=claim.plane if claim else "",
        first=first[1] if first else None,
        second=second[1] if second else None,
        unit="" if claim is None or share else claim.unit,
        figures=(_figure(claim, samples[0]), _figure(claim, samples[1])),
        change=change,
        why=why,
    )


def _figure(claim: Claim | None, samples: tuple[float, ...]) -> Figure | None:
    """Nothing for a claim whose fact is no figure with samples."""
    if not samples or claim is None:
        return None
    value = sum(samples) / len(samples)
    bounds = _bounds(samples, claim.resolution, share=claim.estimator == "proportion")
    return Figure(value, bounds.low if bounds else None, bounds.high if bounds else None, len(samples))


def _bounds(samples: tuple[float, ...], resolution: float, *, share: bool, error: float = ERROR) -> Bounds | None:
    if share:
        return share_bounds(sum(1 for s in samples if s >= 0.5), len(samples), error, error)
    return mean_bounds(samples, error, error, resolution) if len(samples) >= LEAST_SAMPLES else None


def _change(
    first: tuple[float, ...], second: tuple[float, ...], *, share: bool
) -> tuple[Bounds, str] | tuple[None, str]:
    if share:
        return _share_change(first, second)
    fewest = min(len(first), len(second))
    if fewest < LEAST_SAMPLES:
        return None, f"not enough data: {fewest} of at least {LEAST_SAMPLES} samples"
    if min(*first, *second) <= 0:
        return None, "not enough data: a figure of zero has no relative change"
    bounds = change_bounds(second, first, ERROR, ERROR)
    if bounds.low <= -1 or bounds.high >= UNBOUNDED:
        return None, f"not enough data: {len(first)} and {len(second)} samples bound no change ({bounds.middle:+.1%})"
    return bounds, ""


def _share_change(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[Bounds, str] | tuple[None, str]:
    """From the two exact intervals, each with half of the error: wider than need be, never too narrow."""
    before, after = (share_bounds(sum(1 for s in side if s >= 0.5), len(side), ERROR / 2, ERROR / 2)
                     for side in (first, second))  # fmt: skip
    if before.low <= 0 or before.middle <= 0:
        return None, "not enough data: the first share may be zero"
    return Bounds(after.low / before.high - 1, after.middle / before.middle - 1, after.high / before.low - 1), ""
