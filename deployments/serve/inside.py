"""Driving rollouts inside Prefect's flow runs, in this process. Importing this imports Prefect."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from prefect import flow, tags
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext

from deployments.serve.artifacts import TAG, Shown
from deployments.serve.notes import Notebook
from flows.history import History
from flows.prefect_run import RESULTS, WENT_WRONG
from flows.prefect_skin import prefect_skin, shown_as_done
from flows.retrying import retrying
from flows.rollout import state_of
from flows.session import go_on, unfinished
from state.rollout import Rollout

SHOW_S = 5.0
"""Seconds that a flow run waits at its end for what is still to be shown."""


@dataclass(frozen=True, slots=True)
class Inside:
    """Drives in a flow run, and without one where Prefect fails. `evidence_url` is what a digest is appended to,
    `flow_runs` are the rollouts that are driven, by flow run, empty once they are over: it may still tell its end."""

    notebook: Notebook
    evidence_url: str
    flow_runs: dict[UUID, str] = field(default_factory=dict)

    async def in_own_flow_run(self, history: History) -> Rollout:
        """In a flow run made for this rollout."""
        requested = history.rollout.requested
        assert requested is not None  # every stream begins with it
        made: list[UUID] = []

        @flow(
            name=requested.purpose,
            flow_run_name=f"{requested.service} {requested.rollout}",
            persist_result=False,
            result_storage=RESULTS,
            log_prints=False,
            validate_parameters=False,
        )
        async def driven(service: str, revision: str, rollout: str, reason: str) -> State[str]:
            made.append(_this_flow_run())
            if history.rollout.done:
                await shown_as_done(history)
            return state_of(await self.in_this_flow_run(history))

        named = {"service": requested.service, "revision": requested.revision.short, "rollout": requested.rollout}
        try:
            with suppress(*WENT_WRONG), tags(TAG):
                await driven(**named, reason=requested.reason, return_state=True)
        finally:
            for flow_run in made:
                self.flow_runs.pop(flow_run, None)
        return await go_on(history, retrying) if unfinished(history.rollout) else history.rollout

    async def in_this_flow_run(self, history: History) -> Rollout:
        """In the flow run whose context this is called in; a cancellation is a safe end, and is not raised."""
        notes = self.notebook.notes(history.rollout_id)
        requested = history.rollout.requested
        notes.service = requested.service if requested else ""
        flow_run = _this_flow_run()
        self.flow_runs[flow_run] = history.rollout_id
        showing = asyncio.create_task(Shown(notes, history.recorded, self.evidence_url).for_ever())
        try:
            ended = await _driven(history)
            await notes.told(SHOW_S)
        finally:
            showing.cancel()
            await asyncio.wait([showing])
            self.flow_runs[flow_run] = ""
        return ended


def _this_flow_run() -> UUID:
    context = FlowRunContext.get()
    assert context is not None  # nothing is shown outside of one
    assert context.flow_run is not None
    return context.flow_run.id


async def _driven(history: History) -> Rollout:
    try:
        with suppress(*WENT_WRONG):
            await go_on(history, prefect_skin)
        return await go_on(history, retrying) if unfinished(history.rollout) else history.rollout
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        return history.rollout


def evidence_url(api_url: str) -> str:
    """What the digest of evidence is appended to."""
    return f"{api_url.rstrip('/')}/api/v1/evidence/"
