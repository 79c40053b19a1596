"""How often a verdict is wrong: claims judged against simulated services whose truth is known.

    python benchmarks/false_verdicts.py [--trials 400] [--seed 1] [--json]

Each trial draws samples as a proof does (rounds that double, every look judged by `state.judging`, at most
`sampling.ROUNDS` of them) until the claim is decided or the rounds are used up. A wrong `held` is one whose bound the
truth does not meet, a wrong `refuted` one whose bound it meets. The bounds are put at, just beyond, and far from the
truth: the nearest ones are the hardest, and decide the figures. What is drawn:

* acceptance: requests of 256 tokens, each verify step accepting drafts from a known distribution (geometric cut at
  five steps; two kinds of prompts; a different rate for every request);
* change of throughput: passes of both sides with a relative noise up to 10 % (normal; now and then a slow pass), true
  changes from -30 % to +30 %, a claim of at least +12 %;
* share: answers right with a known probability;
* drift: as throughput, but with noise that comes in waves longer than a baseline, which no baseline can know of.

Exit 1 if more than 1 % of the trials whose claim was false ended `held`, or more than 5 % of those whose claim was true
`refuted`, in any family.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import pi, sin
from pathlib import Path
from statistics import fmean, median

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from state import sampling  # noqa: E402
from state.claims import Claim, Fact, Outcome  # noqa: E402
from state.judging import judge  # noqa: E402
from state.traffic import BASELINE_PASSES  # noqa: E402

GOALS = {"held": 0.01, "refuted": 0.05}
Draw = Callable[[random.Random], float]
STEPS, TOKENS, LEAST = 5, 256, 12


@dataclass(frozen=True, slots=True)
class Case:
    """A claim about a simulated service: where the truth stands against the bound, how samples are drawn, how many come
    first, and those of the old configuration where the claim is about a change."""

    family: str
    name: str
    claim: Claim
    true: bool
    draw: Draw
    first: int
    baseline: Callable[[random.Random], tuple[float, ...]] = lambda _chance: ()


@dataclass
class Tally:
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    samples: list[int] = field(default_factory=list)

    @property
    def trials(self) -> int:
        return self.outcomes.total()


def proof(case: Case, chance: random.Random) -> tuple[Outcome, int]:
    """One proof: the outcome and the samples that it took."""
    baseline = case.baseline(chance)
    samples: list[float] = []
    outcome: Outcome = "inconclusive"
    for look in range(1, sampling.ROUNDS + 1):
        more = case.first if look == 1 else len(samples)
        samples += [case.draw(chance) for _ in range(more)]
        fact = Fact(metric="m", value=fmean(samples), sample=len(samples), samples=tuple(samples), baseline=baseline)
        (verdict,) = judge([case.claim], [fact], look)
        outcome = verdict.outcome
        if outcome != "inconclusive" or not verdict.more:
            break
    return outcome, len(samples)


def claim(estimator: str, bound: float, minimum: int = 3) -> Claim:
    return Claim.model_validate(
        {
            "name": "c", "plane": "performance", "statement": "s", "metric": "m", "relation": "at-least",
            "expected": bound, "source": "simulation", "remedy": "r", "estimator": estimator, "confidence": 0.95,
            "minimum_sample": minimum,
        }
    )  # fmt: skip


def accepted(chance: random.Random, rate: float) -> int:
    """Drafts accepted in one verify step: each of the five with the same chance, up to the first that is not."""
    count = 0
    while count < STEPS and chance.random() < rate:
        count += 1
    return count


def request(chance: random.Random, rate: float) -> float:
    """Accept length of one request: tokens for each verify step until there are 256."""
    tokens = calls = 0
    while tokens < TOKENS:
        tokens, calls = tokens + 1 + accepted(chance, rate), calls + 1
    return min(tokens, TOKENS) / calls


RATES: dict[str, Callable[[random.Random], float]] = {
    "one rate": lambda chance: 0.7,
    "nothing accepted": lambda chance: 0.01,
    "two kinds of prompts": lambda chance: 0.9 if chance.random() < 0.4 else 0.35,
    "every request its own": lambda chance: chance.betavariate(4, 3),
}


def acceptance_cases(seed: int) -> Iterator[Case]:
    for name, rate in RATES.items():
        draw = partial(_one_request, rate)
        known = random.Random(seed)
        truth = fmean(draw(known) for _ in range(20_000))
        for off in (-0.3, -0.1, -0.03, 0.0, 0.005, 0.03, 0.1, 0.3):
            bound = truth * (1 + off)
            yield Case("acceptance", f"{name}, bound {off:+.1%}", claim("mean", bound, LEAST), off <= 0, draw, LEAST)


def passes(noise: float, shape: str, change: float) -> Callable[[random.Random], Iterator[float]]:
    """Throughput of passes, for ever."""

    def stream(chance: random.Random) -> Iterator[float]:
        phase, number = chance.random() * 2 * pi, 0
        while True:
            factor = 1 + noise * chance.gauss()
            if shape == "a slow pass now and then" and chance.random() < 0.08:
                factor *= 0.75
            if shape == "slow waves":
                factor = 1 + noise * (0.7 * chance.gauss() + 0.7 * 1.41 * sin(phase + number / 3))
            number += 1
            yield max(1e-3, 500 * (1 + change) * factor)

    return stream


def change_cases(*shapes: str) -> Iterator[Case]:
    for noise in (0.01, 0.03, 0.10):
        for shape in shapes:
            for change in (-0.3, -0.1, 0.0, 0.05, 0.10, 0.119, 0.12, 0.15, 0.2, 0.3):
                yield change_case(noise, shape, change)


def change_case(noise: float, shape: str, change: float) -> Case:
    old, new = passes(noise, shape, 0.0), passes(noise, shape, change)
    streams: dict[int, Iterator[float]] = {}

    def draw(chance: random.Random) -> float:
        return next(streams[id(chance)])

    def baseline(chance: random.Random) -> tuple[float, ...]:
        streams.clear()
        streams[id(chance)] = new(chance)
        before = old(chance)
        return tuple(next(before) for _ in range(BASELINE_PASSES))

    name = f"{change:+.1%}, noise {noise:.0%}, {shape}"
    return Case(
        "drift" if shape == "slow waves" else "throughput",
        name,
        claim("change", 0.12),
        change >= 0.12,
        draw,
        FIRST_PASSES,
        baseline,
    )


FIRST_PASSES = 4


def _one_request(rate: Callable[[random.Random], float], chance: random.Random) -> float:
    return request(chance, rate(chance))


def _one_answer(truth: float, chance: random.Random) -> float:
    return float(chance.random() < truth)


def share_cases() -> Iterator[Case]:
    for bound in (0.75, 0.9, 0.95):
        for off in (-0.2, -0.05, -0.005, 0.0, 0.04):
            truth = min(1.0, bound + off)
            draw = partial(_one_answer, truth)
            yield Case(
                "share", f"{truth:.1%} right, bound {bound:.0%}", claim("proportion", bound, 8), off >= 0, draw, 16
            )


def run(cases: Sequence[Case], trials: int, seed: int) -> dict[str, Tally]:
    found: dict[str, Tally] = {}
    for number, case in enumerate(cases):
        chance, tally = random.Random(f"{seed} {number}"), Tally()
        for _ in range(trials):
            outcome, samples = proof(case, chance)
            tally.outcomes[outcome] += 1
            tally.samples.append(samples)
        found[f"{case.family}: {case.name}"] = tally
    return found


def wrong(case: Case) -> Outcome:
    return "refuted" if case.true else "held"


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all cases of a family: trials whose claim was false or true, the wrong verdicts among them, the worst case's
    share of each, the share left inconclusive, and the median of samples that a decision took."""

    family: str
    trials: dict[str, int]
    wrong: dict[str, float]
    worst: dict[str, tuple[float, str]]
    inconclusive: float
    samples: int


