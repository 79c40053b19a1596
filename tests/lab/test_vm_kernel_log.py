"""What a real kernel says of an unbind that waits for a guest, and where it can be read: not in the journal."""

import asyncio

import pytest

from tasks.argv import journal_end, kernel_log
from tasks.hosts.ssh import SshHost
from tasks.kernel_ring import RING, newest, since
from tasks.lab import vm_lab
from tasks.lab.vm import SINGLES
from tasks.practice.pci import BLOCKED
from tasks.properties import cursor_of
from tests.lab.virtual import Machine

pytestmark = pytest.mark.lab
DEVICE = SINGLES[2]
SAYS = BLOCKED.format(address=DEVICE)
UNBIND = f"echo {DEVICE} > /sys/bus/pci/devices/{DEVICE}/driver/unbind"
STATE = "grep ^State: /proc/$(systemctl show --property=MainPID --value systemd-journald)/status"


async def test_journald_waits_with_a_stuck_unbind_and_the_ring_buffer_does_not() -> None:
    known = await vm_lab.up(tied=True)
    machine = Machine(known, SshHost(known.name, known.login()), SshHost(known.name, known.login("root")))
    try:
        await machine.reset()
        await machine.move(DEVICE, "vfio-pci")
        await machine.hold(DEVICE, once=DEVICE, how="device")
        await machine.until_held()
        end, ring = await machine.host.run_all([journal_end(), RING], timeout_s=30)
        await machine.root("systemd-run", "--quiet", "sh", "-c", UNBIND)
        async with asyncio.timeout(30):
            while not (said := await _said(machine, newest(ring.text))):  # noqa: ASYNC110  # no event comes from there
                await asyncio.sleep(0.5)
        assert said[-1].endswith(SAYS)
        assert "D (disk sleep)" in await machine.root("sh", "-c", STATE)
        log = kernel_log(after=cursor_of(end.text))
        (told,) = await machine.host.run_all([log], timeout_s=30)
        assert SAYS not in told.text
        await machine.root("pkill", "-f", "/root/hold.py")
        await machine.root("timeout", "30", "journalctl", "--sync")
        (told,) = await machine.host.run_all([log], timeout_s=30)
        assert SAYS in told.text
    finally:
        await machine.host.aclose()
        await machine.backdoor.aclose()
        vm_lab.down_one(known)


async def _said(machine: Machine, last: str) -> list[str]:
    (ring,) = await machine.host.run_all([RING], timeout_s=30)
    return [line for line in since(ring.text, last) if DEVICE in line]
