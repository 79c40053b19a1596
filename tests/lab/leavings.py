"""What there is of a container host on this machine: its processes, its network, its files."""

import os
import select
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tasks.lab import cgroups, guard
from tasks.lab.needs import cgroup_mount, cgroup_mounts
from tasks.lab.record import LabHost

GONE_S = 20.0
"""What a killed owner's host may take to be gone: its guard loads the lab, on a machine that may be busy."""


def traces(host: LabHost) -> list[str]:
    """What there is of a host on this machine: cgroups, network, mounts, files."""
    links = subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout
    found = [str(path) for mount in cgroup_mounts() for path in mount.glob(f"interlock-lab/{host.name}")]
    found += [line for line in links.splitlines() if f" {host.link}@" in line or f" {host.link}:" in line]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(host.folder) in line]
    return [*found, *([str(host.folder)] if host.folder.exists() else [])]


def members(host: LabHost) -> set[int]:
    return cgroups.processes(host.name)


def guards(host: LabHost) -> set[int]:
    mount = cgroup_mount()
    assert mount is not None
    return cgroups.members(mount / cgroups.PARENT / host.name / guard.PLACE)


@contextmanager
def watched(pids: Collection[int]) -> Iterator[select.poll]:
    """Tells of each process once it has ended."""
    ended = select.poll()
    with ExitStack() as stack:
        for pid in pids:
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            ended.register(handle, select.POLLIN)
        yield ended


def still_there(ended: select.poll, pids: Collection[int]) -> list[str]:
    """Empty once all of them have ended."""
    left = len(pids) - len(ended.poll(0))
    return [f"{left} of {len(pids)} processes"] if left else []


def in_time(left: Callable[[], Sequence[object]]) -> Sequence[object]:
    """What is left, once nothing is or GONE_S are over."""
    patience = Retrying(
        retry=retry_if_result(bool), wait=wait_fixed(0.05), stop=stop_after_delay(GONE_S),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else [],
    )  # fmt: skip
    found: Sequence[object] = patience(left)
    return found
