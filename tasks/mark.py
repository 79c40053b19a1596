"""The lease's mark on a host: its fencing number, which every later change is checked against."""

from state.errors import PrivilegeRefused
from tasks.argv import FENCE, REVERTED, STATE_DIR, WRITE_VALUE, cat_as_root
from tasks.hosts.port import Argv, Host
from tasks.hosts.privilege import checked
from tasks.script import must, render_sequence
from tasks.sequence import READ_TIMEOUT_S


async def mark(host: Host, number: int) -> bool:
    """Write the fencing number to the host; True if its own timer had acted before (the mark read `reverted`).

    Raises PrivilegeRefused, HostUnreachable, ArgvFailed.
    """
    before = await has_reverted(host)
    lines = [
        must("install", "-d", "-m", "700", "--", STATE_DIR),
        must("sh", "-c", WRITE_VALUE, "sh", f"{FENCE}.new", f"{number}\n"),
        must("mv", "-T", "-f", "--", f"{FENCE}.new", FENCE),
    ]
    argv = Argv(("/bin/sh", "-c", render_sequence(lines)), root=True)
    (done,) = await host.run_all([argv], timeout_s=READ_TIMEOUT_S)
    checked(host.name, argv, done)
    return before


async def has_reverted(host: Host) -> bool:
    """Whether the host's own timer has acted since the mark was written."""
    (read,) = await host.run_all([cat_as_root(FENCE)], timeout_s=READ_TIMEOUT_S)
    return read.text.strip() == REVERTED


async def may_be_root(host: Host) -> None:
    """Raises PrivilegeRefused unless root's argvs can be run."""
    (done,) = await host.run_all([Argv(("true",), root=True)], timeout_s=READ_TIMEOUT_S)
    if not done.ok:
        raise PrivilegeRefused(host.name, "the user", done.stderr.decode("utf-8", "replace").strip())
