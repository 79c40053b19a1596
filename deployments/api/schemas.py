"""What the API answers with, each with an example: what it did, what went wrong, events.

`deployments.api.told` has what is told of services and rollouts, `deployments.api.wanted` what the API is asked.
"""

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
    `unchanged` says why there is nothing to do; `remarks` are doubts that keep nothing from being done."""

    model_config = example(
        digest=DIGEST,
        service="qwen35-122b",
        revision=DIGEST,
        unchanged="",
        changes=["/etc/systemd/system/sglang-qwen.service is replaced"],
        claims=[{"name": "accept-length", "plane": "speculation", "statement": "accept length at least 2"}],
        refusals=[],
        remarks=[],
        dark_s=None,
    )
    digest: str
    service: str
    revision: str
    unchanged: str
    changes: list[str]
    claims: list[dict[str, Any]]
    refusals: list[str]
    remarks: list[str]
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
