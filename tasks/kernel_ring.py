"""The kernel's ring buffer, read past journald.

A kernel line that names a device makes journald read the device's `uevent` (systemd 252, journald-kmsg.c), which waits
for the lock that an unbind holds (Linux 6.1, device_release_driver): while the unbind of a held vfio device waits,
journald waits with it, in state D, and nothing of the whole host gets into the journal.
"""

from tasks.hosts.port import Argv
from tasks.script import must, render_sequence

RING = Argv(("/bin/sh", "-c", render_sequence([must("dmesg")])), root=True)
"""Prints the buffer. By a shell, which the sudoers list has: dmesg is not on it."""


def newest(ring: str) -> str:
    """The buffer's last line, from which `since` goes on."""
    return (ring.splitlines() or [""])[-1]


def since(ring: str, last: str) -> list[str]:
    """The lines after `last`; all of them where it has been overwritten meanwhile."""
    lines = ring.splitlines()
    return lines[lines.index(last) + 1 :] if last in lines else lines
