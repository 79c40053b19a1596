"""Claims, facts and verdicts: what is asserted of a running service, what was read, and what followed.

`state.judging` holds the rule that makes verdicts of claims and facts.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from state.model import Value

Plane = Literal["identity", "control", "data", "resource", "function", "speculation", "performance"]
PLANES: tuple[Plane, ...] = ("identity", "control", "data", "resource", "function", "speculation", "performance")
Outcome = Literal["held", "refuted", "inconclusive"]
Relation = Literal["equals", "one-of", "at-least", "at-most", "within"]
Estimator = Literal["value", "mean", "proportion", "change"]
Doubt = Literal["rollback", "hold", "accept"]


def _as_lists(value: Any) -> Any:
    """Tuples as lists, as JSON gives them back: a claim is judged the same before and after it was stored."""
    if isinstance(value, dict):
        return {name: _as_lists(item) for name, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


Plain = Annotated[Any, BeforeValidator(_as_lists)]


class Cause(Value):
    """A likely cause of a refuted claim, and what would tell it from the others."""

    cause: str
    check: str


class Claim(Value):
    """A falsifiable statement about the running service.

    `metric` names the fact it is about; `expected` is the value, the list of values (`one-of`), the bound, or
    `[value, tolerance]` (`within`). `minimum_sample` counts observations behind the fact.

    `estimator` says how a fact's samples are put against the bound: `value` compares the fact itself; `mean` an
    interval of the samples' mean; `proportion` an interval of the share of ones among them; `change` an interval of
    the relative change from the fact's baseline samples (`expected` 0.12 is +12 %). `confidence` is the probability
    that a true claim is not refuted; `held` is given with a fifth of that error. `resolution` is what the figures are
    rounded to, half a unit of the last digit: samples without spread prove no more than that.

    `deadline_s` bounds the seconds of traffic spent on deciding it, `doubt` says what follows if it stays open (None:
    the rollout's policy), `causes` are in the order of their likelihood, `conditions` are the claim's own parameters,
    for instance the concurrency it is about.
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
    estimator: Estimator = "value"
    confidence: float | None = None
    resolution: float = 0.005
    unit: str = ""
    deadline_s: float | None = None
    doubt: Doubt | None = None
    causes: tuple[Cause, ...] = ()
    conditions: dict[str, Plain] = {}

    @model_validator(mode="before")
    @classmethod
    def _levels_have_an_estimator(cls, data: Any) -> Any:
        """Claims of 0.1.0 said `confidence` alone, and meant the mean."""
        if isinstance(data, dict) and data.get("confidence") is not None and "estimator" not in data:
            return {**data, "estimator": "mean"}
        return data

    @model_validator(mode="after")
    def _intervals_have_a_level(self) -> "Claim":
        if self.estimator != "value" and self.confidence is None:
            raise ValueError(f"claim {self.name}: an interval needs a confidence")
        return self


class Fact(Value):
    """One thing read from evidence. `value` None means that the evidence does not say. `evidence` holds digests.

    `sample` counts observations. `samples` are those behind a level, or means of a few of them each, `baseline` those
    of the configuration that it is compared with.
    """

    metric: str
    value: Plain = None
    sample: int = 1
    samples: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()
    text: str = ""
    evidence: tuple[str, ...] = ()


class Estimate(Value):
    """A figure with what is known of it: `low` and `high` enclose it as the verdict needed, None where there is no
    interval; `noise` is the relative spread between repeats of the same configuration (A/A), where that was measured.
    """

    value: float
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    unit: str = ""
    sample: int = 0
    baseline: float | None = None
    noise: float | None = None


class Verdict(Value):
    """A claim's outcome with its reason; `more` says that more traffic could still decide it, `refuting` what would
    have refuted it."""

    claim: str
    plane: Plane
    statement: str
    outcome: Outcome
    reason: str
    remedy: str = ""
    sample: int = 0
    evidence: tuple[str, ...] = ()
    more: bool = False
    estimate: Estimate | None = None
    refuting: str = ""
    doubt: Doubt | None = None
    causes: tuple[Cause, ...] = ()
    deadline_s: float | None = None


class Undecidable(Value):
    """A claim that would follow from what is asked for, and that no evidence could decide here; `why` is a sentence,
    `instead` says what would make it decidable."""

    claim: str
    plane: Plane
    why: str
    instead: str = ""


def conclusion(verdicts: Sequence[Verdict]) -> Outcome:
    """`refuted` if any is, else `inconclusive` if any is or there are none, else `held`."""
    outcomes = {v.outcome for v in verdicts}
    if "refuted" in outcomes:
        return "refuted"
    return "held" if outcomes == {"held"} else "inconclusive"
