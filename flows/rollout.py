"""The Prefect flows: `rollout`, `rollback` and `verify`, each a skin over the one loop.

Importing this module imports Prefect, which takes seconds: the command line does so only when it needs it.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed

from flows import requests
from flows.history import History
from flows.ports import Ports
from flows.prefect_run import RESULTS, WENT_WRONG, heeding, in_time
from flows.prefect_skin import prefect_skin, shown_as_done
from flows.session import go_on, requested_history
from flows.settings import Settings
from flows.wiring import wired
from state.errors import InterlockError
from state.events import Purpose, RolloutRequested
from state.manifest.load import load_manifest
from state.rollout import Rollout
from tasks.zones import zone_mistake


@flow(name="rollout", flow_run_name="rollout {reason}", persist_result=False, result_storage=RESULTS, log_prints=False)
async def rollout(manifest: str, reason: str = "started from Prefect") -> State[str]:
    """Take a service to the revision that `manifest` (YAML text) describes; prove it, or put the old one back.

    Its state says how it ended, its data the rollout's id. It fails if the rollout did not promote.
    """
    return await _from_manifest(manifest, "rollout", reason)


@flow(name="verify", persist_result=False, result_storage=RESULTS, log_prints=False)
async def verify(manifest: str, reason: str = "started from Prefect") -> State[str]:
    """Judge what runs now by the claims of `manifest` (YAML text), changing nothing."""
    return await _from_manifest(manifest, "verify", reason)


@flow(
    name="rollback", flow_run_name="rollback {service}", persist_result=False, result_storage=RESULTS, log_prints=False
)
async def rollback(service: str, to: str = "", reason: str = "started from Prefect") -> State[str]:
    """Take a service back to its last proven revision before the present one.

    With `to`, to the one whose digest begins with it.
    """

    async def request(ports: Ports) -> RolloutRequested:
        return await requests.to_proven(ports, service, None, to, reason)

    return await _driven(request)


async def shown(history: History, requested: RolloutRequested) -> None:
    """Drive a rollout that is under way inside a flow run of its own, for the command line.

    Prefect's own failures (its server is gone) end this early at most; the history says how far the rollout came.
    """

    terminated, over = signal.getsignal(signal.SIGTERM), asyncio.Event()

    @flow(
        name=requested.purpose,
        flow_run_name=f"{requested.service} {requested.rollout}",
        persist_result=False,
        result_storage=RESULTS,
        log_prints=False,
        validate_parameters=False,
    )
    async def continued(service: str, revision: str, rollout: str) -> State[str]:
        if threading.current_thread() is threading.main_thread():
            signal.signal(
                signal.SIGTERM, terminated
            )  # Prefect's own would tear the loop down, not turn the rollout back
        try:
            await shown_as_done(history)
            return state_of(await heeding(history, go_on(history, prefect_skin)))
        finally:
            over.set()

    named = {"service": requested.service, "revision": requested.revision.short, "rollout": requested.rollout}
    with suppress(*WENT_WRONG):
        await in_time(continued(**named, return_state=True), over)


async def _from_manifest(text: str, purpose: Purpose, reason: str) -> State[str]:
    async def request(ports: Ports) -> RolloutRequested:
        return requests.from_manifest(ports, load_manifest(text, "manifest", zone_mistake), purpose, reason)

    return await _driven(request)


async def _driven(request: Callable[[Ports], Awaitable[RolloutRequested]]) -> State[str]:
    """The state of the rollout's end; of what kept it from being begun, the sentence."""
    try:
        async with wired(Settings()) as (ports, _):
            history = await requested_history(ports, await request(ports))
            return state_of(await heeding(history, go_on(history, prefect_skin)))
    except InterlockError as error:
        return Failed(name=error.code, message=str(error), data="")


def state_of(ended: Rollout) -> State[str]:
    """Completed, Failed or Cancelled, with the sentence of the rollout's end; its data is the rollout's id. A state, so
    that no traceback is shown for it."""
    concluded, requested = ended.concluded, ended.requested
    name = requested.rollout if requested else ""
    if concluded is None:
        return Failed(message="it has not ended; `recover` goes on with it", data=name)
    if ended.cancelled:
        return Cancelled(message=f"{concluded.outcome}: {concluded.summary}", data=name)
    made = Failed if concluded.exit_code else Completed
    return made(name=concluded.outcome, message=concluded.summary, data=name)
