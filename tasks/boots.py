"""Whether a host has booted since: a PID that was noted before may be anybody's after it."""

import re

from tasks.argv import cat
from tasks.hosts.port import Host
from tasks.sequence import READ_TIMEOUT_S

BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""A UUID that the kernel makes at each boot (random(4)); journald's cursors have it without its dashes, as `b=`."""


async def same_boot(host: Host, cursor: str) -> bool:
    """Whether the host runs since before that end of its journal. Not known is taken for the same."""
    noted = re.search(r"(?:^|;)b=([0-9a-f]{32})(?:;|$)", cursor)
    if noted is None:
        return True
    (read,) = await host.run_all([cat(BOOT_ID)], timeout_s=READ_TIMEOUT_S)
    return not read.ok or read.text.strip().replace("-", "") == noted[1]
