"""One container host: booted by systemd-nspawn on an overlay, in a network namespace and a cgroup of its own.

Everything it has hangs on its processes: its mounts, its network and its PID namespace go with them, whoever ends them.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from state.errors import StepFailed
from tasks.hosts.port import Completed
from tasks.lab import cgroups
from tasks.lab.claim import held
from tasks.lab.needs import environment
from tasks.lab.record import LabHost
from tasks.lab.tie import tie

BOOT_TIMEOUT_S = 60.0
END_TIMEOUT_S = 10.0
RAM_DISK = "size=1g,mode=0755"

_JOIN = 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"'
"""Shell text: enter a cgroup, then become the program."""

_BOOT = """set -eu
folder=$1 tree=$2 name=$3 link=$4 owner=$5 outside=$6 inside=$7
mount -t tmpfs -o "$8" interlock-lab "$folder/run"
mkdir "$folder/run/upper" "$folder/run/work" "$folder/run/root"
chmod 755 "$folder/run/upper"
mount -t overlay -o "lowerdir=$folder/layer:$tree,upperdir=$folder/run/upper,workdir=$folder/run/work" \\
    interlock-lab "$folder/run/root"
ip link set lo up
ip link add host0 type veth peer name "$link" netns "$owner"
ip address add "$inside/30" dev host0
ip link set host0 up
nsenter --net="/proc/$owner/ns/net" ip address add "$outside/30" dev "$link"
nsenter --net="/proc/$owner/ns/net" ip link set "$link" up
shift 8
exec "$@"
"""


async def boot(host: LabHost, tree: Path, *, tied: bool) -> LabHost:
    """Boot and wait until the host's systemd says that it is up.

    `tied`: it dies with the process that booted it, by a guard beside it; should the guard be killed too, what is left
    of the host is cleared away by the next `lab.up` of any process.
    Raises StepFailed with the console's last lines if it ends, or is not up within BOOT_TIMEOUT_S; then none is left.
    """
    (host.folder / "run").mkdir(exist_ok=True)
    own = (str(host.folder), str(tree), host.name, host.link, str(os.getpid()), host.outside, host.address, RAM_DISK)
    unshared = ("unshare", "--mount", "--net", "--propagation", "private", "/bin/sh", "-c", _BOOT, "sh", *own)
    return await _up(host, unshared, tied=tied)


async def power_cycle(host: LabHost, *, tied: bool) -> LabHost:
    """Cut the host's power and boot it anew: its disk and its wire stay, everything else is gone. Raises as `boot`."""
    keep = ("sh", "-c", "echo; exec sleep infinity")
    keeper = await asyncio.create_subprocess_exec(*_WITH_PARENT, *_within(host.pid), *keep, stdout=_PIPE)
    try:
        assert keeper.stdout is not None
        await keeper.stdout.readline()  # it holds the namespaces now
        with held(host):
            _end_processes(host)
            booted = await _up(host, _within(keeper.pid), tied=tied)
            booted.write()
        return booted
    finally:
        keeper.kill()
        await keeper.wait()


_PIPE = asyncio.subprocess.PIPE
_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


def _within(pid: int) -> tuple[str, ...]:
    return ("nsenter", "--target", str(pid), "--mount", "--net", "--")


