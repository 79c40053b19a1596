"""The events of a rollout: typed, frozen, versioned, and encoded for the store.

An action's intent is recorded before its effect (`ActionStarted`), its fact after it: a success event of the action's
own type, or `ActionFailed`. `action` is the action's key, the same in all of them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import ValidationError

from state.claims import Fact, Outcome, Verdict
from state.errors import HistoryCorrupt, InterlockError
from state.event import Event as Event
from state.event import Succeeded as Succeeded
from state.hold import HoldAnswered as HoldAnswered
from state.hold import HoldOpened as HoldOpened
from state.manifest.model import HostSpec
from state.model import Value, misfit
from state.plan import Plan
from state.redaction import redact
from state.revision import Revision
from state.store.port import NewEvent, RecordedEvent

Side = Literal["new", "old"]
Direction = Literal["do", "undo"]
Purpose = Literal["rollout", "rollback", "verify"]
Ending = Literal[
    "promoted",
    "unchanged",
    "verified",
    "unproven",
    "rolled-back",
    "aborted",
    "refused",
    "cancelled",
    "superseded",
    "stranded",
]


class ErrorFacts(Value):
    """An error as it is recorded: its wire name, its sentence, its hint."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False
    exit_code: int = 1

    @classmethod
    def of(cls, error: InterlockError) -> "ErrorFacts":
        return cls(
            code=error.code,
            message=redact(str(error)),
            hint=redact(error.hint),
            retryable=error.retryable,
            exit_code=error.exit_code,
        )


class EvidenceItem(Value):
    """A named piece of raw evidence in the evidence store; `size` in bytes before compression."""

    digest: str
    media_type: str
    size: int


class RolloutRequested(Event):
    wire: ClassVar[str] = "rollout-requested"
    rollout: str
    service: str
    purpose: Purpose
    revision: Revision
    hosts: dict[str, HostSpec]
    actor: str
    reason: str
    reviewed_plan: str | None = None


class RolloutResumed(Event):
    """A new orchestrator goes on with the stream; `session` counts them from 1, the first having been 0."""

    wire: ClassVar[str] = "rollout-resumed"
    session: int
    actor: str


class CancelRequested(Event):
    wire: ClassVar[str] = "cancel-requested"
    actor: str


class ActionStarted(Event):
    wire: ClassVar[str] = "action-started"
    action: str
    attempt: int


class ActionFailed(Event):
    wire: ClassVar[str] = "action-failed"
    action: str
    attempt: int
    error: ErrorFacts


class DeviceQuarantined(Event):
    """A device did not come off its driver during the action; `said` is the kernel's last word about it, or empty.

    Later plans that would move it are refused until a person clears it, in whatever history: the mark is on the host.
    """

    wire: ClassVar[str] = "device-quarantined"
    action: str
    attempt: int
    host: str
    address: str
    driver: str
    said: str = ""


class DeviceCleared(Event):
    """A person says that a device which this rollout quarantined is well again."""

    wire: ClassVar[str] = "device-cleared"
    host: str
    address: str
    actor: str
    reason: str


class PlanMade(Succeeded):
    wire: ClassVar[str] = "plan-made"
    plan: Plan
    digest: str


class LeaseTaken(Succeeded):
    """`fencing` maps each host to the number it now carries; `reverted` names hosts whose own timer had acted."""

    wire: ClassVar[str] = "lease-taken"
    holder: str
    until: str
    fencing: dict[str, int]
    reverted: tuple[str, ...] = ()


class PreflightPassed(Succeeded):
    wire: ClassVar[str] = "preflight-passed"
    checks: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    engine_version: str | None = None


class BaselineRecorded(Succeeded):
    """What ran before. `good` is False for a service that was down or did not answer; `cursor` and
    `gpu_cursor` are where the journals of the service's host and of the GPU host stood."""

    wire: ClassVar[str] = "baseline-recorded"
    good: bool
    summary: str
    invocation: str = ""
    main_pid: int = 0
    pids: tuple[int, ...] = ()
    cursor: str = ""
    gpu_cursor: str = ""
    evidence: dict[str, EvidenceItem] = {}


class StepSucceeded(Succeeded):
    """A step's state was read back as wanted. `facts` are the step's own, for instance a start's InvocationID."""

    wire: ClassVar[str] = "step-succeeded"
    step: int
    direction: Direction
    facts: dict[str, Any] = {}


class ReadinessReached(Succeeded):
    """A generation came back. `stages` are pairs in order: a stage, and the seconds from the start to its begin.
    `held` names the claims that the engine's own log of this start had shown to hold by then."""

    wire: ClassVar[str] = "readiness-reached"
    side: Side
    seconds: float
    stages: tuple[tuple[str, float], ...]
    held: tuple[str, ...] = ()


class EvidenceGathered(Succeeded):
    """`items` hold the accumulating evidence of earlier rounds too, as `NAME@ROUND`; `seconds` is what it took."""

    wire: ClassVar[str] = "evidence-gathered"
    side: Side
    round: int
    items: dict[str, EvidenceItem]
    seconds: float = 0.0


class Judged(Succeeded):
    wire: ClassVar[str] = "judged"
    side: Side
    round: int
    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    facts: tuple[Fact, ...] = ()


class SoakPassed(Succeeded):
    """The service stayed the same start, and generated again, after `seconds` of ordinary use."""

    wire: ClassVar[str] = "soak-passed"
    seconds: float


class EvidenceFrozen(Succeeded):
    wire: ClassVar[str] = "evidence-frozen"
    items: dict[str, EvidenceItem]


class RolloutConcluded(Succeeded):
    """How the rollout ended; `dark_s` is the time without an answer in seconds, None where it cannot be told."""

    wire: ClassVar[str] = "rollout-concluded"
    outcome: Ending
    summary: str
    exit_code: int
    next_argvs: tuple[str, ...] = ()
    dark_s: float | None = None


class LeaseReleased(Succeeded):
    wire: ClassVar[str] = "lease-released"


EVENTS: Mapping[str, type[Event]] = {
    cls.wire: cls
    for cls in (
        RolloutRequested,
        RolloutResumed,
        CancelRequested,
        ActionStarted,
        ActionFailed,
        DeviceQuarantined,
        DeviceCleared,
        PlanMade,
        LeaseTaken,
        PreflightPassed,
        BaselineRecorded,
        StepSucceeded,
        ReadinessReached,
        EvidenceGathered,
        Judged,
        HoldOpened,
        HoldAnswered,
        SoakPassed,
        EvidenceFrozen,
        RolloutConcluded,
        LeaseReleased,
    )
}


def encode(event: Event, metadata: Mapping[str, Any] | None = None) -> NewEvent:
    return NewEvent(event.wire, event.schema_version, event.as_json(), dict(metadata or {}))


def decode(recorded: RecordedEvent) -> Event:
    """The typed event; raises HistoryCorrupt for a type or shape that this release does not know."""
    cls = EVENTS.get(recorded.type)
    if cls is None or recorded.schema_version > cls.schema_version:
        raise HistoryCorrupt(
            recorded.stream,
            recorded.version,
            f"its type `{recorded.type}/{recorded.schema_version}` is not known to this release",
        )
    try:
        return cls.model_validate(dict(recorded.data))
    except ValidationError as error:
        name = f"{recorded.type}/{recorded.schema_version}"
        raise HistoryCorrupt(
            recorded.stream, recorded.version, f"its data do not fit `{name}`: {misfit(error)}"
        ) from error
