"""A container host as the contract suite needs it: booted once for all tests of a process, with which it ends."""

import asyncio
import atexit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tasks.hosts.ssh import SshHost
from tasks.hosts.ssh_options import Login
from tasks.lab import container, lab
from tasks.lab.layer import USER, Furnishing
from tasks.lab.record import LabHost

WORK = f"/home/{USER}/work"
LOG = "/var/tmp/said"
SUDOERS = "etc/sudoers.d/interlock"
PLACE = "/var/tmp/interlock-suite"

_SHELL = f"""#!/bin/sh
# the user's login shell: counts what sshd runs, and once, if asked to, ends the session before its answer
echo >>{PLACE}/execs
if rm -- {PLACE}/lose-next 2>/dev/null; then
    /bin/sh "$@" >/dev/null 2>&1
    kill -KILL "$PPID"
fi
exec /bin/sh "$@"
"""
_PONG = """
import http.server, sys, threading
class Pong(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"pong")
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pong)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""
_booted: list[LabHost] = []


async def shared() -> LabHost:
    """The process's container host; its engine does not run."""
    if not _booted:
        _booted.extend(await lab.up([Furnishing(enabled=False)], tied=True))
        atexit.register(lab.down_one, _booted[0])
        root = container.root(_booted[0])
        (root / "usr/local/bin/counting-shell").write_text(_SHELL)
        (root / "usr/local/bin/counting-shell").chmod(0o755)
        await run(_booted[0], "usermod", "--shell", "/usr/local/bin/counting-shell", USER)
        await run(_booted[0], "install", "-d", "-o", USER, "-g", USER, "--", PLACE)
    return _booted[0]


async def run(host: LabHost, *words: str) -> None:
    done = await container.execute(host, words)
    assert done.ok, done.stderr


def login(host: LabHost) -> Login:
    spec = host.spec
    keys = (str(host.key),)
    return Login(spec.address, spec.user, host_key=spec.host_key, client_keys=keys, become="sudo", config=())


@asynccontextmanager
async def reached(sudo_allowed: bool) -> AsyncIterator[tuple[SshHost, Path]]:
    """The adapter with an empty folder WORK and an empty LOG; and the host's root, as seen from here."""
    made = await shared()
    root = container.root(made)
    await run(made, "rm", "-rf", "--", WORK)
    await run(made, "install", "-d", "-o", USER, "-g", USER, "--", WORK)
    (root / LOG.lstrip("/")).write_text("")
    (root / PLACE.lstrip("/") / "execs").unlink(missing_ok=True)
    granted = root / SUDOERS
    text = granted.read_bytes()
    if not sudo_allowed:
        granted.unlink()
    host = SshHost("gpu-1", login(made))
    try:
        yield host, root
    finally:
        await host.aclose()
        granted.write_bytes(text)
        granted.chmod(0o440)


@asynccontextmanager
async def pong() -> AsyncIterator[int]:
    """A server on the host's loopback; its port. It ends when its input does."""
    inside = ("nsenter", "--target", container.root(await shared()).parent.name, "--all", "--", "python3", "-c", _PONG)
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*inside, stdin=pipe, stdout=pipe)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        yield int(await child.stdout.readline())
    finally:
        child.stdin.close()
        await asyncio.wait_for(child.wait(), 10)
