"""A tiny pure world that the steps act on, and a performer over it that fails, dies and is cancelled as told."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core_samples import fact, failure

from state.action import Action
from state.events import (
    ActionFailed,
    ActionStarted,
    CancelRequested,
    ErrorFacts,
    Event,
    LeaseTaken,
    RolloutRequested,
    RolloutResumed,
)
from state.next_action import begun_steps, next_action
from state.observation import Observation
from state.plan import Plan
from state.rollout import Rollout, evolve, fold
from state.steps import (
    ArmTimer,
    DisarmTimer,
    DiscardStaged,
    FileState,
    InstallFiles,
    RebindGpus,
    StageFiles,
    StartService,
    Step,
    StopService,
)


@dataclass(frozen=True)
class Model:
    """One host. `running` are the files that the service was started with, None where it is down; `boot` are those that
    only the next boot reads."""

    files: Mapping[str, FileState]
    drivers: Mapping[str, str | None]
    running: Mapping[str, FileState] | None
    staged: frozenset[str] = frozenset()
    timer: ArmTimer | None = None
    boot: Mapping[str, FileState] = field(default_factory=dict)


class ImpossibleStepError(Exception):
    """A step met a state in which a real host would refuse it."""


def model_of(observed: Observation, plan: Plan) -> Model:
    """The model that was observed; files of the plan that are absent are known as absent."""
    befores = [(s.unit, c.before) for s in plan.steps if isinstance(s, InstallFiles) for c in s.changes]
    files = {before.path: before for unit, before in befores if unit}
    boot = {before.path: before for unit, before in befores if not unit}
    drivers = {gpu.address: gpu.driver for gpu in observed.gpus}
    return Model(files, drivers, files if observed.unit.active else None, boot=boot)


def apply(model: Model, step: Step) -> Model:
    """The model after the step; every step may be repeated. Raises ImpossibleStepError."""
    match step:
        case StageFiles():
            digests = {s.digest for c in step.changes for s in (c.before, c.after) if s.digest}
            return replace(model, staged=model.staged | digests)
        case DiscardStaged():
            digests = {s.digest for c in step.changes for s in (c.before, c.after) if s.digest}
            return replace(model, staged=model.staged - digests)
        case ArmTimer():
            return replace(model, timer=step)
        case DisarmTimer():
            return replace(model, timer=None)
        case StopService():
            return replace(model, running=None)
        case StartService():
            return model if model.running is not None else replace(model, running=model.files)
        case RebindGpus():
            return replace(model, drivers={**model.drivers, **{m.address: m.after for m in step.moves}})
        case InstallFiles(unit=""):
            return replace(model, boot={**model.boot, **_installed(model, step, model.boot)})
        case InstallFiles():
            return replace(model, files={**model.files, **_installed(model, step, model.files)})


def _installed(model: Model, step: InstallFiles, files: Mapping[str, FileState]) -> dict[str, FileState]:
    if all(files[c.after.path] == c.after for c in step.changes):
        return {}
    if step.unit and model.running is not None:
        raise ImpossibleStepError("files are replaced under a running service")
    for change in step.changes:
        if change.after.digest is not None and change.after.digest not in model.staged:
            raise ImpossibleStepError(f"{change.after.digest} is not on the host")
    return {c.after.path: c.after for c in step.changes}


def reverted(model: Model, step: ArmTimer) -> Model:
    """What the host's own timer makes of the model."""
    before = {c.before.path: c.before for c in step.files}
    files, boot = ({**old, **{p: s for p, s in before.items() if p in old}} for old in (model.files, model.boot))
    drivers = {**model.drivers, **{m.address: m.before for m in step.moves}}
    running = model.running if not step.unit else files if step.start else None
    return replace(model, files=files, boot=boot, drivers=drivers, running=running, timer=None)


class KilledError(Exception):
    """The orchestrator is gone."""


class InterruptedByPersonError(Exception):
    """Somebody pressed Ctrl-C."""


@dataclass
class World:
    """`faults` maps an action's key to how it fails: `for good`, `once` or `never ending` (these may be tried again); a
    judgement's to its outcome: `refuted`, `open`, `more` (open, and more samples may decide).

    A `do` step that fails does so after its effect if `late`, else before it. `moments` counts the points at which the
    orchestrator can die: before and after each append, and after each effect.
    """

    plan: Plan
    start: Model
    model: Model
    faults: Mapping[str, str] = field(default_factory=dict)
    late: bool = False
    good: bool = True
    events: list[Event] = field(default_factory=list)
    rollout: Rollout = field(default_factory=Rollout)
    log: list[str] = field(default_factory=list)
    leased: bool = False
    fence: str = ""
    moments: int = 0
    die_at: frozenset[int] = frozenset()
    cancel_at: int | None = None
    revert_at: int | None = None

    def moment(self) -> None:
        self.moments += 1
        if self.moments == self.cancel_at:
            raise InterruptedByPersonError
        if self.moments in self.die_at or self.moments == self.revert_at:
            raise KilledError

    def append(self, event: Event) -> None:
        self.moment()
        self.record(event)
        self.moment()

    def record(self, event: Event) -> None:
        self.events.append(event)
        self.rollout = evolve(self.rollout, event)


