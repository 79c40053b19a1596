"""Whether the seconds that claims give to traffic can hold it at all: said with a plan, before anything is touched.

Only what is certain without knowing the service is said: the rate that the manifest sets, and a speed that no stream
exceeds. A service that is slower than that may need far more.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from state.claims import Claim
from state.judging import LEAST_SAMPLES
from state.plan import Plan
from state.traffic import Traffic, levels, loaded, quizzes, requests_in_pass, seconds

FASTEST_STREAM = 2000.0
"""Tokens a second that one stream never exceeds: each step reads the weights once, and at the 3.35 TB/s of an H100's
memory (NVIDIA's data sheet) even a model of 5 GB with three accepted tokens a step stays below it."""


class Need(NamedTuple):
    """What the fewest passes at a level take: `seconds` at least, by the `rate` or by the speed of the streams."""

    level: int
    passes: int
    seconds: float
    by_rate: bool


def needs(claims: Sequence[Claim], traffic: Traffic) -> tuple[Need, ...]:
    """For each level of load: one pass that warms up, and as many as the most demanding claim must have measured."""
    under_load = loaded(claims)
    found = []
    for level in levels(under_load):
        passes = 1 + max(_least(claim) for claim in under_load if claim.conditions["concurrency"] == level)
        streamed, started = _streamed(level, traffic), _started(level, traffic)
        found.append(Need(level, passes, passes * max(streamed, started), started > streamed))
    return tuple(found)


def remarks(plan: Plan) -> list[str]:
    """What is to be said with a plan; nothing where nothing is to be done."""
    return [] if plan.unchanged else list(doubts(plan.claims, plan.traffic))


def doubts(claims: Sequence[Claim], traffic: Traffic) -> tuple[str, ...]:
    """A sentence where load cannot bring its claims the samples that they need within their seconds; none otherwise."""
    found = needs(claims, traffic)
    given = seconds((*loaded(claims), *quizzes(claims)), traffic)
    if sum(need.seconds for need in found) <= given:
        return ()
    longest = max(found, key=lambda need: need.seconds)
    others = "" if len(found) == 1 else f" ({_told(sum(need.seconds for need in found))} at all {len(found)} levels)"
    return (
        f"claims about load cannot be decided: {longest.passes} passes of {requests_in_pass(longest.level)} requests at"
        f" concurrency {longest.level} take {_told(longest.seconds)} at least{others}{_by(longest, traffic)}, and"
        f" {given:g} s is all that they have; {_mend(found)}",
    )


def _least(claim: Claim) -> int:
    """Measured passes without which a claim stays open. Of a share each request is a sample."""
    return 1 if claim.estimator == "proportion" else LEAST_SAMPLES


def _streamed(level: int, traffic: Traffic) -> float:
    """Seconds of a pass whose places each take one request after the other."""
    return requests_in_pass(level) / level * traffic.tokens / FASTEST_STREAM


def _started(level: int, traffic: Traffic) -> float:
    """Seconds of a pass until its last request has been started and answered."""
    if traffic.rate is None:
        return 0.0
    return (requests_in_pass(level) - 1) / traffic.rate + traffic.tokens / FASTEST_STREAM


def _told(seconds_: float) -> str:
    return f"{seconds_:.3g} s" if seconds_ < 1000 else f"{seconds_:.0f} s"


def _by(need: Need, traffic: Traffic) -> str:
    if need.by_rate:
        return f" with `traffic.rate` {traffic.rate:g}"
    return f" with {traffic.tokens} tokens each, however fast the service is"


def _mend(found: Iterable[Need]) -> str:
    way = "a higher `traffic.rate`" if any(need.by_rate for need in found) else "fewer `traffic.tokens`"
    return f"give them more (`traffic.budget`, `within`), {way}, or less `concurrency`"
