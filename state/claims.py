"""Claims, facts and verdicts: what is asserted of a running service, what was read, and what follows.

`judge` is the whole rule. No evidence is never `held`; a claim about a level needs its sample.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from state.interval import mean_interval
from state.model import Value

Plane = Literal["identity", "control", "data", "resource", "function", "speculation", "performance"]
PLANES: tuple[Plane, ...] = ("identity", "control", "data", "resource", "function", "speculation", "performance")
Outcome = Literal["held", "refuted", "inconclusive"]
Relation = Literal["equals", "one-of", "at-least", "at-most", "within"]


def _as_lists(value: Any) -> Any:
    """Tuples as lists, as JSON gives them back: a claim is judged the same before and after it was stored."""
    if isinstance(value, dict):
        return {name: _as_lists(item) for name, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


Plain = Annotated[Any, BeforeValidator(_as_lists)]


class Claim(Value):
    """A falsifiable statement about the running service.

    `metric` names the fact it is about; `expected` is the value, the list of values (`one-of`), the bound, or
    `[value, tolerance]` (`within`). `minimum_sample` counts observations behind the fact; with `confidence` a bound is
    put against the interval of the mean over the fact's samples, not against the mean.
    """

    name: str
    plane: Plane
    statement: str
    metric: str
    relation: Relation
    expected: Plain
    source: str
    remedy: str
    minimum_sample: int = 1
    confidence: float | None = None
    deadline_s: float | None = None


class Fact(Value):
    """One thing read from evidence. `value` None means that the evidence does not say. `evidence` holds digests."""

    metric: str
    value: Plain = None
    sample: int = 1
    samples: tuple[float, ...] = ()
    text: str = ""
    evidence: tuple[str, ...] = ()


class Verdict(Value):
    """A claim's outcome with its reason; `more` says that more traffic could still decide it."""

    claim: str
    plane: Plane
    statement: str
    outcome: Outcome
    reason: str
    remedy: str = ""
    sample: int = 0
    evidence: tuple[str, ...] = ()
    more: bool = False


def judge(claims: Sequence[Claim], facts: Iterable[Fact]) -> tuple[Verdict, ...]:
    """One verdict for each claim, in the order of the claims."""
    known = {fact.metric: fact for fact in facts}
    return tuple(_verdict(claim, known.get(claim.metric)) for claim in claims)


def conclusion(verdicts: Sequence[Verdict]) -> Outcome:
    """`refuted` if any is, else `inconclusive` if any is or there are none, else `held`."""
    outcomes = {v.outcome for v in verdicts}
    if "refuted" in outcomes:
        return "refuted"
    return "held" if outcomes == {"held"} else "inconclusive"


def _verdict(claim: Claim, fact: Fact | None) -> Verdict:
    outcome, reason, more = _decide(claim, fact)
    return Verdict(
        claim=claim.name,
        plane=claim.plane,
        statement=claim.statement,
        outcome=outcome,
        reason=reason,
        remedy=claim.remedy if outcome != "held" else "",
        sample=fact.sample if fact else 0,
        evidence=fact.evidence if fact else (),
        more=more,
    )


def _decide(claim: Claim, fact: Fact | None) -> tuple[Outcome, str, bool]:
    if fact is None or fact.value is None:
        why = fact.text if fact and fact.text else f"no evidence of it in {claim.source}"
        return "inconclusive", why, True  # a probe that failed is no bad release: it is asked once more
    if claim.relation in ("at-least", "at-most", "within") and not _is_number(fact.value):
        return "inconclusive", f"{_shown(fact)}, which is no number", False
    if claim.confidence is not None:
        return _decide_level(claim, fact, claim.confidence)
    if fact.sample < claim.minimum_sample:
        return (
            "inconclusive",
            f"{_shown(fact)} from {fact.sample} of at least {claim.minimum_sample} observations",
            True,
        )
    holds = _holds(claim, fact.value)
    return ("held", _shown(fact), False) if holds else ("refuted", f"{_shown(fact)}; wanted {_wanted(claim)}", False)


def _decide_level(claim: Claim, fact: Fact, confidence: float) -> tuple[Outcome, str, bool]:
    count = len(fact.samples)
    if count < max(2, claim.minimum_sample):
        shown = f"mean {float(fact.value):.2f}"
        return "inconclusive", f"{shown} from {count} of at least {max(2, claim.minimum_sample)} samples", True
    low, high = mean_interval(fact.samples, confidence)
    bound = float(claim.expected)
    shown = f"mean {float(fact.value):.2f}, {confidence:.0%} interval {low:.2f} to {high:.2f}, {count} samples"
    above, below = low >= bound, high < bound
    if claim.relation == "at-most":
        above, below = high <= bound, low > bound
    if above:
        return "held", shown, False
    return ("refuted", f"{shown}; wanted {_wanted(claim)}", False) if below else ("inconclusive", shown, True)


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
        case "at-least":
            return f"at least {claim.expected}"
        case "at-most":
            return f"at most {claim.expected}"
        case "within":
            return f"{claim.expected[0]} ± {claim.expected[1]}"
