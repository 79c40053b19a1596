"""Our own requests: which prompts, how long, for how many seconds, and what the claims ask them for.

Nothing may flatter one side of a comparison. Both sides get the same prompts in the same order, and each request begins
with words of its own, the same on both sides, so that no prefix cache helps a prompt that was asked before.
"""

from collections.abc import Iterable, Sequence

from state.claims import Claim
from state.manifest.claim_specs import TrafficSpec
from state.model import Value
from state.sampling import BUDGET_S, askings, askings_before, generations, passes, passes_before
from state.smoke import LONG_PROMPTS, QUESTIONS, Question

LOAD, QUIZ, GENERATIONS = "load", "quiz", "generations"
"""Evidence: passes of requests under load, answers to the questions of a claim, long generations."""

BASELINE = "baseline-"
"""Before the name of evidence that was taken of the service as it was before."""

BASELINE_PASSES = 8
"""Measured passes of the old service at each level, which is gone afterwards: their spread is the noise floor."""


PAIR = 2
"""Long generations go two at a time: what only company spoils shows in no single one. Figures of acceptance are figures
of so many at once, and rest on the decode records of them all."""

TEXTS_AT_ONCE = 4
"""So many at once where no figure is taken of them, but their text is judged alone: more company, and half the time."""

BASELINE_GENERATIONS = 12
"""Long generations of the old service: every built-in prompt twice."""


class Traffic(Value):
    """Prompts in the order of asking, tokens for each, seconds that a claim without a deadline may take, and requests
    started a second at most (None: as many as the concurrency lets)."""

    prompts: tuple[str, ...] = LONG_PROMPTS
    tokens: int = 256
    budget_s: float = BUDGET_S
    rate: float | None = None

    def prompt(self, salt: str, pass_: str, index: int) -> str:
        """Request `index` of a pass: salted by the rollout, numbered by pass and place, so no two begin alike."""
        return f"[{salt} {pass_}.{index}] {self.prompts[index % len(self.prompts)]}"


class Order(Value):
    """What one round asks of one side. `passes` are measured at each of `levels`, numbered from `first_pass`, after one
    that warms up; each of `quizzes` is asked `askings` questions, from number `first_asking` on; all within `seconds`.
    `generations` are long texts, `at_once` of them at a time.
    """

    traffic: Traffic
    salt: str
    round: int = 1
    levels: tuple[int, ...] = ()
    passes: int = 0
    first_pass: int = 0
    quizzes: tuple[Claim, ...] = ()
    askings: int = 0
    first_asking: int = 0
    generations: int = 0
    at_once: int = PAIR
    seconds: float = BUDGET_S


def ordered(claims: Sequence[Claim], traffic: Traffic, salt: str, round_: int, spent_s: float) -> Order:
    """The order of a round after rounds that took `spent_s`. It has a quarter of the budget at least: a round that is
    begun can bring something."""
    budget = seconds((*loaded(claims), *quizzes(claims)), traffic)
    return Order(
        traffic=traffic,
        salt=salt,
        round=round_,
        generations=_generations(claims, round_),
        at_once=PAIR if _is_about_drafts(claims) else TEXTS_AT_ONCE,
        levels=levels(claims),
        passes=passes(round_),
        first_pass=passes_before(round_),
        quizzes=quizzes(claims),
        askings=askings(round_),
        first_asking=askings_before(round_),
        seconds=max(budget - spent_s, budget / 4),
    )


def _generations(claims: Sequence[Claim], round_: int) -> int:
    """As the rounds have it; the first as many as the most demanding claim about acceptance needs. Where none is about
    that, as many as the text is judged by: nothing else needs them to be many."""
    accepting = [c.minimum_sample for c in claims if c.metric.endswith(".accept_length")]
    if round_ > 1:
        return generations(round_)
    if accepting:
        return max(generations(round_), *accepting)
    return max((c.minimum_sample for c in claims if c.metric == "answers.degenerate"), default=PAIR)


def _is_about_drafts(claims: Iterable[Claim]) -> bool:
    """Whether a claim is about speculation, beyond its being off."""
    return any(claim.plane == "speculation" and claim.expected != "off" for claim in claims)


def baseline_order(claims: Sequence[Claim], traffic: Traffic, salt: str) -> Order | None:
    """What the old service is asked just before it stops; None if no claim compares with it."""
    against = compared(claims)
    if not against:
        return None
    return Order(
        traffic=traffic,
        salt=salt,
        levels=levels(against),
        passes=BASELINE_PASSES,
        generations=BASELINE_GENERATIONS if any(c.metric.startswith(GENERATIONS) for c in against) else 0,
        seconds=seconds(against, traffic),
    )


def resolved(spec: TrafficSpec) -> Traffic:
    """What the manifest's traffic stands for."""
    return Traffic(prompts=spec.prompts or LONG_PROMPTS, tokens=spec.tokens, budget_s=spec.budget, rate=spec.rate)


def levels(claims: Iterable[Claim]) -> tuple[int, ...]:
    """Numbers of requests at once that claims about load name, in rising order."""
    return tuple(sorted({int(c.conditions["concurrency"]) for c in loaded(claims)}))


def loaded(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims whose evidence is passes under load."""
    return tuple(claim for claim in claims if _needs(claim, LOAD))


def compared(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims that are about a change against the service as it was before."""
    return tuple(claim for claim in claims if claim.estimator == "change")


def seconds(claims: Iterable[Claim], traffic: Traffic) -> float:
    """Seconds of traffic for the most patient of the claims."""
    return max((c.deadline_s or traffic.budget_s for c in claims), default=traffic.budget_s)


def questions(claim: Claim) -> tuple[Question, ...]:
    """The questions of a claim about answers; the built-in ones where it names none."""
    named: Sequence[dict[str, str]] = claim.conditions.get("questions") or ()
    return tuple(Question(one["prompt"], one["matches"]) for one in named) or QUESTIONS


def quizzes(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims whose evidence is questions of their own."""
    return tuple(claim for claim in claims if _needs(claim, QUIZ))


def requests_in_pass(concurrency: int) -> int:
    """Two for each place, so that every place is taken again while the others go on; at least four."""
    return max(4, 2 * concurrency)


def _needs(claim: Claim, item: str) -> bool:
    return claim.metric.partition(".")[0] == item and "concurrency" in claim.conditions
