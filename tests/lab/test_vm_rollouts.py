"""GPU rebinding on a real kernel with an IOMMU; network cards stand in for the GPUs.

The hypervisor is a virtual machine, the service runs on a practice host: two hosts in one rollout.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flows.history import History
from flows.quarantine import clear
from state.errors import ArgvFailed, Refused, StepFailed
from state.narrative import narrate
from state.rollout import Rollout
from state.steps import DriverMove, RebindGpus
from state.store.port import RecordedEvent
from tasks import rebind
from tasks.argv import WRITE_VALUE, quarantine, rebind_unit
from tasks.hosts.port import Argv
from tasks.iommu import switch_domain
from tasks.lab import vm_lab, wire
from tasks.lab.vm import BRIDGE, MIXED, PAIR, SINGLES, UNRELATED
from tasks.lab.vm_record import VmHost
from tasks.mark import mark
from tasks.script import render_sequence
from tasks.sequence import Fence
from tasks.timer import rebinding
from tests.lab.test_cut_off import CUTS, Cut, started
from tests.lab.virtual import Machine, paired, reached
from tests.practice.kernel_refusals import REFUSALS

pytestmark = pytest.mark.lab
ONE, TWO, THREE, FOUR = SINGLES
FENCE = Fence("practice", 7)


@pytest.fixture(scope="module")
def known() -> Iterator[VmHost]:
    """One machine for all tests here; it ends with them, or with their process."""
    host = asyncio.run(vm_lab.up(tied=True))
    yield host
    vm_lab.down_one(host)


@pytest.fixture
async def machine(known: VmHost) -> AsyncIterator[Machine]:
    async with reached(known) as made:
        await made.reset()
        yield made


def end(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


async def test_two_devices_go_to_a_guest_and_two_come_back_in_one_rollout(machine: Machine, tmp_path: Path) -> None:
    """Nothing is written that would make the map outlive a reboot: that is a choice, `gpus.persist`."""
    await machine.root("touch", "/root/before")
    async with paired(machine, tmp_path) as pair:
        ended, (facts,) = await pair.roll_out({"vfio-pci": [ONE, TWO], "e1000e": [THREE, FOUR]})
        assert end(ended)[0] == "promoted", end(ended)
        assert await machine.drivers(*SINGLES) == ["vfio-pci", "vfio-pci", "e1000e", "e1000e"]
        assert facts["before"] == {ONE: {"driver": "e1000e"}, TWO: {"driver": "e1000e"}}
        assert facts["after"] == {ONE: {"driver": "vfio-pci"}, TWO: {"driver": "vfio-pci"}}
        ended, (facts,) = await pair.roll_out({"vfio-pci": [THREE, FOUR], "e1000e": [ONE, TWO]})
        assert end(ended)[0] == "promoted", end(ended)
        assert await machine.drivers(*SINGLES) == ["e1000e", "e1000e", "vfio-pci", "vfio-pci"]
        assert {address: told["driver"] for address, told in facts["before"].items()} == {
            ONE: "vfio-pci", TWO: "vfio-pci", THREE: "e1000e", FOUR: "e1000e"
        }  # fmt: skip
        assert {address: told["driver"] for address, told in facts["after"].items()} == {
            ONE: "e1000e", TWO: "e1000e", THREE: "vfio-pci", FOUR: "vfio-pci"
        }  # fmt: skip
        assert [line for line in facts["kernel"] if f"e1000e {ONE}" in line]
        assert await pair.serves()
    boot = ("/etc", "/usr/lib/udev", "/usr/lib/modprobe.d", "/usr/lib/modules-load.d")
    assert await machine.root("find", *boot, "-newer", "/root/before", "-type", "f") == ""


REBIND = "do:4:rebind-gpus"
CUT_STEPS = ["do:2:arm-timer", REBIND, "conclude:promoted"]


async def cut_while_it_moves(machine: Machine, cut: Cut) -> None:
    """Once systemd says that the first function's move begins."""
    words = ("journalctl", "--follow", "--lines=0", "--output=cat", "_PID=1", f"UNIT={rebind_unit(ONE)}")
    async with asyncio.timeout(90), machine.backdoor.follow(Argv(words)) as lines:
        async for _ in lines:
            break
    cut.cut(machine.known)
    await replace(cut, after_s=0.0).go_on(machine.known)


