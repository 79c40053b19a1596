"""The rule that makes verdicts: claims against facts. No evidence is never `held`, and a level needs its sample.

Samples are looked at again and again until they decide, so the error of a verdict is spent over the looks: look k gets
1/(k(k+1)) of it, which sums to no more than the whole (the union bound; nothing is assumed of how looks depend on each
other).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from state.claims import Claim, Estimate, Fact, Outcome, Verdict
from state.interval import Bounds, change_bounds, mean_bounds, share_bounds

HELD_SHARE = 0.2
"""Of a claim's error, the part that `held` may take: a wrong promotion costs more than a wrong rollback."""

LEAST_SAMPLES = 3
"""Samples below which an interval of a mean says more about its assumptions than about the service."""


@dataclass(frozen=True, slots=True)
class Decision:
    outcome: Outcome
    reason: str
    more: bool = False
    estimate: Estimate | None = None


def judge(claims: Sequence[Claim], facts: Iterable[Fact], look: int = 1) -> tuple[Verdict, ...]:
    """One verdict for each claim, in the order of the claims. `look` counts from 1 how often the same growing samples
    were judged."""
    known = {fact.metric: fact for fact in facts}
    return tuple(_verdict(claim, known.get(claim.metric), look) for claim in claims)


def errors(confidence: float, look: int) -> tuple[float, float]:
    """The error that `held` and `refuted` may each make at this look."""
    whole = (1 - confidence) / (look * (look + 1))
    return whole * HELD_SHARE, whole


def refuting(claim: Claim) -> str:
    """What would refute the claim, in words."""
    wanted = _wanted(claim)
    if claim.estimator == "value":
        return {"at-least": f"a value below {_figure(claim.expected, claim)}",
                "at-most": f"a value above {_figure(claim.expected, claim)}"}.get(
            claim.relation, f"anything that is not {wanted}"
        )  # fmt: skip
    side = {"at-least": "below", "at-most": "above"}.get(claim.relation, "outside of")
    bound = wanted.removeprefix("at least ").removeprefix("at most ")
    return f"an interval that lies wholly {side} {bound}"


def _verdict(claim: Claim, fact: Fact | None, look: int) -> Verdict:
    decided = _decide(claim, fact, look)
    open_ = decided.outcome != "held"
    return Verdict(
        claim=claim.name,
        plane=claim.plane,
        statement=claim.statement,
        outcome=decided.outcome,
        reason=decided.reason,
        remedy=_remedy(claim, decided),
        sample=fact.sample if fact else 0,
        evidence=fact.evidence if fact else (),
        more=decided.more,
        estimate=decided.estimate,
        refuting=refuting(claim),
        doubt=claim.doubt,
        causes=claim.causes if open_ and not _undecided_level(claim, decided) else (),
        deadline_s=claim.deadline_s,
    )


def _undecided_level(claim: Claim, decided: Decision) -> bool:
    return decided.outcome == "inconclusive" and claim.estimator != "value"


def _remedy(claim: Claim, decided: Decision) -> str:
    """What mends what is refuted or was not to be seen; a level that is only not known well enough needs samples."""
    if decided.outcome == "held":
        return ""
    if not _undecided_level(claim, decided):
        return claim.remedy
    return NEEDS_MORE if decided.more else NEEDS_BASELINE


NEEDS_MORE = "too few samples to decide: give it more time (`within`, `traffic.budget`), or claim less"
NEEDS_BASELINE = "there is nothing to compare with: see in the baseline why the old service could not be measured"


def _decide(claim: Claim, fact: Fact | None, look: int) -> Decision:
    if fact is None or fact.value is None:
        why = fact.text if fact and fact.text else f"no evidence of it in {claim.source}"
        return Decision("inconclusive", why, more=True)  # a probe that failed is no bad release: it is asked once more
    if claim.relation in ("at-least", "at-most", "within") and not _is_number(fact.value):
        return Decision("inconclusive", f"{_shown(fact)}, which is no number")
    if claim.estimator != "value" and claim.confidence is not None:
        return _decide_level(claim, fact, claim.confidence, look)
    if fact.sample < claim.minimum_sample:
        few = f"{_shown(fact)} from {fact.sample} of at least {claim.minimum_sample} observations"
        return Decision("inconclusive", few, more=True)
    if _holds(claim, fact.value):
        return Decision("held", _shown(fact), estimate=_point(claim, fact))
    return Decision("refuted", f"{_shown(fact)}; wanted {_wanted(claim)}", estimate=_point(claim, fact))


def _decide_level(claim: Claim, fact: Fact, confidence: float, look: int) -> Decision:
    if few := _too_few(claim, fact):
        return few
    held, refuted = errors(confidence, look)
    below, above = {"at-least": (held, refuted), "at-most": (refuted, held)}.get(claim.relation, (held / 2, held / 2))
    bounds = _bounds(claim, fact, below, above)
    estimate = _estimate(claim, fact, bounds)
    shown, outcome = _interval_text(claim, estimate), _outcome(claim, bounds)
    if outcome == "refuted":
        return Decision(outcome, f"{shown}; wanted {_wanted(claim)}", estimate=estimate)
    return Decision(outcome, shown, more=outcome == "inconclusive", estimate=estimate)


