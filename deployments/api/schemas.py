"""What the API answers with, each with an example; `deployments.api.wanted` has what it is asked."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

WHEN = "2026-11-30T07:30:00.000000Z"
DIGEST = "9f2c41d6a0b3b7c5e8f1023456789abcdef0123456789abcdef0123456789abc"
ROLLOUT = "4f1c9be27a03"


def example(**fields: Any) -> ConfigDict:
    """The configuration of a model with its example."""
    return ConfigDict(frozen=True, json_schema_extra={"examples": [fields]})


class Mistake(BaseModel):
    """One mistake of a request or a manifest. `line` is that of a manifest sent as text."""

    model_config = example(
        line=12, field="engine.arguments.tp_size", sentence="`four` does not fit; expected a whole number from 1 up"
    )
    line: int | None
    field: str | None
    sentence: str


class Problem(BaseModel):
    """A problem document (RFC 9457), with interlock's own members: `code` is the error's wire name, `hint` what to do
    next, `facts` the error's fields."""

    model_config = example(
        type="urn:interlock:problem:not-found",
        title="Not found",
        status=404,
        detail="There is no service `qwen`",
        hint="`interlock history` lists all",
        code="not-found",
        facts={"kind": "service", "name": "qwen"},
        mistakes=[],
    )
    type: str
    title: str
    status: int
    detail: str
    hint: str
    code: str
    facts: dict[str, Any]
    mistakes: list[Mistake]


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


class Started(BaseModel):
    """A rollout that was begun: what it is for, and where it can be followed."""

    model_config = example(
        rollout=ROLLOUT,
        service="qwen35-122b",
        purpose="rollback",
        revision=DIGEST,
        href=f"/api/v1/rollouts/{ROLLOUT}",
        events=f"/api/v1/rollouts/{ROLLOUT}/events",
    )
    rollout: str
    service: str
    purpose: str
    revision: str
    href: str
    events: str


class Planned(BaseModel):
    """What would be done, nothing having been touched. `refusals` are devices in quarantine that it would move;
    `unchanged` says why there is nothing to do."""

    model_config = example(
        digest=DIGEST,
        service="qwen35-122b",
        revision=DIGEST,
        unchanged="",
        changes=["/etc/systemd/system/sglang-qwen.service is replaced"],
        claims=[{"name": "accept-length", "plane": "speculation", "statement": "accept length at least 2"}],
        refusals=[],
        dark_s=None,
    )
    digest: str
    service: str
    revision: str
    unchanged: str
    changes: list[str]
    claims: list[dict[str, Any]]
    refusals: list[str]
    dark_s: float | None


class Done(BaseModel):
    """That something was asked for, and what follows."""

    model_config = example(rollout=ROLLOUT, said="it turns back, and goes on to a safe end")
    rollout: str
    said: str


class Ready(BaseModel):
    """Whether the server can take work, and which of its parts work."""

    model_config = example(ready=True, parts={"store": True, "runner": True})
    ready: bool
    parts: dict[str, bool]


class Alive(BaseModel):
    """The process answers."""

    model_config = example(alive=True)
    alive: Literal[True] = True


EVENT = {
    "position": 973,
    "stream": f"rollout-{ROLLOUT}",
    "version": 41,
    "type": "lease-released",
    "schema_version": 1,
    "recorded_at": WHEN,
    "data": {"action": "release", "attempt": 1},
    "metadata": {},
    "digest": DIGEST,
}


class EventLine(BaseModel):
    """An event as it is stored; docs/reference/events.md has every type with its fields."""

    model_config = example(**EVENT)
    position: int
    stream: str
    version: int
    type: str
    schema_version: int
    recorded_at: datetime
    data: dict[str, Any]
    metadata: dict[str, Any]
    digest: str


class EventPage(BaseModel):
    """Events in order. `next` is the position to go on after; it is the one asked for where nothing came after it."""

    model_config = example(events=[EVENT], next=973)
    events: Sequence[EventLine]
    next: int
