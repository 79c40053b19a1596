"""The dead-man's timer: without renewal the host restores files, drivers and service by itself, after a boot too."""

import asyncio
from collections.abc import Callable, Sequence

from tenacity import AsyncRetrying, retry_if_result, wait_exponential

from state.errors import DeadlineExceeded, HostReverted, StepFailed
from state.steps import NATIVE, ArmTimer, DisarmTimer, DriverMove, FileState
from tasks import timer_units
from tasks.argv import FENCE, REVERTED, blob, place, rebind_unit, revert_script, revert_unit, show, write
from tasks.hosts.port import Argv, Host
from tasks.hosts.privilege import checked
from tasks.observe import unit_from
from tasks.script import Line, may, must, render_sequence
from tasks.sequence import READ_TIMEOUT_S, Fence, run_sequence

RESTORING_TIMEOUT_S, RESTORING_LOOKS_S = 600.0, (0.5, 5.0)
"""A stop takes up to the unit's own timeout (90 s by default), each GPU up to MOVE_TIMEOUT_S."""

Maker = Callable[..., Line]
"""`must` or `may`: whether a failing line ends the sequence."""


async def arm(host: Host, step: ArmTimer, fence: Fence) -> dict[str, object]:
    """Write the restoring script and a timer for it, start the timer, and read back that it waits."""
    await run_sequence(host, fence, [must("install", "-d", "-m", "700", "--", place(step.service))])
    script = render_sequence(restoring(step)).encode()
    path, name = revert_script(step.service), revert_unit(step.service)
    fresh = f"{path}.{fence.rollout}"  # an upload has no fence: it must not replace another rollout's script
    upload = Argv(("tee", "--", fresh), stdin=script, root=True)
    checked(host.name, upload, *await host.run_all([upload], timeout_s=READ_TIMEOUT_S))
    start = must("systemctl", "restart", "--", f"{name}.timer")
    written = [must("mv", "-T", "-f", "--", fresh, path), *timer_units.installed(step)]
    look = [show(f"{name}.timer")]
    (shown,) = await run_sequence(host, fence, [*_taken_down(name), *written, start], then=look)
    if unit_from(name, shown.text).need_daemon_reload:  # an earlier one's files were still loaded
        (shown,) = await run_sequence(host, fence, [must("systemctl", "daemon-reload"), start], then=look)
    if unit_from(name, shown.text).active_state != "active":
        raise StepFailed(
            "arm-timer", f"{name}.timer does not wait on {host.name}", hint="see `systemctl status` of it there"
        )
    return {"timer": f"{name}.timer"}


async def renew(host: Host, service: str, fence: Fence) -> None:
    """Start the timer's wait anew. Raises HostReverted or FencedOut when it is too late."""
    await run_sequence(host, fence, [must("systemctl", "restart", "--", f"{revert_unit(service)}.timer")])


async def disarm(host: Host, step: DisarmTimer, fence: Fence) -> dict[str, object]:
    """Take the timer down. Raises HostReverted if it has fired."""
    name = revert_unit(step.service)
    script = revert_script(step.service)
    scripts = may("rm", "-f", "--", script, f"{script}.{fence.rollout}")
    lines = [*_taken_down(name), scripts, *timer_units.removed(step.service)]
    timer, service = await run_sequence(host, fence, lines, then=[show(f"{name}.timer"), show(f"{name}.service")])
    if unit_from(name, service.text).active:
        raise HostReverted(host.name)
    if unit_from(name, timer.text).active:
        raise StepFailed(
            "disarm-timer", f"{name}.timer still waits on {host.name}", hint=f"stop it: systemctl stop {name}.timer"
        )
    return {}


async def restored(host: Host, service: str) -> None:
    """Wait until the host's own restoring, if it is under way, has ended. Raises DeadlineExceeded."""
    name = revert_unit(service)

    async def under_way() -> bool:
        (shown,) = await host.run_all([show(f"{name}.service")], timeout_s=READ_TIMEOUT_S)
        return unit_from(name, shown.text).active

    patience = AsyncRetrying(retry=retry_if_result(bool), wait=wait_exponential(*RESTORING_LOOKS_S))
    try:
        async with asyncio.timeout(RESTORING_TIMEOUT_S):
            await patience(under_way)
    except TimeoutError:
        raise DeadlineExceeded(
            f"{name}.service on {host.name}",
            RESTORING_TIMEOUT_S,
            hint=f"`systemctl stop {name}` ends it there; see its journal",
        ) from None


