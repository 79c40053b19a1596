"""One virtual machine host: an emulated computer with an IOMMU and network cards that stand in for GPUs.

The first machine boots; its memory is then saved, and later ones go on from there within seconds.
"""

import asyncio
import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from state.errors import StepFailed
from tasks.hosts.port import Argv
from tasks.hosts.ssh import SshHost
from tasks.lab.qmp import connected
from tasks.lab.vm_image import Image
from tasks.lab.vm_record import VmHost

BOOT_TIMEOUT_S = 400.0
RESUME_TIMEOUT_S = 60.0
SAVE_TIMEOUT_S = 120.0
END_TIMEOUT_S = 10.0

SINGLES = ("0000:02:00.0", "0000:03:00.0", "0000:04:00.0", "0000:07:00.0")
"""Network cards on driver e1000e, each behind a root port of its own: an IOMMU group of one."""

PAIR = ("0000:01:00.0", "0000:01:00.1")
"""A network card and a sound function in one slot, as a GPU and its audio are: a group of two."""

MIXED, UNRELATED, BRIDGE = "0000:06:01.0", "0000:06:02.0", "0000:05:00.0"
"""A network card on driver e1000 behind a conventional bridge, with a USB controller: one group holds all three."""

KERNEL_LINE = "console=ttyS0 loglevel=4 intel_iommu=on mitigations=off net.ifnames=0"

_COMPUTER = (
    *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"),
    *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
    *("-device", "intel-iommu,intremap=on"),
    *("-device", "virtio-net-pci,netdev=ssh,addr=02.0,romfile="),
    *("-device", "virtio-rng-pci,addr=03.0"),
    *("-device", "pcie-root-port,id=port1,chassis=1,addr=10.0"),
    *("-device", "e1000e,bus=port1,addr=0.0,multifunction=on,romfile="),
    *("-device", "intel-hda,bus=port1,addr=0.1"),
    *("-device", "pcie-root-port,id=port2,chassis=2,addr=11.0", "-device", "e1000e,bus=port2,romfile="),
    *("-device", "pcie-root-port,id=port3,chassis=3,addr=12.0", "-device", "e1000e,bus=port3,romfile="),
    *("-device", "pcie-root-port,id=port4,chassis=4,addr=13.0", "-device", "e1000e,bus=port4,romfile="),
    *("-device", "pcie-root-port,id=port5,chassis=5,addr=14.0", "-device", "pcie-pci-bridge,id=bridge5,bus=port5"),
    *("-device", "e1000,bus=bridge5,addr=1,romfile=", "-device", "ich9-usb-uhci1,bus=bridge5,addr=2"),
    *("-device", "pcie-root-port,id=port6,chassis=6,addr=15.0", "-device", "e1000e,bus=port6,romfile="),
)


async def start(host: VmHost, image: Image, *, tied: bool) -> VmHost:
    """Bring the machine up: from saved memory where there is some, else by a boot whose memory is then saved.

    `tied`: it dies with the process that started it. Raises StepFailed with the console's last lines;
    then none is left.
    """
    state = image.state(f"{await asyncio.to_thread(_version)} {_COMPUTER} {KERNEL_LINE}")
    saved = state.exists()
    known = host.with_pid(_spawn(host, image, state if saved else None, tied))
    known.write()  # from here on nobody takes it for one that crashed
    up = False
    try:
        await (_resume(known) if saved else _boot(known, state))
        await _set_clock(known)
        up = True
    finally:
        if not up:
            await asyncio.to_thread(end, known)
    return known


def alive(host: VmHost) -> bool:
    """Whether its QEMU runs: the process of that number, with its own folder among its words."""
    process = Path(f"/proc/{host.pid}")
    try:
        words = (process / "cmdline").read_bytes()
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    starting = not words and state != "Z"  # between two programs of one process there are no words
    return starting or str(host.folder).encode() in words


def end(host: VmHost) -> None:
    """End the machine at once, as a power cut would; nothing to end is no error."""
    if alive(host):
        handle = os.pidfd_open(host.pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, handle, os.WEXITED)
        finally:
            os.close(handle)
    with suppress(ChildProcessError):
        os.waitpid(host.pid or -1, os.WNOHANG)


async def power_cycle(host: VmHost, image: Image, *, tied: bool) -> VmHost:
    """Cut the machine's power and boot `image` in its place, which must hold the same keys.

    Its disk was its memory: what shall outlive the boot is in the image. Raises StepFailed; then none is left.
    """
    await asyncio.to_thread(end, host)
    known = host.with_pid(_spawn(host, image, None, tied))
    known.write()
    up = False
    try:
        await _come_up(known)
        up = True
    finally:
        if not up:
            await asyncio.to_thread(end, known)
    return known


