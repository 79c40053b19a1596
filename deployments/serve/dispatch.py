"""Taking flow runs from Prefect and running them here: registers the deployments, looks for runs that are due and for
runs that somebody cancels. Importing this imports Prefect.

Prefect's own runners start an interpreter for each run, which takes seconds, and kill it 30 s after a cancellation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import OrchestrationResult, SetStateStatus
from prefect.flow_engine import run_flow_async
from prefect.flows import Flow
from prefect.states import Cancelled, Pending

from deployments.serve.forms import Form
from deployments.serve.left_runs import overtaken, tell_of_lost
from deployments.serve.offered import HOME, Home
from flows.prefect_run import WENT_WRONG
from state.errors import InterlockError

log = logging.getLogger("interlock.serve")

LOOK_EVERY_S = 1.0
RENEW_EVERY_S = 5.0
"""Seconds between two looks at the folder of manifests, and at who asks."""

AGAIN_AFTER_S = 2.0
AHEAD = timedelta(seconds=0.5)


class Dispatcher:
    """`forms` says what is offered now, `driven` which rollout each flow run drives, empty for one that is over;
    `cancel` turns one back. `alone` says that nobody else runs what is registered with this Prefect."""

    def __init__(
        self,
        home: Home,
        forms: Callable[[], Awaitable[tuple[Form, ...]]],
        driven: dict[UUID, str],
        cancel: Callable[[str, str], Awaitable[bool]],
        *,
        alone: bool,
    ) -> None:
        self._home, self._forms, self._driven, self._cancel = home, forms, driven, cancel
        self._alone, self._closing = alone, False
        self._flows: dict[UUID, Flow[..., object]] = {}
        self._running: dict[UUID, asyncio.Task[None]] = {}
        self._registered: dict[str, Form] = {}

    async def for_ever(self) -> None:
        """Register, look, run, until cancelled; where Prefect fails, begin anew."""
        while True:
            try:
                await self._while_it_answers()
            except (*WENT_WRONG, InterlockError) as error:
                log.warning("Prefect does not take part: %s", error, extra={"error": type(error).__name__})
                self._registered.clear()
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _while_it_answers(self) -> None:
        async with get_client() as client:
            await self._renew(client)
            if self._alone and (lost := await tell_of_lost(client, self._flows, (*self._running, *self._driven))):
                log.warning("%d flow runs had been left by a server that is gone", lost)
            renewing = asyncio.create_task(self._renew_for_ever(client))
            try:
                while not renewing.done():
                    await self._look(client)
                    await asyncio.sleep(LOOK_EVERY_S)
                await renewing
            finally:
                renewing.cancel()
                await asyncio.wait([renewing])

    def close(self) -> None:
        """Take no more: what becomes due is the next server's."""
        self._closing = True

    async def drained(self, within_s: float) -> None:
        """Wait until the flow runs here have told Prefect how they ended."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=within_s)
        for task in self._running.values():
            task.cancel()

    async def _renew_for_ever(self, client: PrefectClient) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            await self._renew(client)

    async def _renew(self, client: PrefectClient) -> None:
        for form in await self._forms():
            await self._register(client, form)

    async def _register(self, client: PrefectClient, form: Form) -> None:
        """Once for each change: every registration schedules the runs to come anew."""
        if self._registered.get(form.name) == form:
            return
        deployment = await client.create_deployment(await client.create_flow(form.flow), **form.facts())
        self._flows[deployment] = form.flow
        self._registered[form.name] = form

    async def _look(self, client: PrefectClient) -> None:
        if not self._closing:
            await self._take_due(client)
        if self._running or self._driven:
            await self._look_for_cancelled(client)

    async def _take_due(self, client: PrefectClient) -> None:
        due = await client.get_scheduled_flow_runs_for_deployments(
            list(self._flows), scheduled_before=datetime.now(UTC) + AHEAD
        )
        late = overtaken(due)
        for run in late:
            await client.set_flow_run_state(run.id, Cancelled(message="a later switch of the service is due as well"))
        for run in due:
            if run.id not in self._running and run not in late:
                self._running[run.id] = asyncio.create_task(self._run(client, run), name=f"flow run {run.name}")

    async def _look_for_cancelled(self, client: PrefectClient) -> None:
        cancelling = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                id=FlowRunFilterId(any_=[*self._running, *self._driven]),
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLING])),
            )
        )
        for run in cancelling:
            rollout = self._driven.get(run.id)
            if rollout:
                await self._cancel(rollout, "somebody in Prefect")
            elif rollout is None and run.id in self._running and not self._running[run.id].cancelling():
                self._running[run.id].cancel()  # it waits for its turn, and has begun nothing
                await client.set_flow_run_state(run.id, Cancelled(message="nothing was begun"), force=True)

    async def _run(self, client: PrefectClient, run: FlowRun) -> None:
        try:
            with suppress(*WENT_WRONG):
                if await self._claimed(client, run):
                    HOME.set(self._home)
                    name = self._flows[run.deployment_id].name if run.deployment_id else ""
                    log.info("a flow run of `%s` is due", name, extra={"flow_run": str(run.id)})
                    await self._in_engine(client, run)
        finally:
            self._running.pop(run.id, None)
            self._driven.pop(run.id, None)

    async def _claimed(self, client: PrefectClient, run: FlowRun) -> bool:
        """Whether it is ours to run: of several that ask, Prefect accepts one."""
        answer: OrchestrationResult[Any] = await client.set_flow_run_state(run.id, Pending())
        return answer.status == SetStateStatus.ACCEPT

    async def _in_engine(self, client: PrefectClient, run: FlowRun) -> None:
        assert run.deployment_id is not None  # asked for by deployment
        claimed = await client.read_flow_run(run.id)
        await run_flow_async(
            self._flows[run.deployment_id], flow_run=claimed, parameters=claimed.parameters, return_type="state"
        )
