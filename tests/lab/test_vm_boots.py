"""The driver map over real boots of a hypervisor with udev; network cards stand in for the GPUs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from state.boot_rules import path_of
from tasks.lab import vm_lab
from tasks.lab.vm import PAIR, SINGLES
from tasks.lab.vm_record import VmHost
from tests.lab.rebooted import RULES, rebooted
from tests.lab.virtual import Machine, paired, reached

pytestmark = pytest.mark.lab
ONE, *_, FOUR = SINGLES
MAP = {"vfio-pci": [PAIR[0]], "e1000e": [ONE, FOUR]}


@pytest.fixture
async def known() -> AsyncIterator[VmHost]:
    """A machine for one test, which boots it anew: another QEMU then, of the same name."""
    host = await vm_lab.up(tied=True)
    yield host
    vm_lab.down_one(vm_lab.find(host.name))


async def rules(machine: Machine) -> dict[str, str]:
    names = (await machine.root("ls", RULES)).split()
    return {name: await machine.root("cat", f"{RULES}/{name}") for name in names}


async def test_a_map_that_is_kept_is_there_after_a_boot_and_without_the_choice_it_is_not(
    known: VmHost, tmp_path: Path
) -> None:
    """udev loads the driver of ONE and FOUR in the same boot, which would have taken the third card as well."""
    async with reached(known) as machine, paired(machine, tmp_path) as pair:
        await machine.root("mkdir", "-p", RULES)  # udev's, which comes with the boot
        ended, _ = await pair.roll_out(MAP, persist="boot")
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted", ended.concluded.summary
        path = path_of(ended.plan.service if ended.plan else "")
        assert await machine.root("stat", "--format=%n %a %U %G", path) == f"{path} 644 root root\n"
        known = await rebooted(known, tmp_path / "boot", await rules(machine))
        async with reached(known) as machine:
            assert await machine.drivers(ONE, *PAIR, FOUR) == ["e1000e", "vfio-pci", "vfio-pci", "e1000e"]
            await pair.enter(machine)
            ended, _ = await pair.roll_out(MAP, persist="none")
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            assert [key for key in ended.attempts if "service" in key] == []
            assert await rules(machine) == {}
            assert await machine.drivers(*PAIR) == ["vfio-pci", "vfio-pci"]
    known = await rebooted(known, tmp_path / "boot", {})
    async with reached(known) as machine:
        assert await machine.drivers(ONE, *PAIR, FOUR) == ["e1000e", "e1000e", "snd_hda_intel", "e1000e"]