def restoring(step: ArmTimer) -> list[Line]:
    """What the host does by itself: take the fence, stop what runs, put files and drivers back, start what ran before.

    Every line but the first may fail, so that one failure does not keep the rest from being restored.
    """
    return [
        must(*write(f"{FENCE}.new", f"{REVERTED}\n")),
        must("mv", "-T", "-f", "--", f"{FENCE}.new", FENCE),
        *([may("systemctl", "stop", "--", step.unit)] if step.unit else []),
        *(line for change in reversed(step.files) for line in placing(step.service, change.before, may)),
        *(rebinding(move.reversed()) for move in reversed(step.moves)),
        *(_reread(step.unit) if step.unit else []),
        *([may("systemctl", "start", "--", step.unit)] if step.start else []),
        may("systemctl", "stop", "--", f"{revert_unit(step.service)}.timer"),  # without its file it would run on
        *timer_units.removed(step.service),
    ]


def _reread(unit: str) -> list[Line]:
    return [may("systemctl", "daemon-reload"), may("systemctl", "reset-failed", "--", unit)]


def placing(service: str, state: FileState, line: Maker = must) -> list[Line]:
    """Bring one file to `state` from the host's own copy by digest, atomically; an absent one is removed."""
    if state.digest is None:
        return [line("rm", "-f", "--", state.path)]
    fresh = f"{state.path}.interlock-new"
    kept = (
        "install",
        "-m",
        f"{state.mode:o}",
        "-o",
        state.owner,
        "-g",
        state.group,
        "-T",
        "--",
        blob(service, state.digest),
        fresh,
    )
    return [line(*kept), line("sync", "--", fresh), line("mv", "-T", "-f", "--", fresh, state.path)]


MOVE_TIMEOUT_S = 40
"""For one function: an unbind has been seen to take seconds, a probe of a GPU some more."""


def rebinding(move: DriverMove) -> Line:
    """Move one PCI function, in a unit of its own that can be left behind.

    A write to `unbind` of a device that is in use cannot be killed, not even by `timeout`, which then waits for it
    (Linux 6.1): what is ended after MOVE_TIMEOUT_S is only the wait for the unit. Every write to a device whose unbind
    is stuck would wait too, and as long as the unit is there, no second one of its name starts. The line may fail: what
    counts is the link read back. Of a unit whose description is a script of many lines the journal has no start.
    """
    unit = (
        f"--unit={rebind_unit(move.address)}",
        f"--description=A move of {move.address} by interlock",
        *("--property=Type=oneshot", "--collect", "--quiet"),
    )
    script = render_sequence(writes(move))
    return may("timeout", str(MOVE_TIMEOUT_S), "systemd-run", *unit, "--", "/bin/sh", "-c", script)


def writes(move: DriverMove) -> list[Line]:
    """The writes that move one function by `driver_override`, never by vendor and device id.

    An unbound device answers ENODEV to an unbind.
    """
    device = f"/sys/bus/pci/devices/{move.address}"
    wanted = "" if move.after in (None, NATIVE) else move.after
    lines = [must(*write(f"{device}/driver_override", f"{wanted}\n"))]
    if move.before == NATIVE:
        lines.append(may(*write(f"{device}/driver/unbind", move.address)))
    elif move.before:
        lines.append(may(*write(f"/sys/bus/pci/drivers/{move.before}/unbind", move.address)))
    if move.after:
        lines.append(must(*write("/sys/bus/pci/drivers_probe", move.address)))
    return lines


def _taken_down(name: str) -> Sequence[Line]:
    units = f"{name}.timer", f"{name}.service"
    return may("systemctl", "stop", "--", units[0]), may("systemctl", "reset-failed", "--", *units)