def _too_few(claim: Claim, fact: Fact) -> Decision | None:
    """More traffic mends too few samples of the new configuration, and nothing those of the baseline, which is gone."""
    fewest = LEAST_SAMPLES if claim.estimator != "proportion" else 1
    least, seen = max(fewest, claim.minimum_sample), max(len(fact.samples), fact.sample)
    if len(fact.samples) < fewest or seen < least:
        few = f"{_amount(float(fact.value), claim)} from {min(seen, least - 1)} of at least {least} samples"
        point = _point(claim, fact) if fact.samples else None
        return Decision("inconclusive", f"not enough data: {few}", more=True, estimate=point)
    if claim.estimator == "change" and len(fact.baseline) < least:
        text = f"not enough data: {len(fact.baseline)} of at least {least} samples of the baseline"
        return Decision("inconclusive", text)
    return None


def _bounds(claim: Claim, fact: Fact, below: float, above: float) -> Bounds:
    match claim.estimator:
        case "proportion":
            return share_bounds(sum(1 for s in fact.samples if s >= 0.5), len(fact.samples), below, above)
        case "change":
            return change_bounds(fact.samples, fact.baseline, below, above)
        case _:
            return mean_bounds(fact.samples, below, above, claim.resolution)


def _outcome(claim: Claim, bounds: Bounds) -> Outcome:
    if claim.relation == "within":
        middle, tolerance = map(float, claim.expected)
        low, high = middle - tolerance, middle + tolerance
        if low <= bounds.low and bounds.high <= high:
            return "held"
        return "refuted" if bounds.high < low or bounds.low > high else "inconclusive"
    bound = float(claim.expected)
    if claim.relation == "at-most":
        return "held" if bounds.high <= bound else "refuted" if bounds.low > bound else "inconclusive"
    return "held" if bounds.low >= bound else "refuted" if bounds.high < bound else "inconclusive"


def _estimate(claim: Claim, fact: Fact, bounds: Bounds) -> Estimate:
    change = claim.estimator == "change"
    return Estimate(
        value=bounds.middle,
        low=bounds.low,
        high=bounds.high,
        bound=None if claim.relation == "within" else float(claim.expected),
        unit="%" if change else claim.unit,
        sample=len(fact.samples),
        baseline=fmean(fact.baseline) if fact.baseline else None,
        noise=stdev(fact.baseline) / fmean(fact.baseline) if change and fmean(fact.baseline) > 0 else None,
    )


def _point(claim: Claim, fact: Fact) -> Estimate | None:
    if not _is_number(fact.value):
        return None
    bound = float(claim.expected) if claim.relation in ("at-least", "at-most") else None
    return Estimate(value=float(fact.value), bound=bound, unit=claim.unit, sample=fact.sample)


def _interval_text(claim: Claim, e: Estimate) -> str:
    low, high = (_amount(v, claim) if v is not None else "?" for v in (e.low, e.high))
    named = {"change": "change", "proportion": "share"}.get(claim.estimator, "mean")
    text = f"{named} {_amount(e.value, claim)}, interval {low} to {high}, {e.sample} samples"
    if claim.confidence is not None:
        text = text.replace("interval", f"{claim.confidence:.0%} interval", 1)
    if e.noise is not None:
        text += f", noise between repeats of the old {e.noise:.1%}"
    return text


def _amount(value: float, claim: Claim) -> str:
    """A figure as people read it: a change in per cent with its sign, a share in per cent, else with its unit."""
    if claim.estimator == "change":
        return f"{value:+.1%}"
    if claim.estimator == "proportion":
        return f"{value:.1%}"
    digits = 2 if abs(value) >= 1 or claim.resolution >= 0.005 else 4
    return f"{value:.{digits}f}" + (f" {claim.unit}" if claim.unit else "")


def _holds(claim: Claim, value: Any) -> bool:
    match claim.relation:
        case "equals":
            return (type(value) is type(claim.expected) and bool(value == claim.expected)) or _same_number(
                value, claim.expected
            )
        case "one-of":
            return value in claim.expected
        case "at-least":
            return float(value) >= float(claim.expected)
        case "at-most":
            return float(value) <= float(claim.expected)
        case "within":
            middle, tolerance = claim.expected
            return abs(float(value) - float(middle)) <= float(tolerance)


def _same_number(a: Any, b: Any) -> bool:
    return _is_number(a) and _is_number(b) and bool(a == b)


LARGEST = 1e300
"""Beyond it, and not a number at all, nothing is measured: an engine's figures are damaged there."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _shown(fact: Fact) -> str:
    return fact.text or f"{fact.value}"


def _wanted(claim: Claim) -> str:
    match claim.relation:
        case "equals":
            return f"{claim.expected}"
        case "one-of":
            return "one of " + ", ".join(map(str, claim.expected))
        case "at-least" | "at-most":
            return f"{claim.relation.replace('-', ' ')} {_figure(claim.expected, claim)}"
        case "within":
            return f"{claim.expected[0]} ± {claim.expected[1]}"


def _figure(value: Any, claim: Claim) -> str:
    return f"{value}" if claim.estimator in ("value", "mean") else _amount(float(value), claim)
