"""A mark on a host that is further than its rollout's history, because the event store was away: where the facts wait.

Whoever goes on with the rollout from the store alone would take for undone what was done.
"""

from tasks.argv import STATE_DIR, WRITE_VALUE, cat_as_root
from tasks.hosts.port import Host
from tasks.script import Line, may, must
from tasks.sequence import READ_TIMEOUT_S, Fence, run_sequence

AHEAD = f"{STATE_DIR}/ahead"
"""One line: the rollout, and its spool by the words that each spooled event carries too."""


async def say_ahead(host: Host, fence: Fence, spool: str) -> None:
    """Write the mark, before the first change that the store does not know of. Raises FencedOut, HostReverted."""
    lines = [
        must("sh", "-c", WRITE_VALUE, "sh", f"{AHEAD}.new", f"{fence.rollout} {spool}\n"),
        must("mv", "-T", "-f", "--", f"{AHEAD}.new", AHEAD),
    ]
    await run_sequence(host, fence, lines)


async def spool_ahead(host: Host, rollout: str) -> str:
    """Which spool of the rollout the host is marked with; empty if with none."""
    (read,) = await host.run_all([cat_as_root(AHEAD)], timeout_s=READ_TIMEOUT_S)
    whose, _, spool = read.text.strip().partition(" ")
    return spool if read.ok and whose == rollout else ""


def forgotten() -> Line:
    """Removes the mark, with the next lease's own."""
    return may("rm", "-f", "--", AHEAD)
