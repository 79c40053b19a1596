"""Rebinding as a transaction over a set, on the practice machine, in virtual time."""

import asyncio
from typing import Any

import pytest

from state.errors import StepFailed
from state.observation import Observation, ObservedUnit
from state.plan import driver_moves
from state.revision import Revision
from state.steps import NATIVE, DriverMove, RebindGpus
from tasks import rebind
from tasks.argv import quarantine
from tasks.gpu_preflight import group_refusals
from tasks.hosts.port import Argv
from tasks.mark import mark
from tasks.observe import observe_gpus
from tasks.practice.host import PracticeMachine
from tasks.practice.pci import audio, bridge, gpu
from tasks.practice.simulated import SimulatedHost
from tasks.sequence import Fence
from tests.practice.virtual_time import in_virtual_time

ONE, SOUND, TWO, THREE = "0000:01:00.0", "0000:01:00.1", "0000:11:00.0", "0000:61:00.0"
FENCE = Fence("r1", 7)


async def prepared() -> tuple[PracticeMachine, SimulatedHost]:
    functions = [gpu(ONE, 12), audio(SOUND, 12), bridge("0000:00:01.1", 12), gpu(TWO, 13), gpu(THREE, 14)]
    machine = PracticeMachine(functions=functions)
    host = SimulatedHost(machine, "h", "interlock")
    await mark(host, FENCE.number)
    return machine, host


def step(*addresses: str, before: str = "nvidia", after: str = "vfio-pci") -> RebindGpus:
    return RebindGpus(host="h", moves=tuple(DriverMove(address=a, before=before, after=after) for a in addresses))


def drivers(machine: PracticeMachine, *addresses: str) -> list[str | None]:
    return [machine.pci.functions[address].driver for address in addresses]


def moved_to(machine: PracticeMachine, driver: str, *addresses: str) -> None:
    for address in addresses:
        machine.pci.functions[address].driver = driver


async def units(host: SimulatedHost) -> str:
    words = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "interlock-*")
    (listed,) = await host.run_all([Argv(words)], timeout_s=30)
    return listed.text


@in_virtual_time
async def test_a_set_moves_and_its_map_is_recorded_before_and_after() -> None:
    machine, host = await prepared()
    facts = await rebind.rebind(host, step(ONE, TWO), FENCE, "do:1:rebind")
    assert drivers(machine, ONE, TWO, THREE) == ["vfio-pci", "vfio-pci", "nvidia"]
    before: Any = facts["before"]
    after: Any = facts["after"]
    assert before[ONE] == {
        "driver": "nvidia", "index": "0", "uuid": machine.pci.functions[ONE].uuid, "serial": "1650000000012"
    }  # fmt: skip
    assert after[ONE] == {"driver": "vfio-pci"}
    assert facts["moved"] == [ONE, TWO]
    await rebind.rebind(host, step(ONE, TWO).inverse(), FENCE, "undo:1:rebind")
    assert drivers(machine, ONE, TWO) == ["nvidia", "nvidia"]


@in_virtual_time
async def test_what_is_there_already_is_left_alone() -> None:
    machine, host = await prepared()
    moved_to(machine, "vfio-pci", ONE)
    machine.add_stranger("/usr/bin/qemu", devices=["/dev/vfio/12"])
    facts = await rebind.rebind(host, step(ONE, TWO), FENCE, "do:1:rebind")
    assert facts["moved"] == [TWO]


@pytest.mark.parametrize(
    ("device", "on", "named"),
    [
        pytest.param("/dev/nvidia2", "nvidia", "/dev/nvidia2", id="nvidia"),
        pytest.param("/dev/vfio/14", "vfio-pci", "/dev/vfio/14", id="guest"),
        pytest.param("anon_inode:[vfio-device]", "vfio-pci", "anon_inode:[vfio-device]", id="guest-without-its-group"),
    ],
)
@in_virtual_time
async def test_a_holder_is_named_and_nothing_moves(device: str, on: str, named: str) -> None:
    machine, host = await prepared()
    moved_to(machine, on, THREE)
    pid = machine.add_stranger("/usr/bin/holder", "--all", devices=[device])
    after = "vfio-pci" if on == "nvidia" else "nvidia"
    moves = (*step(ONE).moves, *step(THREE, before=on, after=after).moves)
    with pytest.raises(StepFailed) as told:
        await rebind.rebind(host, RebindGpus(host="h", moves=moves), FENCE, "do:1:rebind")
    assert f"{THREE}: PID {pid} holds {named} (/usr/bin/holder --all)" in str(told.value)
    assert drivers(machine, ONE, THREE) == ["nvidia", on]


@in_virtual_time
async def test_a_process_on_another_gpu_is_in_nobodys_way() -> None:
    machine, host = await prepared()
    machine.add_stranger("/usr/bin/other-service", devices=["/dev/nvidiactl", "/dev/nvidia1"])
    await rebind.rebind(host, step(ONE, THREE), FENCE, "do:1:rebind")
    assert drivers(machine, ONE, TWO, THREE) == ["vfio-pci", "nvidia", "vfio-pci"]