@pytest.mark.parametrize("cut", CUTS[:2])
async def test_a_rebinding_during_which_the_wire_is_cut_is_not_done_twice(
    machine: Machine, tmp_path: Path, cut: Cut
) -> None:
    """So are the arming of the hypervisor's own timer and its disarming, in one rollout."""
    left = list(CUT_STEPS)
    attempts: list[str] = []
    begun = await machine.root("journalctl", "--lines=0", "--show-cursor", "--quiet")
    cursor = begun.partition("-- cursor: ")[2].strip()
    async with paired(machine, tmp_path) as pair, asyncio.TaskGroup() as cuts:

        def watch(_: Rollout, event: RecordedEvent) -> None:
            if event.type != "action-started":
                return
            attempts.append(step := event.data["action"])
            if step in left:
                left.remove(step)
                if not cut.after_s:
                    cut.cut(machine.known)
                midway = cut.after_s and step == REBIND
                cuts.create_task(cut_while_it_moves(machine, cut) if midway else cut.go_on(machine.known))

        try:
            ended, (facts,) = await pair.roll_out({"vfio-pci": [ONE, TWO]}, watch)
        finally:
            wire.mend(machine.known)
    assert end(ended)[0] == "promoted", end(ended)
    assert left == []
    assert attempts.count(REBIND) > 1 or not cut.after_s  # else nothing had been asked when the wire fell silent
    assert await machine.drivers(ONE, TWO) == ["vfio-pci", "vfio-pci"]
    assert facts["before"] == {ONE: {"driver": "e1000e"}, TWO: {"driver": "e1000e"}}
    said = ("journalctl", "--no-pager", "--output=json", f"--after-cursor={cursor}", "_PID=1", "JOB_TYPE=start")
    ran = started(await machine.root(*said))
    assert {name: count for name, count in ran.items() if count != 1} == {}
    assert {rebind_unit(ONE), rebind_unit(TWO)} <= ran.keys()
    assert (await machine.root("systemctl", "list-units", "--all", "--plain", "--no-legend", "interlock-*")) == ""


async def test_a_third_device_that_is_held_takes_the_set_back(machine: Machine, tmp_path: Path) -> None:
    """Somebody opens it when the first has moved: nothing could be known of it before the service stopped."""
    await machine.move(THREE, "vfio-pci")
    group = await machine.group(THREE)
    await machine.hold(THREE, once=ONE, how="group")
    async with paired(machine, tmp_path) as pair:
        outcome, summary = end((await pair.roll_out({"vfio-pci": [ONE, TWO], "e1000e": [THREE]}))[0])
        assert outcome == "rolled-back", summary
        assert re.search(rf"{THREE}: PID \d+ holds /dev/vfio/{group} \(\S*python3 /root/hold\.py {THREE}", summary)
        assert f"moved back: {TWO}, {ONE}" in summary
        assert await machine.drivers(*SINGLES) == ["e1000e", "e1000e", "vfio-pci", "e1000e"]
        assert await pair.serves()


async def test_a_device_that_a_guest_has_is_refused_before_the_stop(machine: Machine, tmp_path: Path) -> None:
    await machine.move(THREE, "vfio-pci")
    await machine.hold(THREE, once=THREE, how="device")
    await machine.until_held()
    async with paired(machine, tmp_path) as pair:
        outcome, summary = end((await pair.roll_out({"vfio-pci": [ONE], "e1000e": [THREE]}))[0])
        assert outcome == "refused", summary
        assert re.search(rf"{THREE} on hypervisor is in use: PID \d+ holds .*/dev/vfio/\d+", summary), summary
        assert await machine.drivers(ONE, THREE) == ["e1000e", "vfio-pci"]


async def test_a_device_goes_with_its_other_function(machine: Machine, tmp_path: Path) -> None:
    device, companion = PAIR
    async with paired(machine, tmp_path) as pair:
        ended, _ = await pair.roll_out({"vfio-pci": [device]})
        assert end(ended)[0] == "promoted", end(ended)
        assert await machine.drivers(device, companion) == ["vfio-pci", "vfio-pci"]
        ended, _ = await pair.roll_out({"e1000e": [device]})
        assert end(ended)[0] == "promoted", end(ended)
        assert await machine.drivers(device, companion) == ["e1000e", "snd_hda_intel"]


async def test_a_group_with_another_device_is_refused_by_its_name(machine: Machine, tmp_path: Path) -> None:
    async with paired(machine, tmp_path) as pair:
        outcome, summary = end((await pair.roll_out({"vfio-pci": [MIXED]}))[0])
        assert outcome == "refused", summary
        assert f"of {MIXED} also holds {UNRELATED} (class 0x0c0300, no driver), which hypervisor would lose" in summary
        assert BRIDGE not in summary
        assert await machine.drivers(MIXED) == ["e1000"]


