"""Waits beside a tied container host until the process that booted it is gone, and then ends the host.

    python -I -S guard.py OWNER MOUNT GROUP COMMAND...

It is run by its path and takes the standard library alone, so that a boot pays some 20 ms for it. OWNER is an open
pidfd of the process that booted, MOUNT the cgroup2 hierarchy, GROUP the host's cgroup; COMMAND clears away what is no
process.
"""

import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PLACE = "guard"
"""Its own cgroup below the host's: whoever ends the host ends its guard with it."""


def guard(owner: int, mount: Path, group: Path, command: Sequence[str]) -> None:
    """Return in the process that was started once a child of it keeps guard; the child does not return.

    Raises OSError where GROUP has gone already."""
    before = mount / own_group(Path("/proc/self/cgroup").read_text()).lstrip("/")
    (group / PLACE / "cgroup.procs").write_text("0")
    if os.fork():
        return
    gone = select.poll()
    gone.register(owner, select.POLLIN)
    gone.poll()
    _enter_first([path for path in (before, *before.parents) if path.is_relative_to(mount)])
    with suppress(FileNotFoundError):
        (group / "cgroup.kill").write_text("1")
    os.execv(command[0], tuple(command))


def own_group(text: str) -> str:
    """The path in the cgroup2 hierarchy of a process whose `/proc/PID/cgroup` says `text` (cgroups(7))."""
    return next(line[3:] for line in text.splitlines() if line.startswith("0::"))


def _enter_first(groups: Sequence[Path]) -> None:
    """Leave the host's cgroup, which is about to be killed. One whose processes went with the owner may be gone."""
    for group in groups:
        with suppress(OSError):
            (group / "cgroup.procs").write_text("0")
            return


if __name__ == "__main__":
    guard(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
