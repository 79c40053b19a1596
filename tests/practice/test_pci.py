"""GPUs between drivers: sysfs as the kernel shows it, and what a bind, an unbind and a probe do."""

import asyncio

import pytest

from state.boot_rules import path_of, rules
from tasks.argv import WRITE_VALUE, holders
from tasks.hosts.port import Completed
from tasks.practice.host import PracticeMachine
from tasks.practice.pci import audio, bridge, gpu
from tasks.properties import cursor_of
from tests.practice.kernel_refusals import REFUSALS
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

ONE, TWO, SOUND = "0000:01:00.0", "0000:11:00.0", "0000:01:00.1"
DRIVERS = "/sys/bus/pci/drivers"
UNIT = "[Service]\nExecStart=/opt/app/run -m sglang.launch_server --tp-size 2\nKillMode=process\n"


def session() -> Session:
    functions = [gpu(ONE, 12), audio(SOUND, 12), gpu(TWO, 13), bridge("0000:00:01.1", 11)]
    ranks = [["sglang::scheduler_TP0"], ["sglang::scheduler_TP1"]]
    return Session(PracticeMachine(factory=acting(keeps=ranks), functions=functions))


async def write(run: Session, path: str, value: str) -> Completed:
    return await run("sh", "-c", WRITE_VALUE, "sh", path, value)


async def driver(run: Session, address: str) -> str:
    return (await run("readlink", "--", f"/sys/bus/pci/devices/{address}/driver")).text.strip().rpartition("/")[2]


async def move(run: Session, address: str, before: str, after: str) -> None:
    assert (await write(run, f"/sys/bus/pci/devices/{address}/driver_override", f"{after}\n")).status == 0
    assert (await write(run, f"{DRIVERS}/{before}/unbind", address)).status == 0
    assert (await write(run, "/sys/bus/pci/drivers_probe", address)).status == 0


@pytest.mark.parametrize(
    ("words", "out"),
    [
        pytest.param(("cat", "--", f"/sys/bus/pci/devices/{ONE}/class"), "0x030200\n", id="class"),
        pytest.param(("cat", "--", f"/sys/bus/pci/devices/{SOUND}/class"), "0x040300\n", id="class-of-audio"),
        pytest.param(("cat", "--", f"/sys/bus/pci/devices/{ONE}/driver_override"), "(null)\n", id="no-override"),
        pytest.param(
            ("readlink", "--", f"/sys/bus/pci/devices/{ONE}/driver"), "../../../bus/pci/drivers/nvidia\n", id="driver"
        ),
        pytest.param(
            ("readlink", "-f", "--", f"/sys/bus/pci/devices/{ONE}/iommu_group"),
            "/sys/kernel/iommu_groups/12\n",
            id="group",
        ),
        pytest.param(("cat", "--", "/sys/kernel/iommu_groups/12/type"), "DMA-FQ\n", id="domain-type"),
        pytest.param(("ls", "--", "/sys/kernel/iommu_groups/12/devices"), f"{ONE}\n{SOUND}\n", id="members"),
        pytest.param(("ls", "--", "/sys/bus/pci/devices"), f"0000:00:01.1\n{ONE}\n{SOUND}\n{TWO}\n", id="devices"),
    ],
)
@in_virtual_time
async def test_sysfs_reads(words: tuple[str, ...], out: str) -> None:
    done = await session()(*words)
    assert (done.status, done.text) == (0, out)


@in_virtual_time
async def test_a_function_moves_by_override_unbind_and_probe_and_back() -> None:
    run = session()
    await move(run, ONE, "nvidia", "vfio-pci")
    assert await driver(run, ONE) == "vfio-pci"
    assert (await run("ls", "--", "/dev/vfio")).text == "12\nvfio\n"
    smi = await run("nvidia-smi", "--query-gpu=pci.bus_id,uuid,memory.used", "--format=csv,noheader,nounits")
    assert smi.text == f"00000000:11:00.0, {run.machine.pci.functions[TWO].uuid}, 4\n"
    await move(run, ONE, "vfio-pci", "nvidia")
    assert await driver(run, ONE) == "nvidia"


