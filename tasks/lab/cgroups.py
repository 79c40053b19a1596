"""A cgroup for each container host: what its systemd may rule over, and the way to end it whole."""

import os
import select
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_fixed

from state.errors import StepFailed
from tasks.lab.needs import cgroup_mount, cgroup_mounts

PARENT = "interlock-lab"
EMPTY_TIMEOUT_S = 10.0


def make(name: str) -> Path:
    """The host's own cgroup. Without one, all hosts would share the caller's, and a unit's stop would reach only its
    main process (systemd logs `Failed to kill control group …: Input/output error`)."""
    mount = cgroup_mount()
    assert mount is not None  # asked for by `needs`
    path = mount / PARENT / name
    again = Retrying(retry=retry_if_exception_type(FileNotFoundError), stop=stop_after_attempt(5), reraise=True)
    again(path.mkdir, parents=True, exist_ok=True)  # another host's end may take the empty parent away meanwhile
    return path


def first_process(name: str) -> int | None:
    """The PID, as seen from outside, of the host's own PID 1."""
    for mount in cgroup_mounts():
        procs = mount / PARENT / name / "payload" / "init.scope" / "cgroup.procs"
        if procs.is_file() and (pids := procs.read_text().split()):
            return int(pids[0])
    return None


def supervised(name: str) -> bool:
    """Whether the systemd-nspawn of the host runs, which has a group of its own beside the payload's."""
    groups = (mount / PARENT / name / "supervisor" / "cgroup.procs" for mount in cgroup_mounts())
    return any(group.read_text().strip() for group in groups if group.is_file())


def end(name: str) -> None:
    """Kill every process of the host, its supervisor and guard too, and remove its cgroups once they are gone.

    Nothing to end is no error. Raises StepFailed if a process is not gone within EMPTY_TIMEOUT_S.
    """
    groups = [mount / PARENT / name for mount in cgroup_mounts()]
    for group in groups:
        if (group / "cgroup.kill").exists():
            _kill(group)
    for group in groups:
        _remove(group)
        _remove_if_last(group.parent)


def _kill(group: Path) -> None:
    """A process leaves its cgroup while it ends, and a PID 1 then waits for all below it (pid_namespaces(7)): that they
    are gone is told by their pidfds alone."""
    with ExitStack() as stack:
        handles = []
        for pid in members(group):
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
                stack.callback(os.close, handles[-1])
        (group / "cgroup.kill").write_text("1")
        _wait(group.name, handles)


def processes(name: str) -> set[int]:
    """The PIDs of all that belongs to the host, as seen from outside."""
    return {pid for mount in cgroup_mounts() for pid in members(mount / PARENT / name)}


def members(group: Path) -> set[int]:
    """The PIDs of a cgroup and of all below it."""
    found: set[int] = set()
    for procs in group.rglob("cgroup.procs"):
        with suppress(OSError):  # it was removed meanwhile
            found |= {int(pid) for pid in procs.read_text().split()}
    return found


def _wait(name: str, handles: Sequence[int]) -> None:
    gone = select.poll()
    for handle in handles:
        gone.register(handle, select.POLLIN)
    left, until = len(handles), time.monotonic() + EMPTY_TIMEOUT_S
    while left:
        ended = gone.poll(max(0.0, until - time.monotonic()) * 1000)
        if not ended:
            raise StepFailed("lab-down", f"{left} processes of {name} are not gone after {EMPTY_TIMEOUT_S:g} s")
        for handle, _ in ended:
            gone.unregister(handle)
        left -= len(ended)


def _remove_if_last(parent: Path) -> None:
    with suppress(OSError):  # another host's is still in it, or none ever was
        parent.rmdir()


def _remove(group: Path) -> None:
    """Killed processes leave their cgroup only once they are gone: until then it is busy."""
    patience = Retrying(
        retry=retry_if_exception_type(OSError), wait=wait_fixed(0.02), stop=stop_after_delay(EMPTY_TIMEOUT_S)
    )
    for folder in sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True):
        patience(_remove_one, folder)
    patience(_remove_one, group)


def _remove_one(folder: Path) -> None:
    if folder.exists():
        folder.rmdir()
