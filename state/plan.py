"""The plan: the difference between the revision that is wanted and what was observed, as steps with their inverses."""

from collections.abc import Iterator

from state.boot_rules import boot_change, boot_texts
from state.canonical import digest_of
from state.claims import Claim, Undecidable
from state.model import Value
from state.observation import Observation, ObservedGpu
from state.revision import Revision
from state.steps import (
    NATIVE,
    VFIO,
    ArmTimer,
    DriverMove,
    FileChange,
    FileState,
    InstallFiles,
    RebindGpus,
    StageFiles,
    StartService,
    Step,
    StopService,
)
from state.target import Target, started_by
from state.traffic import Traffic


class Plan(Value):
    """What a rollout will do, and what it must prove.

    `changes` are sentences for people, in the order of the steps; `unchanged` says why there is nothing to do, and is
    empty otherwise. `observed` is the digest of the observation that the plan rests on. `dark_s` estimates the seconds
    without an answer, from `dark_basis`; None where this service has no history. `undecidable` are claims that would
    follow too, had this engine evidence of them.
    """

    service: str
    revision: str
    observed: str
    steps: tuple[Step, ...]
    changes: tuple[str, ...]
    unchanged: str = ""
    target: Target
    claims: tuple[Claim, ...]
    traffic: Traffic = Traffic()
    undecidable: tuple[Undecidable, ...] = ()
    previous: Target | None = None
    previous_claims: tuple[Claim, ...] = ()
    previous_good: bool = False
    gpus: tuple[str, ...] = ()
    dark_s: float | None = None
    dark_basis: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 over all of the plan but its estimate, which may sharpen without the plan changing."""
        return digest_of(self.model_dump(mode="json", exclude={"dark_s", "dark_basis"}))

    @property
    def starts(self) -> bool:
        """Whether the service is started anew; what it is left running for needs no outage."""
        return any(isinstance(step, StartService) for step in self.steps)


def steps_between(desired: Revision, observed: Observation, port: int) -> tuple[Step, ...]:
    """The steps from `observed` to `desired`, none where they agree. Pure; the order is the order of execution."""
    files, moves = file_changes(desired, observed), driver_moves(desired, observed)
    boot = boot_change(desired, observed)
    if not (files or moves or restart_reason(desired, observed)):
        return _beside_the_service(desired, observed, boot)
    guards: list[Step] = []
    if files:
        guards.append(StageFiles(host=desired.unit_host, service=desired.service, changes=files))
    if boot:
        guards.append(_staged(desired, observed, boot))
    guards += _timers(desired, observed, files, moves, boot)
    return (*guards, *_outage(desired, observed, files, moves, boot, port))


def _beside_the_service(desired: Revision, observed: Observation, boot: tuple[FileChange, ...]) -> tuple[Step, ...]:
    """What the GPU host's next boot finds concerns no running process: the service is neither stopped nor restored."""
    if not boot:
        return ()
    timer = _gpu_timer(desired, (), boot, desired.policy.timer_s)
    return _staged(desired, observed, boot), timer, _installed(desired, boot)


def file_changes(desired: Revision, observed: Observation) -> tuple[FileChange, ...]:
    """Files whose content, mode or owner differs, in the order of the revision."""
    changes = []
    for wanted in desired.files:
        seen = observed.file(wanted.path)
        after = FileState(
            path=wanted.path, digest=wanted.digest, mode=wanted.mode, owner=wanted.owner, group=wanted.group
        )
        before = seen.as_state(after)
        if before != after:
            changes.append(FileChange(before=before, after=after))
    return tuple(changes)


def driver_moves(desired: Revision, observed: Observation) -> tuple[DriverMove, ...]:
    """Functions whose driver differs from the map, those that leave the serving driver first, with their companions."""
    seen = {gpu.address: gpu for gpu in observed.gpus}
    moves: dict[str, DriverMove] = {}
    for address, driver in sorted(desired.drivers.items()):
        gpu = seen.get(address)
        before = gpu.driver if gpu else None
        if before != driver:
            moves[address] = DriverMove(address=address, before=before, after=driver)
            moves |= {m.address: m for m in _companions(gpu, moves[address]) if m.address not in desired.drivers}
    return tuple(sorted(moves.values(), key=lambda m: (m.after != VFIO, m.address)))


