"""A rollout's own steps on a practice machine, from the mark to the timer's disarming, in virtual time."""

import asyncio
import hashlib

import pytest

from state.errors import FencedOut, HostReverted
from state.steps import (
    ArmTimer,
    DisarmTimer,
    DriverMove,
    FileChange,
    FileState,
    InstallFiles,
    RebindGpus,
    StageFiles,
    StartService,
    StopService,
)
from tasks import activate, rebind, service, stage, timer
from tasks.mark import mark
from tasks.practice.engine.install import engine_files, install_in
from tasks.practice.engine.memory import memory_engine
from tasks.practice.host import PracticeMachine
from tasks.practice.pci import gpu
from tasks.practice.simulated import SimulatedHost
from tasks.sequence import Fence
from tests.practice.session import Session
from tests.practice.virtual_time import in_virtual_time

UNIT, PATH = "sglang-qwen.service", "/etc/systemd/system/sglang-qwen.service"
ENGINE = "/opt/sglang/bin/python -m sglang.launch_server --model-path /shared/models/Qwen3.5-122B-A10B --port 30000"
OLD = f"[Unit]\nDescription=old\n[Service]\nExecStart={ENGINE} --tp-size 4 --mem-fraction-static 0.85\n".encode()
NEW = f"[Unit]\nDescription=new\n[Service]\nExecStart={ENGINE} --tp-size 4 --mem-fraction-static 0.75\n".encode()
ADDRESSES = ("0000:01:00.0", "0000:11:00.0", "0000:61:00.0", "0000:71:00.0", "0000:81:00.0")
FENCE = Fence("r1", 7)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


CHANGE = FileChange(before=FileState(path=PATH, digest=digest(OLD)), after=FileState(path=PATH, digest=digest(NEW)))
MOVE = DriverMove(address=ADDRESSES[4], before="nvidia", after="vfio-pci")
TIMER = {"host": "h", "service": "qwen", "deadline_s": 300.0, "unit": UNIT, "start": True, "files": (CHANGE,)}
STOP, START = StopService(host="h", unit=UNIT, port=30000), StartService(host="h", unit=UNIT, port=30000)
REBIND = RebindGpus(host="h", moves=(MOVE,))


async def prepared() -> tuple[Session, SimulatedHost]:
    """The old engine serves; the lease's mark is on the host, files are staged and the timer is armed."""
    machine = PracticeMachine(factory=memory_engine, functions=[gpu(a, 12 + i) for i, a in enumerate(ADDRESSES)])
    install_in(machine.files, engine_files())
    machine.files.put(PATH, OLD)
    host = SimulatedHost(machine, "h", "interlock")
    await Session(machine)("systemctl", "start", UNIT)
    await asyncio.sleep(120)
    await mark(host, FENCE.number)
    step = StageFiles(host="h", service="qwen", changes=(CHANGE,))
    await stage.stage(host, step, FENCE, {digest(NEW): NEW})
    await timer.arm(host, ArmTimer(**TIMER, moves=(MOVE,)), FENCE)
    return Session(machine), host


async def driver(run: Session, address: str) -> str:
    return (await run("readlink", "--", f"/sys/bus/pci/devices/{address}/driver")).text.strip().rpartition("/")[2]


async def changed(host: SimulatedHost) -> dict[str, object]:
    """Stop, rebind, activate, start."""
    await service.stop(host, STOP, FENCE, "stop")
    await rebind.rebind(host, REBIND, FENCE, "rebind")
    step = InstallFiles(host="h", service="qwen", unit=UNIT, changes=(CHANGE,))
    await activate.install(host, step, FENCE, "install")
    return await service.start(host, START, FENCE, "start", before="")


@in_virtual_time
async def test_a_rollout_goes_through_and_its_timer_is_disarmed() -> None:
    run, host = await prepared()
    facts = await changed(host)
    assert facts["main_pid"] == int((await run.shown(UNIT, "MainPID"))["MainPID"])
    assert (await run("systemctl", "cat", "--", UNIT)).stdout == f"# {PATH}\n".encode() + NEW
    assert await driver(run, ADDRESSES[4]) == "vfio-pci"
    await timer.disarm(host, DisarmTimer(**TIMER, moves=(MOVE,)), FENCE)
    await asyncio.sleep(1000)
    assert (await run.shown(UNIT, "InvocationID"))["InvocationID"] == facts["invocation"]


@in_virtual_time
async def test_without_renewal_the_host_restores_itself_and_refuses_the_old_fence() -> None:
    run, host = await prepared()
    await changed(host)
    await timer.renew(host, "qwen", FENCE)
    await asyncio.sleep(299)
    assert await driver(run, ADDRESSES[4]) == "vfio-pci"
    await asyncio.sleep(200)
    assert (await run("cat", "--", PATH)).stdout == OLD
    assert await driver(run, ADDRESSES[4]) == "nvidia"
    assert (await run.shown(UNIT, "ActiveState", "NeedDaemonReload")) == {
        "ActiveState": "active",
        "NeedDaemonReload": "no",
    }
    with pytest.raises(HostReverted):
        await timer.renew(host, "qwen", FENCE)
    assert await mark(host, 8)
    with pytest.raises(FencedOut):
        await service.stop(host, STOP, FENCE, "stop-again")


@in_virtual_time
async def test_a_step_that_ran_is_joined_and_not_run_again() -> None:
    run, host = await prepared()
    await service.stop(host, STOP, FENCE, "stop")
    stops = run.machine.faults.seen.count(("systemctl", "stop", "--", UNIT))
    await service.stop(host, STOP, FENCE, "stop")
    assert run.machine.faults.seen.count(("systemctl", "stop", "--", UNIT)) == stops == 1
