"""The flows that people and schedules start from Prefect: `rollout`, `rollback`, `verify`, `recover`, `answer` and
`scheduled switch`. Their parameters are the forms of Prefect's UI.

Inside `interlock serve` they run in its process, through its resident runner. Anywhere else, as in a worker of a work
pool, they run the same loop in their own. Importing this imports Prefect.
"""

from collections.abc import Awaitable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Literal, Protocol

from prefect import flow, runtime
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from deployments.serve.artifacts import plan_page
from deployments.serve.catalogue import FolderCatalogue
from deployments.serve.inside import Inside, evidence_url
from deployments.serve.notes import Notebook
from flows import requests
from flows.history import History, full_id
from flows.hold import answer_hold
from flows.looking import kept_out_of, look
from flows.ports import Ports, on_stderr, opened
from flows.prefect_run import RESULTS
from flows.recovery import unfinished_rollouts
from flows.rollout import state_of
from flows.session import refuse_driven, requested_history, resumed_history
from flows.settings import Settings
from flows.wiring import wired
from state.errors import InterlockError, LeaseHeld, UsageInvalid
from state.events import RolloutRequested
from state.manifest.model import Manifest
from state.rollout import Rollout

Doubt = Literal["as the manifest says", "rollback", "hold", "accept"]


class Home(Protocol):
    """Where the flows run. Methods raise InterlockError."""

    ports: Ports
    catalogue: FolderCatalogue

    async def drive(self, requested: RolloutRequested) -> Rollout: ...

    async def recover(self, rollout: str, *, take_over: bool) -> Rollout | None:
        """One rollout; with an empty name every one that nobody drives, whose ends are not waited for."""
        ...

    async def free(self, service: str) -> None:
        """Wait until no rollout of the service is driven here."""
        ...


HOME: ContextVar[Home] = ContextVar("home")


@flow(name="rollout", flow_run_name="rollout {target}", persist_result=False, result_storage=RESULTS, log_prints=False)
async def rollout(
    target: str,
    dry_run: bool = False,
    inconclusive: Doubt = "as the manifest says",
    reason: str = "started from Prefect",
) -> State[str]:
    """Take a service to a revision that is on file, prove it, or put the old one back.

    Args:
        target: What the service is taken to: SERVICE/REVISION, as the folder of manifests has it.
        dry_run: Only look and plan; the artifact `plan` says what would be done.
        inconclusive: What follows if the evidence decides nothing: put the old one back, ask a person, or accept.
        reason: Why; kept in the history.
    """

    async def work(home: Home) -> State[str]:
        manifest = await _manifest(home, target)
        if inconclusive != "as the manifest says":
            policy = manifest.policy.model_copy(update={"inconclusive": inconclusive})
            manifest = manifest.model_copy(update={"policy": policy})
        requested = requests.from_manifest(home.ports, manifest, "rollout", reason)
        return await _planned(home, requested) if dry_run else state_of(await home.drive(requested))

    return await _at_home(work)


@flow(name="verify", flow_run_name="verify {target}", persist_result=False, result_storage=RESULTS, log_prints=False)
async def verify(target: str, reason: str = "started from Prefect") -> State[str]:
    """Judge what runs now by the claims of a revision that is on file, changing nothing.

    Args:
        target: What should be running: SERVICE/REVISION, as the folder of manifests has it.
        reason: Why; kept in the history.
    """

    async def work(home: Home) -> State[str]:
        manifest = await _manifest(home, target)
        return state_of(await home.drive(requests.from_manifest(home.ports, manifest, "verify", reason)))

    return await _at_home(work)


@flow(
    name="rollback", flow_run_name="rollback {service}", persist_result=False, result_storage=RESULTS, log_prints=False
)
async def rollback(service: str, to: str = "", reason: str = "started from Prefect") -> State[str]:
    """Take a service back to the revision that was proven before the present one, and prove it.

    Args:
        service: The service.
        to: Another proven revision: its digest, or the beginning of it. Empty for the last one before the present.
        reason: Why; kept in the history.
    """

    async def work(home: Home) -> State[str]:
        return state_of(await home.drive(await requests.to_proven(home.ports, service, None, to, reason)))

    return await _at_home(work)


@flow(name="recover", persist_result=False, result_storage=RESULTS, log_prints=False)
async def recover(rollout: str = "", take_over: bool = False) -> State[str]:
    """Go on with rollouts that an orchestrator left unfinished.

    Args:
        rollout: A rollout's id, or its beginning. Empty for every one that nobody drives any more.
        take_over: Do not wait for the lease of the named rollout: you know that its orchestrator is gone.
    """

    async def work(home: Home) -> State[str]:
        if take_over and not rollout:
            raise UsageInvalid("Taking over needs the rollout to take over", hint="`interlock history` lists them")
        name = await full_id(home.ports, rollout) if rollout else ""
        ended = await home.recover(name, take_over=take_over)
        return state_of(ended) if ended else Completed(message="what nobody drove any more is gone on with")

    return await _at_home(work)