def _companions(gpu: ObservedGpu | None, move: DriverMove) -> Iterator[DriverMove]:
    """A device goes to a guest whole; when it comes back, the kernel chooses the drivers of its other functions."""
    for member in gpu.companions() if gpu else ():
        if move.after == VFIO and member.driver != VFIO:
            yield DriverMove(address=member.address, before=member.driver, after=VFIO)
        elif move.before == VFIO and member.driver == VFIO:
            yield DriverMove(address=member.address, before=VFIO, after=NATIVE)


def restart_reason(desired: Revision, observed: Observation) -> str:
    """Why the service must be started anew although files and drivers may agree; empty if it need not."""
    if not observed.unit.active:
        return f"{observed.unit.name} is {observed.unit.active_state or 'not loaded'}"
    if observed.unit.need_daemon_reload:
        return "systemd has not read the unit file since it changed"
    if observed.argv is None:
        return f"{observed.unit.name} is {observed.unit.active_state}, but runs no process that can be read"
    if not started_by(observed.argv, desired.argv):
        return "the running process was started with other arguments"
    return ""


GPU_TIMER_LATER_S = 20.0
"""The GPU host's own timer waits so much longer: by then the other host has stopped what may hold its devices."""


def _timers(
    desired: Revision,
    observed: Observation,
    files: tuple[FileChange, ...],
    moves: tuple[DriverMove, ...],
    boot: tuple[FileChange, ...],
) -> list[Step]:
    """One timer on the service's host; where the GPUs are on another host, one there as well, with what is theirs."""
    apart = _apart(desired)
    deadline_s = desired.policy.timer_s
    armed: list[Step] = [
        ArmTimer(
            host=desired.unit_host,
            service=desired.service,
            deadline_s=deadline_s,
            unit=desired.unit,
            start=observed.unit.active,
            files=files if apart else (*files, *boot),
            moves=() if apart else moves,
        )
    ]
    if apart and (moves or boot):
        armed.append(_gpu_timer(desired, moves, boot, deadline_s + GPU_TIMER_LATER_S))
    return armed


def _apart(desired: Revision) -> bool:
    return desired.gpu_host not in (None, desired.unit_host)


def _gpu_place(desired: Revision) -> str:
    """The name of what is kept on the GPU host. No service can be called so: both hosts may be one machine."""
    return f"{desired.service}:gpus" if _apart(desired) else desired.service


def _gpu_timer(
    desired: Revision, moves: tuple[DriverMove, ...], boot: tuple[FileChange, ...], deadline_s: float
) -> ArmTimer:
    return ArmTimer(
        host=desired.gpu_host or desired.unit_host,
        service=_gpu_place(desired),
        deadline_s=deadline_s,
        unit="",
        start=False,
        files=boot,
        moves=moves,
    )


def _staged(desired: Revision, observed: Observation, boot: tuple[FileChange, ...]) -> StageFiles:
    host, texts = desired.gpu_host or desired.unit_host, boot_texts(desired, observed)
    return StageFiles(host=host, service=_gpu_place(desired), changes=boot, texts=texts)


def _installed(desired: Revision, boot: tuple[FileChange, ...]) -> InstallFiles:
    host = desired.gpu_host or desired.unit_host
    return InstallFiles(host=host, service=_gpu_place(desired), unit="", changes=boot)


def _outage(
    desired: Revision,
    observed: Observation,
    files: tuple[FileChange, ...],
    moves: tuple[DriverMove, ...],
    boot: tuple[FileChange, ...],
    port: int,
) -> list[Step]:
    stop = desired.stop
    service = {
        "host": desired.unit_host,
        "unit": desired.unit,
        "port": port,
        "drain_s": stop.drain_s,
        "timeout_s": stop.timeout_s,
        "leftovers": stop.leftovers,
    }
    steps: list[Step] = []
    if observed.unit.active:
        steps.append(StopService.model_validate(service))
    if boot:
        steps.append(_installed(desired, boot))  # before the moves: from now on a device that shows up goes their way
    if moves:
        steps.append(RebindGpus(host=desired.gpu_host or desired.unit_host, moves=moves))
    if files or observed.unit.need_daemon_reload:
        steps.append(InstallFiles(host=desired.unit_host, service=desired.service, unit=desired.unit, changes=files))
    steps.append(StartService.model_validate(service))
    return steps
