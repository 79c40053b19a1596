"""The Prefect flows: `rollout`, `rollback` and `verify`, each a skin over the one loop.

Importing this module imports Prefect, which takes seconds: the command line does so only when it needs it.
"""

from contextlib import suppress

from prefect import flow

from flows import requests
from flows.history import History
from flows.ports import Ports
from flows.prefect_skin import prefect_skin, shown_as_done
from flows.session import begin, go_on
from flows.settings import Settings
from flows.wiring import wired
from state.errors import InterlockError
from state.events import Purpose, RolloutRequested
from state.manifest.load import load_manifest
from state.rollout import Rollout


class EndedBadlyError(InterlockError):
    """A rollout that did not end as wished: the flow run is shown as failed, with the sentence of its end."""

    def __init__(self, ended: Rollout) -> None:
        concluded = ended.concluded
        super().__init__(concluded.summary if concluded else "it has not ended")


@flow(name="rollout", flow_run_name="rollout {reason}", persist_result=False, log_prints=False)
async def rollout(manifest: str, reason: str = "started from Prefect") -> str:
    """Take a service to the revision that `manifest` (YAML text) describes; prove it, or put the old one back.

    Returns the rollout's id. Fails if the rollout did not promote.
    """
    return await _from_manifest(manifest, "rollout", reason)


@flow(name="verify", persist_result=False, log_prints=False)
async def verify(manifest: str, reason: str = "started from Prefect") -> str:
    """Judge what runs now by the claims of `manifest` (YAML text), changing nothing."""
    return await _from_manifest(manifest, "verify", reason)


@flow(name="rollback", flow_run_name="rollback {service}", persist_result=False, log_prints=False)
async def rollback(service: str, to: str = "", reason: str = "started from Prefect") -> str:
    """Take a service back to its last proven revision before the present one.

    With `to`, to the one whose digest begins with it.
    """
    async with wired(Settings()) as (ports, _):
        return _id(await begin(ports, await requests.to_proven(ports, service, None, to, reason), prefect_skin))


async def shown(ports: Ports, history: History, requested: RolloutRequested) -> Rollout:
    """Drive a rollout that is under way inside a flow run of its own, for the command line."""

    @flow(
        name=requested.purpose,
        flow_run_name=f"{requested.service} {requested.rollout}",
        persist_result=False,
        log_prints=False,
        validate_parameters=False,
    )
    async def continued(service: str, revision: str, rollout: str) -> None:
        await shown_as_done(history)
        ended = await go_on(history, prefect_skin)
        if ended.concluded is None or ended.concluded.exit_code:
            raise EndedBadlyError(ended)

    with suppress(EndedBadlyError):
        await continued(service=requested.service, revision=requested.revision.short, rollout=requested.rollout)
    return history.rollout


async def _from_manifest(text: str, purpose: Purpose, reason: str) -> str:
    manifest = load_manifest(text, "manifest")
    async with wired(Settings()) as (ports, _):
        return _id(await begin(ports, requests.from_manifest(ports, manifest, purpose, reason), prefect_skin))


def _id(ended: Rollout) -> str:
    if ended.concluded is None or ended.concluded.exit_code or ended.requested is None:
        raise EndedBadlyError(ended)
    return ended.requested.rollout
