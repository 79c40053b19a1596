"""Flow runs that a server left, and switches by schedule that were due while none was there. Imports Prefect."""

from collections.abc import Collection, Iterable
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed

from deployments.serve.artifacts import TAG

_UNDER_WAY = FlowRunFilterState(
    type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING, StateType.CANCELLING])
)
_SAID = "the server that ran it is gone; its rollout, if it had begun one, is gone on with in a flow run of its own"


async def tell_of_lost(client: PrefectClient, deployments: Collection[UUID], known: Collection[UUID]) -> int:
    """Let no flow run seem to go on that nobody runs: those of our deployments, and those that a server made itself.
    Returns how many there were. `known` are the ones that are run here."""
    ours = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=list(deployments)), state=_UNDER_WAY)
    own = FlowRunFilter(tags=FlowRunFilterTags(all_=[TAG]), state=_UNDER_WAY)
    found = {run.id for wanted in (ours, own) for run in await client.read_flow_runs(flow_run_filter=wanted)}
    for run in found - set(known):
        await client.set_flow_run_state(run, Crashed(message=_SAID), force=True)
    return len(found - set(known))


def overtaken(due: Iterable[FlowRun]) -> list[FlowRun]:
    """Of the switches that a schedule made, those after which another of the same service is due as well: only the
    newest says what should be running now."""
    newest: dict[str, FlowRun] = {}
    older: list[FlowRun] = []
    for run in sorted((r for r in due if r.auto_scheduled), key=lambda r: (r.expected_start_time or r.created, r.id)):
        service = str(run.parameters.get("target", "")).rpartition("/")[0]
        if service in newest:
            older.append(newest[service])
        newest[service] = run
    return older
