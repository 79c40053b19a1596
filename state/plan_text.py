"""A plan for people: one sentence for each step."""

from collections.abc import Sequence

from state.drop_ins import template_of
from state.steps import (
    NATIVE,
    ArmTimer,
    FileChange,
    InstallFiles,
    RebindGpus,
    StageFiles,
    StartService,
    Step,
    StopService,
)


def describe(steps: Sequence[Step], reason: str) -> tuple[str, ...]:
    """One sentence for each step, for people."""
    return tuple(_sentence(step, reason) for step in steps)


def _sentence(step: Step, reason: str) -> str:
    match step:
        case StageFiles():
            return _upload(step)
        case ArmTimer():
            what = "the old state" if step.unit else "the old drivers" if step.moves else "the old rules for the boot"
            return f"arm the timer on {step.host} that restores {what} after {step.deadline_s:g} s without renewal"
        case StopService():
            return f"stop {step.unit} and prove that nothing of it is left"
        case RebindGpus():
            return "; ".join(f"move {m.address} from {_driver(m.before)} to {_driver(m.after)}" for m in step.moves)
        case InstallFiles():
            named = ", ".join(_change(c) for c in step.changes)
            if not step.unit:
                return f"{named} on {step.host}: {_at_boot(step.changes)}"
            return f"{named or 'no file'}; systemctl daemon-reload"
        case StartService():
            return f"start {step.unit}" + (f" ({reason})" if reason else "")
        case _:
            return step.kind


def _upload(step: StageFiles) -> str:
    new, kept = ([c.after.path for c in step.changes if bool(c.after.digest) == there] for there in (True, False))
    return "; ".join(
        [
            *([f"upload {', '.join(new)} beside the old and read back by SHA-256"] if new else []),
            *([f"keep a copy of {', '.join(kept)} and read it back by SHA-256"] if kept else []),
        ]
    )


def _at_boot(changes: Sequence[FileChange]) -> str:
    kept = any(change.after.digest for change in changes)
    return "the driver map outlives a boot" if kept else "at a boot the kernel chooses the drivers"


def _driver(name: str | None) -> str:
    return "the kernel's own choice" if name == NATIVE else name or "no driver"


def _change(change: FileChange) -> str:
    if change.before.digest is None:
        template = template_of(change.after.path.rpartition("/")[2])
        shared = f" for this instance alone ({template} and its other instances stay as they are)" if template else ""
        return f"create {change.after.path}{shared}"
    return f"{'remove' if change.after.digest is None else 'replace'} {change.after.path}"