def summary(family: str, cases: Sequence[Case], found: dict[str, Tally]) -> Summary:
    trials = {"held": 0, "refuted": 0}
    bad = {"held": 0, "refuted": 0}
    worst = {"held": (0.0, "-"), "refuted": (0.0, "-")}
    took: list[int] = []
    open_ = 0
    for case in cases:
        tally, kind = found[f"{family}: {case.name}"], wrong(case)
        trials[kind] += tally.trials
        bad[kind] += tally.outcomes[kind]
        worst[kind] = max(worst[kind], (tally.outcomes[kind] / tally.trials, case.name))
        open_ += tally.outcomes["inconclusive"]
        took += tally.samples
    shares = {kind: bad[kind] / trials[kind] if trials[kind] else 0.0 for kind in bad}
    return Summary(family, trials, shares, worst, open_ / sum(trials.values()), int(median(took)))


def show(found: Sequence[Summary]) -> None:
    print(f"{'claims about':14} {'trials':>7} {'wrong held':>11} {'worst case':>11} {'wrong refuted':>14} "
          f"{'worst case':>11} {'open':>6} {'samples':>8}")  # fmt: skip
    for s in found:
        print(f"{s.family:14} {sum(s.trials.values()):7} {s.wrong['held']:11.2%} {s.worst['held'][0]:11.2%} "
              f"{s.wrong['refuted']:14.2%} {s.worst['refuted'][0]:11.2%} "
              f"{s.inconclusive:6.1%} {s.samples:8}")  # fmt: skip
    for s in found:
        for kind, (share, name) in s.worst.items():
            print(f"  worst {kind} of {s.family}: {share:.2%} ({name})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400, help="proofs for each case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    families = {
        "acceptance": tuple(acceptance_cases(given.seed)),
        "throughput": tuple(change_cases("normal", "a slow pass now and then")),
        "share": tuple(share_cases()),
        "drift": tuple(change_cases("slow waves")),
    }  # fmt: skip
    found = [summary(f, cases, run(cases, given.trials, given.seed)) for f, cases in families.items()]
    if given.json:
        print(json.dumps([{name: getattr(s, name) for name in Summary.__slots__} for s in found]))
    else:
        show(found)
    return 0 if all(s.wrong[kind] <= goal for s in found for kind, goal in GOALS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
