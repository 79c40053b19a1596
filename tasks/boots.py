"""Whether a host has booted since: a PID that was noted before may be anybody's after it."""

import re

from tasks.argv import cat
from tasks.hosts.port import Argv, Completed

BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""A UUID that the kernel makes at each boot (random(4)); journald's cursors have it without its dashes, as `b=`."""


def boot_question() -> Argv:
    return cat(BOOT_ID)


def same_boot(cursor: str, read: Completed) -> bool:
    """Whether the host, that answered `boot_question`, runs since before that end of its journal. Not known is taken
    for the same."""
    noted = re.search(r"(?:^|;)b=([0-9a-f]{32})(?:;|$)", cursor)
    return noted is None or not read.ok or read.text.strip().replace("-", "") == noted[1]
