"""Driving rollouts beside Prefect's flow runs, which show them, in this process. Importing this imports Prefect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

from prefect import flow, tags
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext

from deployments.serve.artifacts import TAG, Shown
from deployments.serve.notes import Notebook, Notes
from deployments.serve.task_runs import TaskRuns
from flows.history import History
from flows.prefect_run import RESULTS, WENT_WRONG
from flows.retrying import retrying
from flows.rollout import state_of
from flows.session import cancel, go_on
from state.events import RolloutRequested
from state.rollout import Rollout

SHOW_S = 30.0
"""Seconds that a flow run waits at its end for what is still to be shown: the server may have much else to do."""


@dataclass(frozen=True, slots=True)
class Inside:
    """Drives a rollout while a flow run shows it: it waits for nothing of that, and loses nothing where Prefect fails.
    `evidence_url` is what a digest is appended to, `flow_runs` are the rollouts that are shown, by flow run, empty once
    they are over, `telling` the flow runs made here that have not told their end."""

    notebook: Notebook
    evidence_url: str
    flow_runs: dict[UUID, str] = field(default_factory=dict)
    telling: set["asyncio.Task[None]"] = field(default_factory=set)

    async def in_own_flow_run(self, history: History) -> Rollout:
        """With a flow run made for this rollout, which may end after it. Raises what `go_on` raises."""
        requested, over = history.rollout.requested, asyncio.Event()
        assert requested is not None  # every stream begins with it
        notes = self.notebook.notes(history.rollout_id)  # which the notebook forgets at the rollout's end
        telling = asyncio.create_task(self._told_in_own(history, requested, notes, over))
        self.telling.add(telling)
        telling.add_done_callback(self.telling.discard)
        try:
            return await go_on(history, retrying)
        finally:
            over.set()

    async def in_this_flow_run(self, history: History) -> Rollout:
        """In the flow run whose context this is called in; a cancellation is a safe end, and is not raised."""
        async with self._shown(history, self.notebook.notes(history.rollout_id)):
            try:
                return await go_on(history, retrying)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
                return await cancel(history)

    async def told(self, within_s: float) -> None:
        """Wait for the flow runs made here to tell their ends, and give up those that have not by then."""
        if self.telling:
            _, late = await asyncio.wait(self.telling, timeout=within_s)
            for task in late:
                task.cancel()

    async def _told_in_own(
        self, history: History, requested: RolloutRequested, notes: Notes, over: asyncio.Event
    ) -> None:
        @flow(
            name=requested.purpose,
            flow_run_name=f"{requested.service} {requested.rollout}",
            persist_result=False,
            result_storage=RESULTS,
            log_prints=False,
            validate_parameters=False,
        )
        async def driven(service: str, revision: str, rollout: str, reason: str) -> State[str]:
            async with self._shown(history, notes) as flow_run:
                made.append(flow_run)
                await over.wait()
            return state_of(history.rollout)

        named = {"service": requested.service, "revision": requested.revision.short, "rollout": requested.rollout}
        made: list[UUID] = []
        try:
            with suppress(*WENT_WRONG), tags(TAG):
                await driven(**named, reason=requested.reason, return_state=True)
        finally:
            for flow_run in made:
                self.flow_runs.pop(flow_run, None)

    @asynccontextmanager
    async def _shown(self, history: History, notes: Notes) -> AsyncIterator[UUID]:
        """Shows the rollout in the flow run of this context until the block has ended, and then what is left. Gives the
        flow run's id."""
        requested = history.rollout.requested
        notes.service = requested.service if requested else ""
        runs = TaskRuns(notes, history.recorded)
        pages = Shown(notes, history.recorded, self.evidence_url)
        flow_run = _this_flow_run()
        self.flow_runs[flow_run] = history.rollout_id
        showing = [asyncio.create_task(one.for_ever()) for one in (runs, pages)]
        try:
            yield flow_run
            if await notes.told(SHOW_S):
                await runs.ended(SHOW_S)
        finally:
            for task in (*showing, *runs.running):
                task.cancel()
            await asyncio.wait(showing)
            self.flow_runs[flow_run] = ""


def _this_flow_run() -> UUID:
    context = FlowRunContext.get()
    assert context is not None  # nothing is shown outside of one
    assert context.flow_run is not None
    return context.flow_run.id


def evidence_url(api_url: str) -> str:
    """What the digest of evidence is appended to."""
    return f"{api_url.rstrip('/')}/api/v1/evidence/"
