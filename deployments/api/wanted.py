"""What the API is asked: bodies and parameters, with their limits and examples."""

from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from deployments.api.ports import REVISION_NAME
from state.manifest.words import Name

MANIFEST = """\
interlock: 1
service: qwen35-35b
hosts:
  serving: {address: llm-one.example, user: interlock, become: sudo}
unit: {host: serving, name: sglang-qwen35-35b.service, user: sglang}
engine:
  kind: sglang
  command: [/opt/sglang/bin/sglang, serve]
  endpoint: http://127.0.0.1:30000
  arguments: {model_path: /shared/models/Qwen3.5-35B-A3B, tp_size: 2}
"""

_ROLLOUT_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_ONE_LINE = r"^[^\x00-\x1f\x7f]*$"
_SERVICE = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
_FILE = rf"^{REVISION_NAME}$"
BIGGEST = 2**63 - 1

RolloutPath = Annotated[str, Path(pattern=_ROLLOUT_ID, description="A rollout's whole id.", examples=["4f1c9be27a03"])]
ServicePath = Annotated[str, Path(pattern=_SERVICE, description="A service's name.", examples=["qwen35-122b"])]
DigestPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the evidence.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
After = Annotated[int | None, Query(ge=0, le=BIGGEST, description="Only events after this position.")]
LastEventId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=BIGGEST,
        description="The position that a stream goes on after; it goes before `after`.",
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="Sent again with the same request, it gets the same answer and begins nothing twice.",
    ),
]

Reason = Annotated[str, Field(max_length=500, pattern=_ONE_LINE, description="Why; kept in the history.")]

ManifestValue = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "minLength": 1, "maxLength": 262144}, {"type": "object"}, {"type": "null"}],
            "description": "The manifest as YAML text or as a JSON object; null is as if it were left out.",
        }
    ),
]


class _Wanted(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ManifestWanted(_Wanted):
    """A manifest in the request, or the name of one that the server has on file."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"manifest": MANIFEST}]})
    manifest: ManifestValue = None
    service: Name | None = Field(None, description="A service of the catalogue, instead of `manifest`.")
    revision: str | None = Field(None, pattern=_FILE, description="The name of its revision in the catalogue.")

    @field_validator("manifest")
    @classmethod
    def _text_or_object(cls, value: Any) -> Any:
        if value is None or isinstance(value, (str, dict)):
            return value
        raise ValueError("must be YAML text or a JSON object")

    @model_validator(mode="after")
    def _one_of_both(self) -> "ManifestWanted":
        named = self.service is not None and self.revision is not None
        either = self.service is not None or self.revision is not None
        if (self.manifest is None and not named) or (self.manifest is not None and either):
            raise ValueError("must have either `manifest`, or `service` and `revision` together")
        return self


class VerifyWanted(ManifestWanted):
    """What runs now is judged by the manifest's claims; nothing is changed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"manifest": MANIFEST, "reason": "after the driver's update"}]}
    )
    reason: Reason = "verified over HTTP"


class RolloutWanted(ManifestWanted):
    """A rollout. `plan` is the digest of a reviewed plan, or its beginning: another one is refused. With `dry_run` the
    plan is the answer, and nothing is begun."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"manifest": MANIFEST, "reason": "speculation with three steps"},
                {"service": "qwen35-122b", "revision": "night-vm", "reason": "night"},
            ]
        }
    )
    purpose: Literal["rollout", "verify"] = "rollout"
    reason: Reason = "started over HTTP"
    plan: str | None = Field(None, pattern=r"^[0-9a-f]{8,64}$", description="The reviewed plan's digest.")
    dry_run: bool = False


class RollbackWanted(_Wanted):
    """A rollback: to the last proven revision before the present one, or to the one whose digest begins with `to`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "answers are garbage since noon"}]})
    to: str = Field("", pattern=r"^[0-9a-f]{0,64}$", description="A proven revision's digest, or its beginning.")
    reason: Reason = "rolled back over HTTP"


class AnswerWanted(_Wanted):
    """The answer to a rollout that holds."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"answer": "promote", "reason": "2.4 is plenty"}]})
    answer: Literal["promote", "rollback"]
    reason: Annotated[
        str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$")
    ]


class ClearWanted(_Wanted):
    """A device that is well again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"address": "0000:81:00.0", "reason": "rebooted"}]})
    address: str = Field(pattern=r"^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]$")
    reason: Reason = "cleared over HTTP"


class RecoverWanted(_Wanted):
    """`take_over`: without waiting for the lease, since its orchestrator is known to be gone."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"take_over": False}]})
    take_over: bool = False