async def _up(host: LabHost, within: Sequence[str], *, tied: bool) -> LabHost:
    """Start the supervisor `within` the namespaces that those words lead to, and wait until the host is up."""
    told = host.folder / "notify"
    told.unlink(missing_ok=True)
    if tied:
        await tie(host)
    loop = asyncio.get_running_loop()
    up = _Notified(loop.create_future())
    transport, _ = await loop.create_datagram_endpoint(lambda: up, local_addr=str(told), family=_UNIX)
    pid = _spawn(host, within, told, tied)
    try:
        with _ended(pid) as ended:
            await asyncio.wait({up.ready, ended}, timeout=BOOT_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        transport.close()
        told.unlink(missing_ok=True)
        if not up.ready.done():
            up.ready.cancel()
            end(host.with_pid(pid))
    if up.ready.cancelled():
        raise StepFailed("lab-up", f"{host.name} did not come up: {_last_lines(host.folder / 'console')}")
    return host.with_pid(pid)


_UNIX = 1  # AF_UNIX, which the typed signature of create_datagram_endpoint takes as a number


class _Notified(asyncio.DatagramProtocol):
    """Hears what systemd-nspawn passes on of the host's sd_notify messages."""

    def __init__(self, ready: "asyncio.Future[None]") -> None:
        self.ready = ready

    def datagram_received(self, data: bytes, addr: object) -> None:
        if b"READY=1" in data.split(b"\n"):
            _settle(self.ready)


def _spawn(host: LabHost, within: Sequence[str], told: Path, tied: bool) -> int:
    """Start the supervisor in a session of its own; its PID, which stays the same from the shell to systemd-nspawn."""
    words = [
        *("/bin/sh", "-c", _JOIN, "sh", str(cgroups.make(host.name))),
        *(_WITH_PARENT if tied else ()),
        *within,
        *("systemd-nspawn", "--quiet", "--boot", f"--directory={host.folder}/run/root", f"--machine={host.name}"),
        *("--register=no", "--keep-unit", "--settings=no", "--link-journal=no", "--resolv-conf=off", "--timezone=off"),
        *("--notify-ready=yes", "--console=pipe"),
    ]
    variables = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "NOTIFY_SOCKET": str(told),
        "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
    }
    console = os.open(host.folder / "console", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, console, 1),
        (os.POSIX_SPAWN_DUP2, console, 2),
    ]
    try:
        return os.posix_spawn("/bin/sh", words, variables, file_actions=files, setsid=True)
    finally:
        os.close(console)


@contextmanager
def _ended(pid: int) -> Iterator["asyncio.Future[None]"]:
    """A future that is done when the process has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    handle = os.pidfd_open(pid)
    loop.add_reader(handle, _settle, ended)
    try:
        yield ended
    finally:
        loop.remove_reader(handle)
        os.close(handle)
        ended.cancel()


def _settle(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


def alive(host: LabHost) -> bool:
    """Whether the host's own PID 1 runs, and the supervisor that it needs."""
    return cgroups.first_process(host.name) is not None and cgroups.supervised(host.name)


def end(host: LabHost) -> None:
    """End the host at once, as a power cut would, and leave nothing of it: processes, cgroup, network, files.

    Returns once its processes are gone. Raises StepFailed if some are not within cgroups.EMPTY_TIMEOUT_S."""
    _end_processes(host)
    words = ("ip", "link", "delete", host.link)
    subprocess.run(words, env=environment(), capture_output=True, timeout=END_TIMEOUT_S)


def _end_processes(host: LabHost) -> None:
    cgroups.end(host.name)
    if host.pid:
        with suppress(ChildProcessError):
            os.waitpid(host.pid, os.WNOHANG)


def root(host: LabHost) -> Path:
    """The host's files as seen from outside. Raises StepFailed for a host that does not run."""
    return Path(f"/proc/{_first(host)}/root")


async def execute(host: LabHost, words: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
    """Run an argv as root inside the host, past its sshd, so that it works with the network cut too."""
    entered = ("nsenter", "--target", str(_first(host)), "--all", "--wdns=/", "--", *words)
    return await _run(entered, stdin, timeout_s)


def run_in_network(host: LabHost, words: Sequence[str], *, stdin: bytes = b"") -> Completed:
    """Run a program of this machine in the host's network namespace alone, and wait for it."""
    entered = ("nsenter", "--target", str(_first(host)), "--net", "--", *words)
    done = subprocess.run(entered, input=stdin, env=environment(), capture_output=True, timeout=END_TIMEOUT_S)
    return Completed(done.returncode, done.stdout, done.stderr)


async def _run(words: Sequence[str], stdin: bytes, timeout_s: float) -> Completed:
    variables = {"PATH": environment()["PATH"], "LC_ALL": "C"}
    child = await asyncio.create_subprocess_exec(*words, stdin=_PIPE, stdout=_PIPE, stderr=_PIPE, env=variables)
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await child.communicate(stdin)
    finally:
        if child.returncode is None:
            child.kill()
            await child.communicate()
    code = child.returncode or 0
    return Completed(code if code >= 0 else 128 - code, out, err)


def _first(host: LabHost) -> int:
    pid = cgroups.first_process(host.name)
    if pid is None:
        raise StepFailed("lab", f"{host.name} does not run", hint="`interlock lab up` brings it up")
    return pid


def _last_lines(console: Path) -> str:
    lines = [line for line in console.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return "; ".join(lines[-3:]) or "its console says nothing"
