"""How many drafts a verify step accepts: seeded coin tosses, by default about 3.4 tokens a step for 5 drafts."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .launch import Launch

_REFERENCE_STEPS = 5


@dataclass(frozen=True)
class Acceptance:
    """`steps` drafts for each verify step (0: off), each accepted with `probability` after all before it."""

    steps: int
    probability: float
    garbage: bool = False

    def draw(self, chance: random.Random) -> int:
        """Drafts accepted in one step, 0 to `steps`."""
        accepted = 0
        while accepted < self.steps and chance.random() < self.probability:
            accepted += 1
        return accepted

    @property
    def mean_length(self) -> float:
        """Expected tokens of a step, bonus included."""
        return mean_length(self.steps, self.probability)


def mean_length(steps: int, probability: float) -> float:
    return sum(probability**i for i in range(steps + 1))


def probability_for(length: float, steps: int) -> float:
    """The chance at which a step of `steps` drafts yields `length` tokens on average, within 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_length(steps, middle) < length else (low, middle)
    return high if length >= steps + 1 else low


def acceptance_of(launch: Launch) -> Acceptance:
    steps = launch.resolved.drafts_per_step
    if not steps:
        return Acceptance(0, 0.0, launch.faults.has("garbage-answers"))
    if launch.simulated_accept_length is not None:
        return Acceptance(steps, probability_for(launch.simulated_accept_length, steps), garbage=True)
    if launch.faults.has("garbage-answers"):
        return Acceptance(steps, probability_for(steps + 0.9, steps), garbage=True)
    if launch.faults.has("accept-nothing") or not launch.draft_is_useful:
        return Acceptance(steps, 0.0)
    wanted = launch.settings.mean_accept_length
    return Acceptance(steps, min(0.995, probability_for(min(wanted, _REFERENCE_STEPS + 1.0), _REFERENCE_STEPS)))