@pytest.mark.parametrize(("path", "value", "reason"), REFUSALS)
@in_virtual_time
async def test_the_kernel_refuses_and_says_why(path: str, value: str, reason: str) -> None:
    refused = await write(session(), path.format(group=13), value.format(bound=TWO))
    assert (refused.status, refused.stderr.decode()) == (1, f"printf: write error: {reason}\n")


@in_virtual_time
async def test_an_attribute_that_is_not_there_cannot_be_created() -> None:
    refused = await write(session(), "/sys/bus/pci/devices/0000:ff:00.0/driver_override", "vfio-pci")
    assert (refused.status, refused.stderr.decode()) == (
        2,
        "sh: 1: cannot create /sys/bus/pci/devices/0000:ff:00.0/driver_override: Directory nonexistent\n",
    )


@in_virtual_time
async def test_sysfs_is_roots_alone_to_write() -> None:
    run = session()
    run.user = "interlock"
    refused = await write(run, f"{DRIVERS}/nvidia/unbind", ONE)
    assert refused.stderr.decode() == f"sh: 1: cannot create {DRIVERS}/nvidia/unbind: Permission denied\n"
    assert await driver(run, ONE) == "nvidia"


@in_virtual_time
async def test_an_unbind_of_a_held_device_cannot_be_killed_but_left_behind() -> None:
    """Linux 6.1: `timeout` waits for the writer, which waits for the holder. A unit of its own goes on alone."""
    run = session()
    pid = run.machine.add_stranger("nvidia-persistenced", devices=["/dev/nvidia0"])
    unbind = ("sh", "-c", WRITE_VALUE, "sh", f"{DRIVERS}/nvidia/unbind", ONE)
    waiting = asyncio.create_task(run("timeout", "20", *unbind))
    unit = ("systemd-run", "--quiet", "--collect", "--unit=unbind", "--property=Type=oneshot", "--", *unbind)
    left = await run("timeout", "20", *unit)
    assert (left.status, waiting.done()) == (124, False)
    assert await driver(run, ONE) == ""  # the link goes first
    again = await run("timeout", "20", *unit)
    assert b"already loaded" in again.stderr
    await run("kill", "-KILL", str(pid))
    assert (await waiting).status == 124
    await asyncio.sleep(2)
    assert run.machine.pci.functions[ONE].driver is None  # the kernel goes on with a write that nobody waits for
    assert (await run.shown("unbind.service", "ActiveState"))["ActiveState"] == "inactive"


@in_virtual_time
async def test_a_gpu_that_fell_off_the_bus_is_told_by_xid_79_and_shown_no_more() -> None:
    run = session()
    run.machine.pci.lose(ONE)
    assert f"NVRM: GPU {ONE}: GPU has fallen off the bus." in (await run("journalctl", "-k", "-o", "cat")).text
    smi = await run("nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader,nounits")
    assert smi.text == "00000000:11:00.0\n"
    await run.machine.reboot()
    smi = await run("nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader,nounits")
    assert smi.text == "00000000:01:00.0\n00000000:11:00.0\n"


@in_virtual_time
async def test_a_failed_probe_is_told_by_the_kernel_log_alone() -> None:
    run = session()
    run.machine.pci.refuse_probe[ONE, "nvidia"] = ["NVRM: GPU {address}: RmInitAdapter failed! (0x62:0x65:2018)"]
    await move(run, ONE, "nvidia", "vfio-pci")
    run.machine.kernel("vfio-pci: a line before")
    cursor = cursor_of((await run("journalctl", "--no-pager", "--lines=0", "--show-cursor")).text)
    await move(run, ONE, "vfio-pci", "nvidia")
    assert await driver(run, ONE) == ""
    log = await run("journalctl", "--dmesg", "--output=cat", "--no-pager", f"--after-cursor={cursor}")
    assert log.text == f"NVRM: GPU {ONE}: RmInitAdapter failed! (0x62:0x65:2018)\n"