def run(world: World, requested: RolloutRequested, *, limit: int = 400) -> Rollout:
    """Drive to the end, as often as it takes, every orchestrator knowing the events alone."""
    world.record(requested)
    while True:
        try:
            return _drive(world, limit)
        except KilledError:
            _pass_time(world)
            world.rollout = fold(world.events)
            world.record(RolloutResumed(session=world.rollout.session + 1, actor="another"))
        except InterruptedByPersonError:
            if world.rollout.concluded is None:
                world.record(CancelRequested(actor="a person"))


def _pass_time(world: World) -> None:
    """While nobody drives, an armed timer fires if this was its moment."""
    if world.revert_at is not None and world.moments >= world.revert_at and world.model.timer:
        world.model = reverted(world.model, world.model.timer)
        world.fence = "reverted"
        world.revert_at = None


def _drive(world: World, limit: int) -> Rollout:
    while (action := next_action(world.rollout)) is not None:
        assert len(world.log) < limit, "the loop does not end"
        _attempt(world, action)
    return world.rollout


def _attempt(world: World, action: Action) -> None:
    number = world.rollout.attempts.get(action.key, 0) + 1
    world.moment()
    world.record(ActionStarted(action=action.key, attempt=number))
    world.log.append(action.key)
    world.moment()
    error, event = _perform(world, action, world.rollout)
    world.append(ActionFailed(action=action.key, attempt=number, error=error) if error else event)


def _perform(world: World, action: Action, rollout: Rollout) -> tuple[ErrorFacts | None, Event]:
    fault = world.faults.get(action.key, "")
    tried = sum(1 for e in world.events if isinstance(e, ActionFailed) and e.action == action.key)
    failing = fault in ("for good", "never ending") or (fault == "once" and not tried)
    error = failure(retryable=fault != "for good") if failing else None
    if error and not (world.late and action.kind == "step"):
        return error, fact("plan")
    met, event = _effect(world, action, rollout)
    return met or error, event


def _effect(world: World, action: Action, rollout: Rollout) -> tuple[ErrorFacts | None, Event]:
    fault = world.faults.get(action.key, "")
    event = fact(action.key, made=world.plan, good=world.good)
    match action.kind:
        case "lease":
            return _lease(world, action)
        case "release":
            world.leased = False
        case "step":
            return _step(world, action), event
        case "await-readiness" if world.model.running is None:
            return failure("engine-failed"), event
        case "judge" if action.side == "old":
            proven = world.model.running == world.start.running
            return None, fact(action.key, outcome="held" if proven else "refuted")
        case "judge" if fault in ("refuted", "open", "more"):
            return None, fact(
                action.key, outcome="refuted" if fault == "refuted" else "inconclusive", more=fault == "more"
            )
        case "hold" if fault == "rollback":
            return None, fact(action.key, answer="rollback")
        case "conclude" if action.ending == "promoted":
            return _promote(world, rollout), event
    return None, event


def _lease(world: World, action: Action) -> tuple[ErrorFacts | None, Event]:
    world.leased = True
    if world.fence == "reverted" and action.key not in ("lease:0", "lease:reverted"):
        return failure("host-reverted"), fact(action.key)
    found = ("serving",) if world.fence == "reverted" else ()
    world.fence = "ours"
    taken = fact(action.key)
    assert isinstance(taken, LeaseTaken)
    return None, taken.model_copy(update={"reverted": found})


def _step(world: World, action: Action) -> ErrorFacts | None:
    assert action.step is not None
    planned = world.plan.steps[action.step]
    return _apply(world, planned.inverse() if action.direction == "undo" else planned)


def _promote(world: World, rollout: Rollout) -> ErrorFacts | None:
    for _, step in reversed(begun_steps(rollout)):
        if isinstance(step, StageFiles | ArmTimer) and (error := _apply(world, step.inverse())):
            return error
    return None


def _apply(world: World, step: Step) -> ErrorFacts | None:
    if world.fence == "reverted":
        return failure("host-reverted")
    try:
        world.model = apply(world.model, step)
    except ImpossibleStepError as refusal:
        return ErrorFacts(code="step-failed", message=str(refusal))
    return None
