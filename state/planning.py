"""Making a plan: pure, from the wanted revision, what was observed, and what was proven before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from state import keyless
from state.claims import Claim
from state.engines.engine import Engine, engine_for
from state.engines.rendering import engine_started_by, rendering_for, served_model
from state.errors import Refused
from state.observation import Observation
from state.plan import Plan, driver_moves, restart_reason, steps_between
from state.plan_text import describe
from state.redaction import REDACTED, is_secret_name, redact_bytes
from state.revision import Revision
from state.stated_claims import manifest_claims
from state.steps import StartService
from state.target import Target, started_by
from state.traffic import compared


@dataclass(frozen=True, slots=True)
class Installed:
    """What the host has installed: the engine's version, None if it does not say, and models' architectures by path."""

    version: str | None
    architectures: dict[str, tuple[str, ...]]


def make_plan(
    revision: Revision,
    observed: Observation,
    engine: Engine,
    installed: Installed,
    last_proven: Revision | None,
    port: int,
) -> Plan:
    """The plan from `observed` to `revision`. Raises Refused for claims that nothing could ever decide."""
    target = target_of(revision, installed)
    previous = previous_target(revision, observed, installed, last_proven)
    steps = steps_between(revision, observed, port)
    reason = restart_reason(revision, observed)
    starts = any(isinstance(step, StartService) for step in steps)
    stated = manifest_claims(revision.claims, revision.traffic)
    if steps and not starts:
        stated = tuple(claim for claim in stated if claim not in compared(stated))  # nothing of the service changes
    before = _claims_before(previous) if previous else ()
    if steps and not (previous is not None and observed.unit.active):
        state = observed.unit.active_state or "not loaded"
        _refuse_comparisons(compared(stated), revision, f"{observed.unit.name} is {state}")
    elif steps and not any(claim.metric == "requests.accept_length" for claim in before):
        accepting = [claim for claim in compared(stated) if claim.metric.endswith(".accept_length")]
        _refuse_comparisons(accepting, revision, "the running service does not speculate")
    return Plan(
        service=revision.service,
        revision=revision.digest,
        observed=observed.digest,
        steps=steps,
        changes=describe(steps, reason),
        unchanged="" if steps else _unchanged(revision, observed),
        target=target,
        claims=(*engine.derive(target), *stated),
        traffic=revision.traffic,
        undecidable=engine.undecidable(target),
        previous=previous,
        previous_claims=before,
        previous_good=previous is not None and observed.unit.active,
        gpus=tuple(move.address for move in driver_moves(revision, observed)),
    )


def _claims_before(previous: Target) -> tuple[Claim, ...]:
    """What a way back must prove. That the service asked for a key is not known: its key file may be the new side's."""
    return tuple(c for c in engine_for(previous.engine).derive(previous) if c.metric != keyless.METRIC)


def _refuse_comparisons(claims: Sequence[Claim], revision: Revision, why: str) -> None:
    """What has nothing to be compared with stays open for ever, and would be rolled back for nothing."""
    doomed = [c.name for c in claims if (c.doubt or revision.policy.inconclusive) == "rollback"]
    if doomed:
        raise Refused(
            f"{', '.join(doomed)}: nothing to compare with, since {why}",
            hint="claim a figure of its own instead of a change, or say `inconclusive: accept`",
        )


def target_of(revision: Revision, installed: Installed) -> Target:
    return Target(
        engine=revision.engine,
        unit=revision.unit,
        unit_host=revision.unit_host,
        endpoint=revision.endpoint,
        key_file=revision.key_file,
        argv=revision.argv,
        arguments=revision.arguments,
        environment=revision.environment,
        engine_version=installed.version,
        architectures=installed.architectures.get(served_model(revision.engine, revision.arguments), ()),
        offers=revision.offers,
        gpu_host=revision.gpu_host,
        drivers=revision.drivers,
    )


def previous_target(
    revision: Revision, observed: Observation, installed: Installed, last_proven: Revision | None
) -> Target | None:
    """What runs now: the last proven revision if its argv is running, else what the running argv says by itself.

    It may be another engine than the one that is wanted. None where nothing runs. GPUs are expected on the drivers on
    which they were found. Its API key is the one that it was proven with, else the wanted revision's: a service that
    asks for none takes any.
    """
    if observed.argv is None:
        return None
    drivers = {gpu.address: gpu.driver for gpu in observed.gpus if gpu.driver}
    if last_proven is not None and started_by(observed.argv, last_proven.argv):
        known = installed if last_proven.engine == revision.engine else replace(installed, version=None)
        key_file = last_proven.key_file or revision.key_file
        return target_of(last_proven, known).model_copy(update={"drivers": drivers, "key_file": key_file})
    kind = engine_started_by(observed.argv)
    rendering = rendering_for(kind) if kind else None
    if rendering is None:
        return None
    arguments = dict(rendering.parse_arguments(observed.argv))
    port = arguments.get("port") or rendering.default_port
    return Target(
        engine=rendering.kind,
        unit=revision.unit,
        unit_host=revision.unit_host,
        endpoint=f"http://127.0.0.1:{port}",
        key_file=revision.key_file,
        argv=_as_recorded(observed.argv),
        arguments={name: REDACTED if is_secret_name(name) else value for name, value in arguments.items()},
        engine_version=installed.version if rendering.kind == revision.engine else None,
        architectures=installed.architectures.get(served_model(rendering.kind, arguments), ()),
        gpu_host=revision.gpu_host,
        drivers=drivers,
        managed=False,
    )


def _as_recorded(argv: tuple[str, ...]) -> tuple[str, ...]:
    """An argv that was found running, as its evidence is kept: a plan is stored, and nothing stored holds a secret."""
    kept = redact_bytes(b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in argv))
    return tuple(word.decode("utf-8", "replace") for word in kept.split(b"\0")[:-1])


def _unchanged(revision: Revision, observed: Observation) -> str:
    gpus = f", {len(revision.drivers)} GPUs are on their drivers" if revision.drivers else ""
    gpus += ", now and after a boot" if revision.persist == "boot" else ""
    return (
        f"{len(revision.files)} file{'s' if len(revision.files) != 1 else ''} read as wanted, {observed.unit.name} is "
        f"{observed.unit.active_state} with the revision's arguments{gpus}"
    )
