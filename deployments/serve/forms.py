"""What Prefect is told of our deployments: names, descriptions, forms, schedules. Importing this imports Prefect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.flows import Flow
from prefect.utilities.callables import parameter_schema

from deployments.serve import offered
from deployments.serve.artifacts import TAG
from deployments.serve.catalogue import Contents, Switch


@dataclass(frozen=True, slots=True)
class Form:
    """One deployment: `choices` are what a parameter may be, `title` what it is called; each by parameter."""

    name: str
    flow: Flow[..., Any]
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    schedules: Sequence[Switch] = ()
    preset: Mapping[str, str] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """The flow's own words, without what they say of its parameters."""
        return (self.flow.description or "").partition("Args:")[0].strip()

    def schema(self) -> dict[str, Any]:
        """The parameters' JSON schema, with the choices that there are now. A choice of none is free text."""
        schema: dict[str, Any] = parameter_schema(self.flow.fn).model_dump(exclude_unset=True)
        for name, described in schema["properties"].items():
            described["title"] = TITLES.get(name, name.replace("_", " ").capitalize())
            if self.choices.get(name):
                described["enum"] = list(self.choices[name])
        return schema

    def schedule(self, switch: Switch) -> DeploymentScheduleCreate:
        return DeploymentScheduleCreate(
            schedule=CronSchedule(cron=switch.cron, timezone=switch.timezone),
            active=True,
            parameters={"target": switch.target, "reason": f"by schedule: {switch.cron} ({switch.timezone})"},
        )

    def facts(self) -> dict[str, Any]:
        """What `create_deployment` takes beside the flow's id."""
        return {
            "name": self.name,
            "description": self.description,
            "entrypoint": f"{offered.__name__}.{self.flow.fn.__name__}",
            "path": None,
            "tags": [TAG],
            "parameters": dict(self.preset),
            "parameter_openapi_schema": self.schema(),
            "enforce_parameter_schema": True,
            "schedules": [self.schedule(switch) for switch in self.schedules],
        }


TITLES = {
    "target": "Service and revision",
    "dry_run": "Dry run",
    "inconclusive": "If the evidence decides nothing",
    "to": "To revision",
    "take_over": "Take over",
    "who": "Your name",
}


def forms(contents: Contents, services: Sequence[str], asking: Sequence[str]) -> tuple[Form, ...]:
    """The deployments, with what may be chosen: what is on file, the services that have a history, the rollouts that
    ask a person."""
    targets = {"target": contents.targets}
    first = {"rollout": asking[0]} if asking else {}
    return (
        Form("rollout", offered.rollout, targets),
        Form("rollback", offered.rollback, {"service": services}),
        Form("verify", offered.verify, targets),
        Form("recover", offered.recover),
        Form("answer", offered.answer, {"rollout": asking}, preset=first),
        Form("scheduled switch", offered.scheduled_switch, targets, schedules=contents.switches),
    )
