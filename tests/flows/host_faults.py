"""What befalls a practice host beside a rollout, at the moment that matters."""

import asyncio

from tasks.practice.scene import UNIT
from tests.flows.rehearsal import Rehearsal


async def recorded(stage: Rehearsal, kind: str, action: str) -> None:
    """Wait until the history has such an event of such an action."""
    while True:
        if any(e.type == kind and e.data.get("action") == action for e in await stage.store.read_all()):
            return
        await asyncio.sleep(0.01)


async def stranger_on_the_port(stage: Rehearsal) -> None:
    """Before the rollout begins: the service is down, and somebody else has its port."""
    await stage._run("systemctl", "stop", "--", UNIT)
    stage.scene.serving.add_stranger("python3", "-m", "http.server", ports=[stage.scene.port])


async def stuck_in_the_kernel(stage: Rehearsal) -> None:
    """No signal reaches the old processes any more."""
    stage.scene.serving.faults.unkillable.update(stage.scene.serving.processes())


async def stranger_beside(stage: Rehearsal) -> None:
    """Once the new start generates, another process listens on its port too; it goes before the undo."""
    await recorded(stage, "readiness-reached", "await-readiness:new")
    pid = stage.scene.serving.add_stranger("python3", "-m", "http.server", ports=[stage.scene.port])
    await recorded(stage, "judged", "judge:new:1")
    del stage.scene.serving.strangers[pid]


async def killed_for_memory(stage: Rehearsal) -> None:
    """Once the new start generates, its cgroup counts a process that the kernel took."""
    await recorded(stage, "readiness-reached", "await-readiness:new")
    stage.scene.serving.faults.oom_kills[next(iter(stage.scene.serving.processes()))] = 1


async def wrapper_says_ready(stage: Rehearsal) -> None:
    """While the engine loads, a line that is not the engine's says that it is ready."""
    await recorded(stage, "action-started", "await-readiness:new")
    await asyncio.sleep(1)
    service = stage.scene.serving.systemd.services[UNIT]
    say = stage.scene.serving.journal.printer(UNIT, lambda: service.status.invocation, "start.sh")
    say(stage.scene.serving.new_pid(), b"[start.sh] SGLang server started, ready to serve on port 30000")


async def driver_updated(stage: Rehearsal) -> None:
    """A package brought a new driver, and the kernel still has the old one."""
    stage.scene.serving.modules["nvidia"] = "580.95.05"
    folder = "/usr/lib/x86_64-linux-gnu"
    await stage._run("install", "-d", "--", folder)
    await stage._run("ln", "-s", "--", "libcuda.so.590.48.01", f"{folder}/libcuda.so.1")