async def test_an_interface_that_is_up_is_a_holder(machine: Machine) -> None:
    name = (await machine.root("ls", f"/sys/bus/pci/devices/{TWO}/net")).strip()
    await machine.root("ip", "link", "set", name, "up")
    await mark(machine.host, FENCE.number)
    moves = tuple(DriverMove(address=address, before="e1000e", after="vfio-pci") for address in (ONE, TWO))
    with pytest.raises(StepFailed, match=f"{TWO}: its network interface {name} is up"):
        await rebind.rebind(machine.host, RebindGpus(host="vm", moves=moves), FENCE, "do:1:rebind")
    await machine.root("ip", "link", "set", name, "down")
    assert await machine.drivers(ONE, TWO) == ["e1000e", "e1000e"]


async def test_a_stuck_unbind_is_quarantined_the_service_comes_back_and_a_person_clears_it(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder opens its device between the look for holders and the unbind: here the look is left out."""

    async def nobody(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(rebind, "holders_of", nobody)
    await machine.move(THREE, "vfio-pci")
    await machine.hold(THREE, once=ONE, how="device")
    async with paired(machine, tmp_path) as pair, pair.ports() as ports:
        ended, (facts,) = await pair.roll_out({"vfio-pci": [ONE], "e1000e": [THREE]})
        outcome, summary = end(ended)
        assert outcome == "rolled-back", summary
        assert f"the unbind of {THREE} from vfio-pci on hypervisor is stuck: it is quarantined" in summary
        assert f"moved back: {ONE}. The old state is back but for {THREE} on hypervisor, in quarantine" in summary
        assert await pair.serves()
        assert facts["quarantined"] == [THREE]
        (fact,) = ended.quarantined.values()
        assert (fact.host, fact.address, fact.driver) == ("hypervisor", THREE, "vfio-pci")
        assert ended.requested is not None
        rollout = ended.requested.rollout
        assert f"was stuck in rollout {rollout}" in await machine.root("cat", quarantine(THREE))
        again = Argv(("/bin/sh", "-c", render_sequence([rebinding(BACK)])), root=True)
        (refused,) = await machine.host.run_all([again], timeout_s=30)
        assert b"already loaded" in refused.stderr
        with pytest.raises(Refused, match=f"{THREE} on hypervisor is not well yet"):
            await clear(ports, rollout, THREE, "too early")
        outcome, summary = end((await pair.roll_out({"vfio-pci": [ONE], "e1000e": [THREE]}))[0])
        assert outcome == "refused", summary
        assert f"when it is well again, `interlock gpu clear {rollout} {THREE}` clears it" in summary
        await machine.root("pkill", "-f", "/root/hold.py")
        state = ("systemctl", "show", "--property=ActiveState", "--value", rebind_unit(THREE))
        async with asyncio.timeout(20):
            while (await machine.root(*state)).strip() != "inactive":  # noqa: ASYNC110  # no event reaches us from there
                await asyncio.sleep(0.5)
        await clear(ports, rollout, THREE, "its guest was ended")
        assert (await machine.root("ls", quarantine(THREE))) == ""
        told = [line.text for line in narrate(await History(ports, rollout).recorded())]
        assert f"device {THREE} on hypervisor is quarantined no longer" in told[-1]
        assert await machine.drivers(ONE, THREE) == ["e1000e", "e1000e"]


BACK = DriverMove(address=THREE, before="vfio-pci", after="e1000e")


async def test_a_switch_to_identity_is_refused_and_the_kernel_quoted(machine: Machine) -> None:
    group = await machine.group(ONE)
    await mark(machine.host, FENCE.number)
    with pytest.raises(Refused, match="not switched to identity"):
        await switch_domain(machine.host, group, "identity", FENCE)
    with pytest.raises(ArgvFailed, match="Device or resource busy"):
        await switch_domain(machine.host, group, "identity", FENCE, forced=True)
    assert (await machine.root("cat", f"/sys/kernel/iommu_groups/{group}/type")).strip() == "DMA-FQ"


@pytest.mark.parametrize(("path", "value", "reason"), REFUSALS)
async def test_the_kernel_refuses_and_says_why(machine: Machine, path: str, value: str, reason: str) -> None:
    group = await machine.group(TWO)
    words = ("sh", "-c", WRITE_VALUE, "sh", path.format(group=group), value.format(bound=TWO))
    (refused,) = await machine.host.run_all([Argv(words, root=True)], timeout_s=30)
    assert (refused.status, refused.stderr.decode()) == (1, f"printf: write error: {reason}\n")