@in_virtual_time
async def test_firmware_that_needs_translation_does_not_boot_behind_identity() -> None:
    run = session()
    await write(run, f"{DRIVERS}/nvidia/unbind", ONE)
    await write(run, f"{DRIVERS}/snd_hda_intel/unbind", SOUND)
    assert (await write(run, "/sys/kernel/iommu_groups/12/type", "identity\n")).status == 0
    await write(run, "/sys/bus/pci/drivers_probe", ONE)
    assert await driver(run, ONE) == ""
    log = (await run("journalctl", "-k", "-o", "cat")).text
    assert "Error code: 0x177" in log
    assert f"nvidia: probe of {ONE} failed with error -1" in log


@in_virtual_time
async def test_ranks_hold_their_gpus_also_after_the_main_process_went() -> None:
    run = session()
    run.install("e.service", UNIT)
    await run("systemctl", "start", "e.service")
    apps = ("nvidia-smi", "--query-compute-apps=pid,used_memory,gpu_bus_id", "--format=csv,noheader,nounits")
    held = "14364, 86141, 00000000:01:00.0\n14365, 86141, 00000000:11:00.0\n"
    assert (await run(*apps)).text == held
    await run("systemctl", "stop", "e.service")
    assert (await run(*apps)).text == held
    assert (await run(*holders(["/dev/nvidia*", "/dev/vfio/*"]).words)).text.splitlines() == [
        "/proc/14364/fd/3 /dev/nvidiactl",
        "/proc/14364/fd/4 /dev/nvidia-uvm",
        "/proc/14364/fd/5 /dev/nvidia0",
        "/proc/14365/fd/3 /dev/nvidiactl",
        "/proc/14365/fd/4 /dev/nvidia-uvm",
        "/proc/14365/fd/5 /dev/nvidia1",
    ]
    await run("kill", "-KILL", "14364", "14365")
    assert (await run(*apps)).text == ""


@in_virtual_time
async def test_a_boot_brings_every_function_back_to_its_own_driver() -> None:
    run = session()
    await move(run, ONE, "nvidia", "vfio-pci")
    await run.machine.reboot()
    assert await driver(run, ONE) == "nvidia"
    assert (await run("cat", f"/sys/bus/pci/devices/{ONE}/driver_override")).text == "(null)\n"


@in_virtual_time
async def test_a_boot_reads_the_rules_that_keep_functions_for_a_guest() -> None:
    run = session()
    run.machine.files.write(path_of("qwen"), rules("qwen", [ONE, SOUND]) or "")
    await run.machine.reboot()
    assert [await driver(run, address) for address in (ONE, SOUND, TWO)] == ["vfio-pci", "vfio-pci", "nvidia"]
    assert (await run("cat", f"/sys/bus/pci/devices/{ONE}/driver_override")).text == "vfio-pci\n"
    run.machine.files.remove(path_of("qwen"))
    await run.machine.reboot()
    assert [await driver(run, address) for address in (ONE, SOUND, TWO)] == ["nvidia", "snd_hda_intel", "nvidia"]


@in_virtual_time
async def test_a_container_shares_its_hypervisors_gpus_and_holds_them() -> None:
    hypervisor = PracticeMachine("pve", functions=[gpu(ONE, 12), gpu(TWO, 13)])
    container = PracticeMachine("llm", factory=acting(keeps=[["sglang::scheduler_TP0"]]), inside=hypervisor)
    inner, outer = Session(container), Session(hypervisor)
    inner.install("e.service", "[Service]\nExecStart=/opt/app/run -m sglang.launch_server --tp-size 1\n")
    await inner("systemctl", "start", "e.service")
    assert hypervisor.holders(ONE) == [14364]
    assert (await outer("cat", "/proc/14364/cmdline")).text == "sglang::scheduler_TP0\0"
    blocked = asyncio.create_task(write(outer, f"{DRIVERS}/nvidia/unbind", ONE))
    await asyncio.sleep(60)
    assert not blocked.done()
    await inner("systemctl", "kill", "--signal=SIGKILL", "e.service")
    assert (await blocked).status == 0
    smi = await inner("nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader")
    assert smi.text == "00000000:11:00.0\n"