@in_virtual_time
async def test_one_that_does_not_come_up_takes_the_set_back() -> None:
    machine, host = await prepared()
    machine.pci.refuse_probe[THREE, "vfio-pci"] = ["vfio-pci {address}: not ready 65535ms after FLR; giving up"]
    with pytest.raises(StepFailed) as told:
        await rebind.rebind(host, step(ONE, TWO, THREE), FENCE, "do:1:rebind")
    assert f"{THREE} is on no driver, not vfio-pci; the kernel says: " in str(told.value)
    assert f"giving up; moved back: {THREE}, {TWO}, {ONE}" in str(told.value)
    assert drivers(machine, ONE, TWO, THREE) == ["nvidia"] * 3
    assert await units(host) == ""


@in_virtual_time
async def test_one_that_cannot_be_moved_back_is_named() -> None:
    machine, host = await prepared()
    machine.pci.refuse_probe[THREE, "vfio-pci"] = ["vfio-pci {address}: probe failed"]
    machine.pci.refuse_probe[TWO, "nvidia"] = ["NVRM: GPU {address}: RmInitAdapter failed!"]
    with pytest.raises(StepFailed, match=f"moved back: {THREE}, {ONE}; could not be moved back: {TWO}"):
        await rebind.rebind(host, step(ONE, TWO, THREE), FENCE, "do:1:rebind")
    assert drivers(machine, ONE, TWO, THREE) == ["nvidia", None, "nvidia"]


@in_virtual_time
async def test_a_stuck_unbind_is_left_behind_and_its_device_quarantined() -> None:
    machine, host = await prepared()
    machine.pci.stuck_unbind.add(TWO)
    async with asyncio.timeout(120):
        with pytest.raises(StepFailed, match=rf"unbind of {TWO} from nvidia on h is stuck.*moved back: {ONE}"):
            await rebind.rebind(host, step(ONE, TWO), FENCE, "do:1:rebind")
    assert drivers(machine, ONE, TWO) == ["nvidia", "nvidia"]
    assert b"was stuck in rollout r1" in machine.files.read(quarantine(TWO))
    machine.pci.stuck_unbind.clear()
    await asyncio.sleep(5)
    assert await units(host) == ""  # the unit was waited for no longer, and ended by itself
    await machine.aclose()


@in_virtual_time
async def test_what_the_kernel_says_of_a_stuck_unbind_is_read_past_journald(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line names the device, and journald waits for that with it (seen on Linux 6.1)."""

    async def nobody(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(rebind, "holders_of", nobody)  # the holder comes after the look for holders
    machine, host = await prepared()
    moved_to(machine, "vfio-pci", TWO)
    guest = machine.add_stranger("qemu-system-x86_64", devices=["/dev/vfio/13"])
    says = f"vfio-pci {TWO}: No device request channel registered, blocked until released by user"
    with pytest.raises(StepFailed, match=rf"{TWO} .*{says}"):
        await rebind.rebind(host, step(TWO, before="vfio-pci", after="nvidia"), FENCE, "do:1:rebind")
    assert says.encode() in machine.files.read(quarantine(TWO))
    assert not [record for record in machine.journal.records if "blocked" in record.text("MESSAGE")]
    machine.signal(guest, 9)
    await asyncio.sleep(5)
    assert [record for record in machine.journal.records if record.text("MESSAGE") == says]
    await machine.aclose()


@in_virtual_time
async def test_a_groups_other_function_goes_along_and_its_bridge_stays() -> None:
    machine, host = await prepared()
    unit = ObservedUnit(name="u", load_state="loaded", active_state="active")
    seen = Observation(unit=unit, files=(), gpus=await observe_gpus(host, [ONE]))
    assert list(group_refusals(seen.gpus[0], [ONE], "h")) == []
    assert [(m.address, m.driver) for m in seen.gpus[0].companions()] == [(SOUND, "snd_hda_intel")]
    there = RebindGpus(host="h", moves=driver_moves(wanted("vfio-pci"), seen))
    await rebind.rebind(host, there, FENCE, "do:1:rebind")
    assert drivers(machine, ONE, SOUND, "0000:00:01.1") == ["vfio-pci", "vfio-pci", "pcieport"]
    seen = Observation(unit=unit, files=(), gpus=await observe_gpus(host, [ONE]))
    back = RebindGpus(host="h", moves=driver_moves(wanted("nvidia"), seen))
    assert [(m.address, m.after) for m in back.moves] == [(ONE, "nvidia"), (SOUND, NATIVE)]
    await rebind.rebind(host, back, FENCE, "do:2:rebind")
    assert drivers(machine, ONE, SOUND) == ["nvidia", "snd_hda_intel"]
    await rebind.rebind(host, back.inverse(), FENCE, "undo:2:rebind")
    assert drivers(machine, ONE, SOUND) == ["vfio-pci", "vfio-pci"]


@in_virtual_time
async def test_another_device_of_the_group_refuses_by_name() -> None:
    functions = [gpu(ONE, 12), bridge("0000:00:01.1", 12), audio("0000:02:00.0", 12)]
    host = SimulatedHost(PracticeMachine(functions=functions), "h", "interlock")
    (seen,) = await observe_gpus(host, [ONE])
    assert list(group_refusals(seen, [ONE], "h")) == [
        f"gpus: IOMMU group 12 of {ONE} also holds 0000:02:00.0 (class 0x040300, snd_hda_intel), which h would lose"
    ]


def wanted(driver: str) -> Revision:
    """A revision, of which only the map counts here."""
    return Revision(
        service="s", unit="u", unit_host="h", files=(), argv=("a",), user="root", engine="sglang",
        endpoint="http://127.0.0.1:1", drivers={ONE: driver}, gpu_host="h",
    )  # fmt: skip
