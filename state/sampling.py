"""How much traffic a proof takes: rounds that double until every claim is decided or its budget is spent."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from state.claims import Verdict

Item = TypeVar("Item")

ROUNDS = 6
"""Looks at a growing sample. Each doubles what was seen before it, so six see 32 times the first."""

ROUNDS_WITHOUT_FIGURES = 3
"""Looks when all that is open is evidence that never came: more of the same traffic seldom brings it."""

BUDGET_S = 180.0
"""Seconds of traffic for a claim that states no deadline of its own."""

FIRST_GENERATIONS = 6

FIRST_PASSES = 4
"""Measured passes at each level of load in the first round: the fewest that, beside eight of the baseline, can bound a
change on both sides by their ranks."""

FIRST_ASKINGS = 24
"""Askings of a claim's questions in the first round."""

ACCUMULATED = ("answers", "generations", "load", "quiz", "contracts", "metrics-before")
"""Evidence that later rounds add to; everything else is read anew, and only its newest reading counts."""


def generations(round_: int) -> int:
    """Generations in a round: six, then as many as all rounds before together."""
    return FIRST_GENERATIONS * _doubled(round_)


def passes(round_: int) -> int:
    """Measured passes at each level in a round."""
    return FIRST_PASSES * _doubled(round_)


def passes_before(round_: int) -> int:
    """Measured passes at each level in all rounds before."""
    return sum(passes(earlier) for earlier in range(1, round_))


def askings(round_: int) -> int:
    """Times that questions of a claim are asked in a round."""
    return FIRST_ASKINGS * _doubled(round_)


def askings_before(round_: int) -> int:
    """Times that questions of a claim were asked in all rounds before."""
    return sum(askings(earlier) for earlier in range(1, round_))


def _doubled(round_: int) -> int:
    """1, then as many as all rounds before together."""
    return 1 << max(0, round_ - 2)


def another(verdicts: Iterable[Verdict], round_: int, spent_s: float) -> bool:
    """Whether another round could decide: nothing is refuted, and something is open that more samples may settle, in
    the rounds and the seconds that it has."""
    found = tuple(verdicts)
    if any(v.outcome == "refuted" for v in found):
        return False
    return any(_worth_more(v, round_, spent_s) for v in found)


def _worth_more(verdict: Verdict, round_: int, spent_s: float) -> bool:
    if verdict.outcome != "inconclusive" or not verdict.more:
        return False
    rounds = ROUNDS if verdict.estimate is not None else ROUNDS_WITHOUT_FIGURES
    budget = verdict.deadline_s if verdict.deadline_s is not None else BUDGET_S
    return round_ < rounds and (round_ < 2 or spent_s < budget)


def carried(earlier: Mapping[str, Item], round_: int) -> dict[str, Item]:
    """The accumulating evidence of the round before, under names that keep it apart: `generations@1`."""
    kept = {}
    for name, item in earlier.items():
        base, _, number = name.partition("@")
        if base in ACCUMULATED:
            kept[name if number else f"{base}@{round_ - 1}"] = item
    return kept
