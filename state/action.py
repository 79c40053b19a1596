"""Actions: what the loop can be told to do next, each with a key that names it in the history."""

from dataclasses import dataclass
from typing import Literal

from state.events import Direction, Ending, Side

Kind = Literal[
    "plan",
    "lease",
    "preflight",
    "baseline",
    "step",
    "await-readiness",
    "verify",
    "judge",
    "open-hold",
    "hold",
    "soak",
    "freeze",
    "conclude",
    "release",
]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. `key` is unique within a rollout; `step` indexes the plan's steps."""

    kind: Kind
    key: str
    step: int | None = None
    direction: Direction = "do"
    side: Side = "new"
    round: int = 0
    ending: Ending | None = None

    @property
    def title(self) -> str:
        """The action's name for people and for Prefect: `undo start-service`, `verify old`."""
        if self.kind == "step":
            return f"{'undo ' if self.direction == 'undo' else ''}{self.key.rpartition(':')[2]}"
        if self.kind == "conclude":
            return f"conclude {self.ending}"
        suffix = " old" if self.side == "old" else ""
        return f"{self.kind}{suffix}" + (f" round {self.round}" if self.round > 1 else "")


def plan() -> Action:
    return Action("plan", "plan")


def lease(occasion: str) -> Action:
    """`occasion`: "0" for the first lease, the session's number if resumed, "reverted" once the host's timer acted."""
    return Action("lease", f"lease:{occasion}")


def preflight() -> Action:
    return Action("preflight", "preflight")


def baseline() -> Action:
    return Action("baseline", "baseline")


def step(index: int, kind: str, direction: Direction) -> Action:
    return Action("step", f"{direction}:{index}:{kind}", step=index, direction=direction)


def await_readiness(side: Side) -> Action:
    return Action("await-readiness", f"await-readiness:{side}", side=side)


def verify(side: Side, round_: int) -> Action:
    return Action("verify", f"verify:{side}:{round_}", side=side, round=round_)


def judging(side: Side, round_: int) -> Action:
    return Action("judge", f"judge:{side}:{round_}", side=side, round=round_)


def open_hold() -> Action:
    """Puts the question to a person, once."""
    return Action("open-hold", "open-hold")


def hold() -> Action:
    """Waits for the answer; its fact is the answer, whoever records it."""
    return Action("hold", "hold")


def soak() -> Action:
    return Action("soak", "soak")


def freeze() -> Action:
    return Action("freeze", "freeze")


def conclude(ending: Ending) -> Action:
    return Action("conclude", f"conclude:{ending}", ending=ending)


def release() -> Action:
    return Action("release", "release")
