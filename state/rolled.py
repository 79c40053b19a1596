"""What a rollout's events leave behind: the rollout as its history says it is, and the draft in which it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from state.claims import Verdict
from state.events import (
    BaselineRecorded,
    DeviceQuarantined,
    ErrorFacts,
    EvidenceItem,
    HoldAnswered,
    HoldOpened,
    Judged,
    RolloutConcluded,
    RolloutRequested,
    Succeeded,
)
from state.plan import Plan


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the way forward was left: the first cause, kept apart from whatever fails in the undo."""

    action: str
    error: ErrorFacts


@dataclass(frozen=True, slots=True)
class Rollout:
    """What the history of one rollout says. `attempts` counts an action's starts, `done` holds keys with their facts,
    `failures` the error of an action's newest attempt, if that attempt failed, `revivals` a name for each time that the
    way back began anew, because a stranded rollout was gone on with or a host had restored itself (what units of steps
    that ran before that had done may be undone by now), `quarantined` the devices that it quarantined and nobody has
    cleared, by address, `spent` the seconds that a side's rounds took up to each of them."""

    requested: RolloutRequested | None = None
    plan: Plan | None = None
    session: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[str, Succeeded] = field(default_factory=dict)
    failures: Mapping[str, ErrorFacts] = field(default_factory=dict)
    fencing: Mapping[str, int] = field(default_factory=dict)
    leased: bool = False
    baseline: BaselineRecorded | None = None
    engine_version: str | None = None
    judged: Mapping[str, Judged] = field(default_factory=dict)
    gathered: Mapping[str, Mapping[str, EvidenceItem]] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    service: Mapping[str, Any] = field(default_factory=dict)
    trouble: Trouble | None = None
    cancelled: str = ""
    concluded: RolloutConcluded | None = None
    released: bool = False
    revivals: tuple[str, ...] = ()
    quarantined: Mapping[str, DeviceQuarantined] = field(default_factory=dict)

    def started(self, key: str) -> bool:
        return self.attempts.get(key, 0) > 0

    def failed(self, key: str, limit: int) -> ErrorFacts | None:
        """The error that ended the action for good: not retryable, or all `limit` attempts used. None while it may run.

        An attempt without its fact ended with its orchestrator, and says nothing: it is made again."""
        error = self.failures.get(key)
        if key in self.done or error is None:
            return None
        return error if not error.retryable or self.attempts.get(key, 0) >= limit else None

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do for any session: concluded, and every lease given back that may have been taken
        (an intent counts), which a stranded rollout keeps."""
        if self.concluded is None:
            return False
        asked = any(key.startswith("lease:") for key in self.attempts)
        return self.released or not asked or self.concluded.outcome == "stranded"

    @property
    def hold(self) -> HoldOpened | None:
        """The question that was put to a person."""
        opened = self.done.get("open-hold")
        return opened if isinstance(opened, HoldOpened) else None

    @property
    def answer(self) -> HoldAnswered | None:
        answered = self.done.get("hold")
        return answered if isinstance(answered, HoldAnswered) else None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Those of the newest judgement."""
        return tuple(self.judged.values())[-1].verdicts if self.judged else ()


@dataclass(slots=True)
class Draft:
    """A rollout while events are taken in: the same fields, its dictionaries its own until they are the rollout's."""

    requested: RolloutRequested | None
    plan: Plan | None
    session: int
    attempts: dict[str, int]
    done: dict[str, Succeeded]
    failures: dict[str, ErrorFacts]
    fencing: dict[str, int]
    leased: bool
    baseline: BaselineRecorded | None
    engine_version: str | None
    judged: dict[str, Judged]
    gathered: dict[str, Mapping[str, EvidenceItem]]
    spent: dict[str, float]
    service: dict[str, Any]
    trouble: Trouble | None
    cancelled: str
    concluded: RolloutConcluded | None
    released: bool
    revivals: tuple[str, ...]
    quarantined: dict[str, DeviceQuarantined]

    @classmethod
    def of(cls, rollout: Rollout) -> "Draft":
        own: list[Any] = [dict(value) if isinstance(value, dict) else value for value in _values(rollout)]
        return cls(*own)

    def frozen(self) -> Rollout:
        """The rollout. The draft is not to be used any more: its dictionaries are the rollout's now."""
        return Rollout(*_values(self))


_values = attrgetter(*(one.name for one in fields(Draft)))
