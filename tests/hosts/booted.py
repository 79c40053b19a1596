"""A booted host as the contract suite needs it, whatever it was booted as: real programs behind a real sshd.

Its user's login shell is a program of the suite, which counts what sshd runs and can lose an answer.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from tasks.hosts.port import Argv, Completed
from tasks.hosts.ssh import SshHost
from tasks.hosts.ssh_options import Login
from tests.hosts.adapter import USER, Reach, Reached

WORK = f"/home/{USER}/work"
LOG = "/var/tmp/said"
SUDOERS = "/etc/sudoers.d/interlock"
PLACE = "/var/tmp/interlock-suite"
LISTED = "its sudo is granted a list of programs, in which one that is not there cannot be"
"""Why `no_such_program_is_127_for_root_too` is none of its tests."""

_SHELL = f"""#!/bin/sh
# the user's login shell: counts what sshd runs, and once, if asked to, ends the session before its answer
echo >>{PLACE}/execs
if rm -- {PLACE}/lose-next 2>/dev/null; then
    /bin/sh "$@" >/dev/null 2>&1
    kill -KILL "$PPID"
fi
exec /bin/sh "$@"
"""
_FURNISH = f"""set -e
cat >/usr/local/bin/counting-shell
chmod 755 /usr/local/bin/counting-shell
/usr/sbin/usermod --shell /usr/local/bin/counting-shell {USER}
install -d -o {USER} -g {USER} -- {PLACE}
"""
_RESET = f"""set -e
rm -rf -- {WORK} {PLACE}/execs {PLACE}/lose-next
install -d -o {USER} -g {USER} -- {WORK}
: >{LOG}
"""
_PONG = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
ready.sendto(b"READY=1\\nSTATUS=%d" % server.getsockname()[1], os.environ["NOTIFY_SOCKET"])
while True:
    connection, _ = server.accept()
    with connection, connection.makefile("rwb") as file:
        while file.readline().strip():
            pass
        file.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 4\\r\\nconnection: close\\r\\n\\r\\npong")
"""
_SERVE = """set -e
systemd-run --quiet --collect --unit=pong --property=Type=notify -- python3 -c "$1"
systemctl show --property=StatusText --value pong
"""


class Root(Protocol):
    """Runs an argv as root on the host, past the user and the shell that counts."""

    async def __call__(self, *words: str, stdin: bytes = b"") -> Completed: ...


@asynccontextmanager
async def opened(login: Login, root: Root) -> AsyncIterator[Reach]:
    """The host made ready. All its tests share one SshHost, whose connection is kept: a handshake is what takes long on
    an emulated processor."""
    await _done(root, "sh", "-c", _FURNISH, stdin=_SHELL.encode())
    host = SshHost("gpu-1", login)

    def reach(_: Path, sudo_allowed: bool) -> AbstractAsyncContextManager[Reached]:
        return _reached(host, root, sudo_allowed)

    try:
        yield reach
    finally:
        await host.aclose()


@asynccontextmanager
async def _reached(host: SshHost, root: Root, sudo_allowed: bool) -> AsyncIterator[Reached]:
    """An empty folder WORK, an empty LOG, no exec counted yet."""

    async def say(line: str) -> None:
        await _done(root, "tee", "--append", LOG, stdin=f"{line}\n".encode())

    async def lose_next() -> None:
        await _done(root, "touch", f"{PLACE}/lose-next")

    async def execs() -> int:
        return len((await _done(root, "sh", "-c", f"cat {PLACE}/execs || true")).stdout)

    @asynccontextmanager
    async def serve() -> AsyncIterator[int]:
        port = int((await _done(root, "sh", "-c", _SERVE, "sh", _PONG)).text)
        try:
            yield port
        finally:
            await _done(root, "systemctl", "stop", "pong")

    await _done(root, "sh", "-c", _RESET)
    slow, follow = Argv(("sleep", "30")), Argv(("tail", "-f", "-n", "+1", "--", LOG))
    async with _sudo(root, sudo_allowed):
        yield Reached(host, WORK, slow, follow, say, serve, lose_next, execs)


@asynccontextmanager
async def _sudo(root: Root, allowed: bool) -> AsyncIterator[None]:
    """sudo ignores a file whose name has a dot in it."""
    if not allowed:
        await _done(root, "mv", SUDOERS, f"{SUDOERS}.off")
    try:
        yield
    finally:
        if not allowed:
            await _done(root, "mv", f"{SUDOERS}.off", SUDOERS)


async def _done(root: Root, *words: str, stdin: bytes = b"") -> Completed:
    done = await root(*words, stdin=stdin)
    assert done.ok, done.stderr
    return done
