"""A flow run in our own process: heard when it is cancelled in Prefect, not waited for when its server is gone.

Importing this imports Prefect.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect.settings import get_current_settings

from flows.history import History
from state.rollout import Rollout

LOOK_EVERY_S = 1.0
"""Seconds between two looks at the flow run's state: no runner is there to be told of a cancellation by Prefect."""

ENDING_S = 5.0
"""Seconds that Prefect has to tell its server how a rollout that is over ended. With its own settings it tries for more
than a minute where none answers (3.9.1, measured)."""

GIVEN_UP_S, CANCELS = 0.5, 6
"""Prefect shields the report of a crash from one cancellation, and tries again to tell it."""

WENT_WRONG = (PrefectException, httpx.HTTPError, RuntimeError)
"""How Prefect's client fails when its server does; none of it is the rollout's own failure."""

RESULTS = Path(get_current_settings().results.local_storage_path)
"""Where a flow would keep results, if it kept any. One that is not told asks Prefect's server, twice, with a client
that blocks the event loop, and with it every other rollout, until there is an answer (3.9.1)."""

CANCELLER = "Prefect: its flow run was cancelled"


async def heeding(history: History, work: Coroutine[Any, Any, Rollout]) -> Rollout:
    """Inside a flow run: `work`, which drives the rollout, cancelled when somebody cancels the flow run in Prefect's UI
    or API. That is a safe end then, and is not raised."""
    context, driving = FlowRunContext.get(), asyncio.current_task()
    if context is None or context.flow_run is None or driving is None:
        return await work
    asked = asyncio.create_task(_asked_to_stop(context.flow_run.id))
    asked.add_done_callback(partial(_turn_back, history, driving))
    try:
        return await work
    except asyncio.CancelledError:
        if history.canceller != CANCELLER:
            raise
        driving.uncancel()
        return history.rollout
    finally:
        asked.cancel()
        await asyncio.wait([asked])


def _turn_back(history: History, driving: "asyncio.Task[Any]", asked: "asyncio.Task[None]") -> None:
    if not asked.cancelled() and not history.canceller:  # not again: the first is on its way to a safe end
        history.canceller = CANCELLER
        driving.cancel()


async def _asked_to_stop(flow_run: UUID) -> None:
    """Wait until the flow run is cancelled, or about to be. A server that does not answer is asked again."""
    while True:
        with suppress(*WENT_WRONG):
            async with get_client() as client:
                while True:
                    await asyncio.sleep(LOOK_EVERY_S)
                    state = (await client.read_flow_run(flow_run)).state
                    if state is not None and (state.is_cancelling() or state.is_cancelled()):
                        return
        await asyncio.sleep(LOOK_EVERY_S)


async def in_time(run: Awaitable[Any], over: asyncio.Event) -> None:
    """Wait for a flow run; once its rollout is `over`, for ENDING_S at most. The caller's cancellations are the run's.

    Raises what the run raises, and CancelledError if the caller was cancelled.
    """
    task, late = asyncio.ensure_future(run), asyncio.ensure_future(_late(over))
    cancelled = False
    while not task.done() and not late.done():
        try:
            await asyncio.wait({task, late}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled = True
            task.cancel()
    late.cancel()
    for _ in range(CANCELS):
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task}, timeout=GIVEN_UP_S)
    if cancelled:
        raise asyncio.CancelledError
    if task.done() and not task.cancelled():
        task.result()


async def _late(over: asyncio.Event) -> None:
    await over.wait()
    await asyncio.sleep(ENDING_S)
