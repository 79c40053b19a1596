"""What is told of services, rollouts and revisions, each with an example."""

from datetime import datetime

from pydantic import BaseModel

from deployments.api.schemas import DIGEST, ROLLOUT, WHEN, example

ROLLOUT_LINE = {
    "rollout": ROLLOUT,
    "service": "qwen35-122b",
    "purpose": "rollout",
    "revision": DIGEST,
    "actor": "ci",
    "reason": "speculation with three steps",
    "state": "promoted",
    "action": "release",
    "verdict": "held",
    "error_code": None,
    "error": None,
    "summary": "promoted: 14 of 14 claims held",
    "exit_code": 0,
    "dark_s": 71.4,
    "engine_version": "0.5.6",
    "quarantined": None,
    "requested_at": WHEN,
    "updated_at": WHEN,
    "concluded_at": WHEN,
}


class RolloutLine(BaseModel):
    """A rollout in a line. `state` is `requested`, `planned`, `running`, `holding`, or the ending; `revision` a
    digest; `dark_s` seconds without an answer."""

    model_config = example(**ROLLOUT_LINE)
    rollout: str
    service: str
    purpose: str
    revision: str
    actor: str
    reason: str
    state: str
    action: str | None
    verdict: str | None
    error_code: str | None
    error: str | None
    summary: str | None
    exit_code: int | None
    dark_s: float | None
    engine_version: str | None
    quarantined: str | None
    requested_at: datetime
    updated_at: datetime
    concluded_at: datetime | None


class RolloutPage(BaseModel):
    """Rollouts, newest first; `next` is the cursor of the page after this one, null on the last."""

    model_config = example(rollouts=[ROLLOUT_LINE], next=None)
    rollouts: list[RolloutLine]
    next: str | None


class Question(BaseModel):
    """What a rollout that holds asks a person, until when, and what follows if nobody answers."""

    model_config = example(
        question="13 of 14 claims held, none is refuted, and open stayed accept-length: promote, or roll back?",
        open=["accept-length"],
        deadline="2026-11-30T09:30:00+00:00",
        default="rollback",
    )
    question: str
    open: list[str]
    deadline: str
    default: str


VERDICT = {
    "claim": "accept-length",
    "plane": "speculation",
    "outcome": "held",
    "statement": "accept length at least 2",
    "reason": "3.4 (3.31 to 3.49) of 240",
    "remedy": "",
}


class VerdictLine(BaseModel):
    """How a claim was judged."""

    model_config = example(**VERDICT)
    claim: str
    plane: str
    outcome: str
    statement: str
    reason: str
    remedy: str


class RolloutWhole(BaseModel):
    """A rollout with its verdicts, the question that it asks, and what a person is to run if it stranded; `evidence`
    names digests by what was gathered; `position` is that of its newest event."""

    model_config = example(
        line=ROLLOUT_LINE,
        question=None,
        verdicts=[VERDICT],
        next_argvs=[],
        evidence={"journal": DIGEST},
        version=41,
        position=973,
    )
    line: RolloutLine
    question: Question | None
    verdicts: list[VerdictLine]
    next_argvs: list[str]
    evidence: dict[str, str]
    version: int
    position: int


LEASE = {"rollout": ROLLOUT, "holder": "interlock@host (PID 812)", "reason": "night", "until": WHEN, "number": 7}


class LeaseLine(BaseModel):
    """Who holds a service, and the fencing number of the lease."""

    model_config = example(**LEASE)
    rollout: str
    holder: str
    reason: str
    until: str
    number: int


SERVICE_LINE = {
    "service": "qwen35-122b",
    "description": "",
    "state": "promoted",
    "rollout": ROLLOUT,
    "revision": DIGEST,
    "revision_since": WHEN,
    "catalogue": ["day", "night-vm"],
}


class ServiceLine(BaseModel):
    """A service: its newest rollout and how that stands, the revision last proven, and its manifests on file."""

    model_config = example(**SERVICE_LINE)
    service: str
    description: str
    state: str | None
    rollout: str | None
    revision: str | None
    revision_since: datetime | None
    catalogue: list[str]


class Services(BaseModel):
    """All services, by name."""

    model_config = example(services=[SERVICE_LINE])
    services: list[ServiceLine]


class ServiceWhole(BaseModel):
    """A service with its last rollouts, newest first, and who holds it (null: nobody)."""

    model_config = example(line=SERVICE_LINE, rollouts=[ROLLOUT_LINE], lease=LEASE)
    line: ServiceLine
    rollouts: list[RolloutLine]
    lease: LeaseLine | None


PROVEN = {"digest": DIGEST, "rollout": ROLLOUT, "proven_at": WHEN, "engine": "sglang", "unit": "sglang-qwen.service"}


class ProvenRevision(BaseModel):
    """A revision whose claims held, the rollout that proved it, and when."""

    model_config = example(**PROVEN)
    digest: str
    rollout: str
    proven_at: datetime
    engine: str
    unit: str


class Revisions(BaseModel):
    """The proven revisions of a service, newest first. `rollback_to` is where a rollback goes that names none."""

    model_config = example(service="qwen35-122b", revisions=[PROVEN], rollback_to=None)
    service: str
    revisions: list[ProvenRevision]
    rollback_to: str | None
