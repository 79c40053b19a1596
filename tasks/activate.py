"""Activating files: atomic replacement from the host's own copies, daemon-reload, and a read-back of all of it."""

from state.errors import StepFailed
from state.events import Direction
from state.steps import InstallFiles
from tasks.hosts.port import Host
from tasks.observe import unit_from
from tasks.observed_files import file_questions, files_from, observe_files
from tasks.script import may, must
from tasks.sequence import Fence, run_unit
from tasks.timer import placing

INSTALL_TIMEOUT_S = 180.0
"""A service that has come up meanwhile is stopped first, which may take 90 s (DefaultTimeoutStopSec=)."""


async def install(
    host: Host, step: InstallFiles, fence: Fence, key: str, direction: Direction = "do"
) -> dict[str, object]:
    """Bring each file to its `after` state. Raises StepFailed if one does not read back, or systemd has not read it.

    Never under a running service, which would go on with the other file: a host that rebooted after the stop may have
    started it. On the way back it goes on running where the host's own timer has restored the files already.
    A failure of the unit under its other file is forgotten on the way back: without a file it would stay `failed` for
    ever. On the way forward it has one, and the start forgets what was before it.
    """
    lines = [line for change in step.changes for line in placing(step.service, change.after)]
    if step.unit:
        lines.append(must("systemctl", "daemon-reload"))
        if direction == "undo":
            lines.append(may("systemctl", "reset-failed", "--", step.unit))
        if direction == "do" or not await _in_place(host, step):
            lines = [may("systemctl", "stop", "--", step.unit), *lines]
    paths = [c.after.path for c in step.changes]
    asked = file_questions(paths)
    answers = await run_unit(host, fence, key, lines, timeout_s=INSTALL_TIMEOUT_S, then=asked, of=step.unit)
    for change, file in zip(step.changes, files_from(paths, answers, host.name), strict=True):
        if file.digest != change.after.digest or (file.digest and file.mode != change.after.mode):
            raise StepFailed(
                "install-files",
                f"{file.path} on {host.name} does not read back as installed",
                hint="look for another program that manages it",
            )
    if step.unit and unit_from(step.unit, answers[-1].text).need_daemon_reload:
        raise StepFailed(
            "install-files",
            f"systemd on {host.name} still has the old {step.unit}",
            hint="run `systemctl daemon-reload` there",
        )
    return {}


async def _in_place(host: Host, step: InstallFiles) -> bool:
    seen = await observe_files(host, [c.after.path for c in step.changes])
    return all(file.digest == change.after.digest for change, file in zip(step.changes, seen, strict=True))
