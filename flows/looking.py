"""Looking at a service's hosts and planning from what is there; nothing is changed."""

import json
from collections.abc import Mapping, Sequence

from flows import conclude, lease
from flows.ports import Hosts, Ports
from flows.work import Work
from state.engines.engine import Engine, engine_for
from state.engines.rendering import running_model, served_model
from state.errors import PlanStale
from state.events import Event, PlanMade
from state.leases import proven
from state.observation import Observation
from state.plan import Plan
from state.planning import Installed, make_plan
from state.revision import Revision
from tasks.argv import cat
from tasks.gpu_preflight import quarantine_refusals
from tasks.hosts.port import Argv, Completed
from tasks.observe import observe_beside
from tasks.sequence import READ_TIMEOUT_S


async def plan(work: Work) -> Event:
    """Raises what `look` does; PlanStale for another plan than the reviewed one, LeaseHeld where nothing is to do but
    somebody else has the host."""
    made, _ = await look(work.hosts, work.revision, work.ports, work.requested.purpose)
    reviewed = work.requested.reviewed_plan
    if reviewed and not made.digest.startswith(reviewed):
        raise PlanStale(reviewed, made.digest)
    if made.unchanged and work.requested.purpose != "verify":
        await lease.refuse_held(work.ports, work.requested)
    made = await conclude.with_estimate(work.ports, made)
    return PlanMade(action=work.action.key, attempt=work.attempt, plan=made, digest=made.digest)


async def look(hosts: Hosts, revision: Revision, ports: Ports, purpose: str = "rollout") -> tuple[Plan, Observation]:
    """Observe and plan. Raises what the hosts raise, and Refused for undecidable claims.

    Two round trips to the serving host while it runs the model that is wanted, three while it runs another one.
    """
    host, gpu_host = hosts[revision.unit_host], hosts[revision.gpu_host] if revision.gpu_host else None
    engine = engine_for(revision.engine)
    version, wanted = engine.version_argv(revision.argv), _local(served_model(revision.engine, revision.arguments))
    asked = [Argv(version)] if version else []
    observed, answers = await observe_beside(host, gpu_host, revision, [*asked, *map(_config, wanted)])
    configs = dict(zip(wanted, answers[len(asked) :], strict=True))
    if other := [path for path in _local(running_model(observed.argv or ())) if path not in configs]:
        configs |= zip(other, await host.run_all([*map(_config, other)], timeout_s=READ_TIMEOUT_S), strict=True)
    installed = Installed(_version(engine, answers[: len(asked)]), _architectures(configs))
    last = proven(await ports.events.read_last(f"service-{revision.service}", 1))
    plan = make_plan(revision, observed, engine, installed, last[-1].revision if last else None, revision.port)
    return (plan.model_copy(update={"steps": (), "changes": ()}) if purpose == "verify" else plan), observed


async def kept_out_of(hosts: Hosts, revision: Revision, plan: Plan) -> list[str]:
    """A sentence for each device in quarantine that the plan would move; reads only."""
    return await quarantine_refusals(hosts[revision.gpu_host], plan) if revision.gpu_host else []


def _local(model: str) -> list[str]:
    """The model's folder on the host; none for one that is fetched by its name."""
    return [model] if model.startswith("/") else []


def _config(model: str) -> Argv:
    return cat(f"{model}/config.json")


def _version(engine: Engine, answers: Sequence[Completed]) -> str | None:
    """The installed engine's; None where it was not asked, or failed."""
    said = [answer for answer in answers if answer.ok]
    return engine.read_version(said[0].text, said[0].stderr.decode("utf-8", "replace")) if said else None


def _architectures(configs: Mapping[str, Completed]) -> dict[str, tuple[str, ...]]:
    """Those that each model's config.json names, of the models that have one."""
    return {path: _named(answer.stdout) for path, answer in configs.items() if answer.ok}


def _named(config: bytes) -> tuple[str, ...]:
    try:
        names = json.loads(config).get("architectures") or ()
    except (ValueError, AttributeError):
        return ()
    return tuple(map(str, names))