async def _boot(host: VmHost, state: Path) -> None:
    await _come_up(host)
    await _save(host, state)


async def _come_up(host: VmHost) -> None:
    patience = AsyncRetrying(
        retry=retry_if_result(lambda up: not up and alive(host)), wait=wait_fixed(0.3),
        stop=stop_after_delay(BOOT_TIMEOUT_S), retry_error_callback=lambda _: False,
    )  # fmt: skip
    up: bool = await patience(_answers, host)
    if not up:
        raise StepFailed("lab-up", f"{host.name} did not come up: {host.last_lines()}")
    await _settled(host)


async def _answers(host: VmHost) -> bool:
    """Whether its sshd greets. QEMU itself takes the connection long before."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(5.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
            try:
                return (await reader.readline()).startswith(b"SSH-")
            finally:
                writer.close()
    return False


async def _settled(host: VmHost) -> None:
    """Wait until its systemd has nothing left to start, and its connections are closed."""
    await as_root(host, "systemctl", "is-system-running", "--wait", timeout_s=BOOT_TIMEOUT_S)


async def _save(host: VmHost, state: Path) -> None:
    """Save the memory beside its place, rename, go on."""
    fresh = state.with_name(f"{state.name}.{host.pid}")
    async with connected(host.monitor) as qmp:
        await qmp("stop")
        await qmp("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        await qmp("migrate", uri=f"exec:cat > {shlex.quote(str(fresh))}")
        busy = ("none", "setup", "active", "device")
        status = await qmp.until("query-migrate", leaves=busy, timeout_s=SAVE_TIMEOUT_S)
        await qmp("cont")
    if status != "completed":
        fresh.unlink(missing_ok=True)
        raise StepFailed("lab-up", f"the memory of {host.name} could not be saved: {status}", hint="is the disk full?")
    fresh.rename(state)


async def _resume(host: VmHost) -> None:
    """Go on from saved memory: QEMU waits, paused, until it is told to."""
    patience = AsyncRetrying(
        retry=retry_if_result(lambda there: not there and alive(host)), wait=wait_fixed(0.05),
        stop=stop_after_delay(END_TIMEOUT_S), retry_error_callback=lambda _: False,
    )  # fmt: skip
    there: bool = await patience(asyncio.to_thread, host.monitor.is_socket)
    if not there:
        raise StepFailed("lab-up", f"{host.name} did not start: {host.last_lines()}")
    async with connected(host.monitor) as qmp:
        status = await qmp.until("query-status", leaves=("inmigrate",), timeout_s=RESUME_TIMEOUT_S)
        if status == "inmigrate":
            raise StepFailed("lab-up", f"{host.name} did not read its memory within {RESUME_TIMEOUT_S:g} s")
        await qmp("cont")


async def _set_clock(host: VmHost) -> None:
    """The saved machine's clock stood still."""
    await as_root(host, "date", "--utc", f"--set=@{time.time():.3f}", timeout_s=RESUME_TIMEOUT_S)


async def as_root(host: VmHost, *words: str, stdin: bytes = b"", timeout_s: float = 30.0) -> str:
    """Run an argv as root in the machine, by a session of its own, past the user `interlock`; what it prints."""
    session = SshHost(host.name, host.login("root"))
    try:
        (done,) = await session.run_all([Argv(words, stdin=stdin)], timeout_s=timeout_s)
    finally:
        await session.aclose()
    return done.text


def _version() -> str:
    words = ("qemu-system-x86_64", "--version")
    return subprocess.run(words, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=True).stdout


def _spawn(host: VmHost, image: Image, state: Path | None, tied: bool) -> int:
    """Start QEMU in a session of its own; its PID, which stays the same through the wrappers."""
    words = [
        *("nice", "-n", "10"),
        *(("setpriv", "--pdeathsig", "KILL") if tied else ()),
        *("qemu-system-x86_64", "-name", host.name, *_COMPUTER),
        *("-netdev", f"user,id=ssh,restrict=on,hostfwd=tcp:127.0.0.1:{host.port}-:22"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", KERNEL_LINE),
        *("-serial", f"file:{host.console}", "-qmp", f"unix:{host.monitor},server=on,wait=off"),
        *(("-incoming", f"exec:cat {shlex.quote(str(state))}") if state else ()),
    ]
    log = os.open(host.console.with_suffix(".qemu"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        return os.posix_spawnp("nice", words, environment, file_actions=files, setsid=True)
    finally:
        os.close(log)
