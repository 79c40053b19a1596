"""Ties a container host to this process: however it ends, the whole host ends with it.

A parent-death signal alone does not do it: it ends systemd-nspawn, whose container lives on as a child of PID 1.
"""

import asyncio
import os
import subprocess
import sys

from tasks.lab import cgroups, guard
from tasks.lab.needs import cgroup_mount
from tasks.lab.record import LabHost

START_TIMEOUT_S = 30.0
_CLEAR = "import sys; from tasks.lab.lab import clear; clear(int(sys.argv[1]), int(sys.argv[2]))"


async def tie(host: LabHost) -> None:
    """Return once a guard stands beside the host. Raises CalledProcessError or TimeoutExpired if none comes up."""
    await asyncio.to_thread(_start, host)


def _start(host: LabHost) -> None:
    group = cgroups.make(host.name)
    (group / guard.PLACE).mkdir(exist_ok=True)
    owner = os.pidfd_open(os.getpid())
    folder = os.open(host.folder, os.O_RDONLY | os.O_DIRECTORY)
    words = (sys.executable, "-I", "-S", guard.__file__, str(owner), str(cgroup_mount()), str(group))
    clear = (sys.executable, "-c", _CLEAR, str(host.number), str(folder))
    try:
        subprocess.run(
            (*words, *clear), pass_fds=(owner, folder), start_new_session=True, cwd="/", check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, timeout=START_TIMEOUT_S,
        )  # fmt: skip
    finally:
        os.close(owner)
        os.close(folder)