@flow(
    name="answer",
    flow_run_name="answer {rollout}: {answer}",
    persist_result=False,
    result_storage=RESULTS,
    log_prints=False,
)
async def answer(rollout: str, answer: Literal["promote", "rollback"], who: str, reason: str) -> State[str]:
    """Answer a rollout that holds: its proof stayed open, and its policy is to ask a person.

    Args:
        rollout: The rollout that asks.
        answer: Promote the new revision, or put the old one back.
        who: Your name. Prefect knows no users, and the history names who answered.
        reason: Why; kept in the history.
    """

    async def work(home: Home) -> State[str]:
        if not who.strip():
            raise UsageInvalid("An answer needs a name", hint="say who answers; it is kept in the history")
        name = await full_id(home.ports, rollout)
        given = await answer_hold(home.ports, name, answer, f"{who.strip()} (Prefect)", reason)
        return Completed(message=f"rollout {name} is answered: {given.answer}", data=name)

    return await _at_home(work)


@flow(
    name="scheduled-switch",
    flow_run_name="switch to {target}",
    persist_result=False,
    result_storage=RESULTS,
    log_prints=False,
)
async def scheduled_switch(target: str, reason: str = "by schedule") -> State[str]:
    """Take a service to a revision at its time, as the `schedule:` of its manifests says.

    A rollout of the service that is under way then is waited for. It costs no downtime where that revision runs.

    Args:
        target: What the service is taken to: SERVICE/REVISION, as the folder of manifests has it.
        reason: Why; kept in the history.
    """

    async def work(home: Home) -> State[str]:
        manifest = await _manifest(home, target)
        await home.free(manifest.service)
        return state_of(await home.drive(requests.from_manifest(home.ports, manifest, "rollout", reason)))

    return await _at_home(work)


class _Work(Protocol):
    def __call__(self, home: Home) -> Awaitable[State[str]]: ...


async def _at_home(work: _Work) -> State[str]:
    """The state that `work` comes to; of what kept it from being begun, the sentence."""
    try:
        home = HOME.get(None)
        if home is not None:
            return await work(home)
        settings = Settings()
        async with wired(settings) as (ports, _):
            return await work(_OwnHome(ports, settings))
    except InterlockError as error:
        return Failed(name=error.code, message=f"{error} ({error.hint})" if error.hint else str(error), data="")


async def _manifest(home: Home, target: str) -> Manifest:
    service, _, revision = target.rpartition("/")
    return await home.catalogue.manifest(service, revision)


async def _planned(home: Home, requested: RolloutRequested) -> State[str]:
    """Look and plan, changing nothing."""
    async with opened(home.ports, requested.hosts) as hosts:
        plan, _ = await look(hosts, requested.revision, home.ports)
        refusals = await kept_out_of(hosts, requested.revision, plan)
    await acreate_markdown_artifact(
        key=f"plan-{requested.service.replace('.', '-')}",
        markdown=plan_page(plan, plan.digest),
        description=f"What would be done ({runtime.flow_run.name})",
    )
    if refusals:
        return Failed(name="refused", message="; ".join(refusals), data=plan.digest)
    said = plan.unchanged or f"{len(plan.changes)} changes, plan {plan.digest[:12]}; nothing was touched"
    return Completed(name="planned", message=said, data=plan.digest)


class _OwnHome:
    """A process of its own, as a work pool's worker starts one: the rollout is driven in it. What its artifacts say of
    evidence leads to `api_url`."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self.ports, self.catalogue = ports, FolderCatalogue(settings.manifest_folder)
        self._notebook = Notebook(lambda *_: None, on_stderr)
        self._inside = Inside(self._notebook, evidence_url(settings.api_url))

    async def drive(self, requested: RolloutRequested) -> Rollout:
        return await self._driven(await requested_history(self._ports(requested.rollout), requested))

    async def recover(self, rollout: str, *, take_over: bool) -> Rollout | None:
        if rollout:
            return await self._gone_on(rollout, take_over=take_over)
        for name in await unfinished_rollouts(self.ports):
            with suppress(LeaseHeld):
                await self._gone_on(name, take_over=False)
        return None

    async def free(self, service: str) -> None:
        """The lease decides."""

    async def _gone_on(self, rollout: str, *, take_over: bool) -> Rollout:
        if not take_over:
            await refuse_driven(self.ports, rollout)
        return await self._driven(await resumed_history(self._ports(rollout), rollout))

    async def _driven(self, history: History) -> Rollout:
        return await self._inside.in_this_flow_run(history)

    def _ports(self, rollout: str) -> Ports:
        return replace(self.ports, watch=self._notebook.watched(rollout))
