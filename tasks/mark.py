"""The lease's mark on a host: its fencing number, which every later change is checked against."""

from collections.abc import Awaitable, Callable

from state.errors import FencedOut, PrivilegeRefused
from tasks.ahead import forgotten
from tasks.argv import FENCE, REVERTED, STATE_DIR, WRITE_VALUE
from tasks.hosts.port import Argv, Host
from tasks.hosts.privilege import checked
from tasks.script import must, render_sequence
from tasks.sequence import READ_TIMEOUT_S, carried


async def mark(host: Host, number: int, still_ours: Callable[[], Awaitable[None]] | None = None) -> bool:
    """Write the fencing number to the host; True if its own timer had acted before (the mark read `reverted`).

    `still_ours` is asked between the look and the write, and raises if the lease is somebody else's by now. The write
    is refused if the mark is another one than was looked at: an orchestrator that was away meanwhile changes nothing.
    Raises FencedOut for that; PrivilegeRefused, HostUnreachable, ArgvFailed.
    """
    before = await carried(host)
    if still_ours is not None:
        await still_ours()
    lines = [
        must("install", "-d", "-m", "700", "--", STATE_DIR),
        must("grep", "-qxF", "--", before, FENCE) if before else must("test", "!", "-s", FENCE),
        must("sh", "-c", WRITE_VALUE, "sh", f"{FENCE}.new", f"{number}\n"),
        must("mv", "-T", "-f", "--", f"{FENCE}.new", FENCE),
        forgotten(),
    ]
    argv = Argv(("/bin/sh", "-c", render_sequence(lines)), root=True)
    (done,) = await host.run_all([argv], timeout_s=READ_TIMEOUT_S)
    if not done.ok and (now := await carried(host)) != before:
        raise FencedOut(host.name, number, now)
    checked(host.name, argv, done)
    return before == REVERTED


async def has_reverted(host: Host) -> bool:
    """Whether the host's own timer has acted since the mark was written."""
    return await carried(host) == REVERTED


async def may_be_root(host: Host) -> None:
    """Raises PrivilegeRefused unless root's argvs can be run."""
    (done,) = await host.run_all([Argv(("true",), root=True)], timeout_s=READ_TIMEOUT_S)
    if not done.ok:
        raise PrivilegeRefused(host.name, "the user", done.stderr.decode("utf-8", "replace").strip())
