"""The dead-man's timer as unit files of the host, so that it outlives a boot: `OnActiveSec=` counts from there anew.

A timer of `systemd-run` is gone with the boot that had it, and its name stays taken for a moment after its stop
(systemd 252). These files are read when the timer is started. No daemon-reload is needed for that, and it would make
systemd take in whatever else was changed on the disk; one is due only when the files have gone. A renewal is a start,
of which systemd would take five in ten seconds and then fail the timer: its limit is off.
"""

from collections.abc import Sequence

from state.steps import ArmTimer
from tasks.argv import revert_script, revert_unit, write
from tasks.script import Line, may, must

FOLDER = "/etc/systemd/system"
WANTS = f"{FOLDER}/timers.target.wants"


def installed(step: ArmTimer) -> list[Line]:
    """Write both units whole, wanted at boot, and let a power cut find them on the disk."""
    timer, service, link = paths(step.service)
    texts = {service: service_text(step.service), timer: timer_text(step.service, step.deadline_s)}
    return [
        must("install", "-d", "-m", "755", "--", WANTS),
        *(line for path, text in texts.items() for line in _whole(path, text)),
        must("rm", "-f", "--", link),
        must("ln", "-s", "-T", "--", timer, link),
        must("sync", "--", revert_script(step.service), service, timer, FOLDER, WANTS),
    ]


def removed(service: str) -> list[Line]:
    """Take both units away; systemd forgets what does not run."""
    return [may("rm", "-f", "--", *reversed(paths(service))), may("systemctl", "daemon-reload")]


def paths(service: str) -> tuple[str, str, str]:
    """Timer, service, and the link by which a boot starts the timer."""
    name = revert_unit(service)
    return f"{FOLDER}/{name}.timer", f"{FOLDER}/{name}.service", f"{WANTS}/{name}.timer"


def timer_text(service: str, deadline_s: float) -> str:
    return (
        f"[Unit]\nDescription=Restores {service} when interlock no longer renews this\nStartLimitIntervalSec=0\n\n"
        f"[Timer]\nOnActiveSec={deadline_s:.15g}s\nAccuracySec=1s\nRemainAfterElapse=no\n"
    )


def service_text(service: str) -> str:
    return (
        f"[Unit]\nDescription=Restores {service} as it was before interlock's rollout\n\n"
        f"[Service]\nExecStart=/bin/sh {revert_script(service)}\n"
    )


def _whole(path: str, text: str) -> Sequence[Line]:
    fresh = f"{path}.interlock-new"
    return must(*write(fresh, text)), must("chmod", "644", "--", fresh), must("mv", "-T", "-f", "--", fresh, path)
