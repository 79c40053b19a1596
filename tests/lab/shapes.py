"""Units as operators write them, and what every test of them asks."""

import re
from dataclasses import replace
from typing import Any

from state.rollout import Rollout
from tasks.practice.engine.install import QWEN
from tasks.practice.scene import UNIT_FILE
from tests.flows.test_rollout_endings import fault
from tests.lab.orchestrated import Orchestrated

FOLDER = "/etc/systemd/system"
PYTHON = "/opt/sglang/bin/python"
IGNORED = fault("flag-ignored")


def command(port: int | str, program: str = PYTHON) -> str:
    """The hand-written service's command line, in systemd's words."""
    words = f"--model-path {QWEN.path} --host 127.0.0.1 --port {port} --tp-size 4 --mem-fraction-static 0.85"
    return f"{program} -m sglang.launch_server {words}"


def unit_text(command: str, *more: str) -> str:
    lines = ("Environment=NCCL_P2P_DISABLE=1", f"ExecStart={command}", "TimeoutStopSec=20", *more)
    return "[Unit]\nDescription=SGLang\n\n[Service]\n" + "".join(f"{line}\n" for line in lines)


def plain(made: Orchestrated, *more: str) -> dict[str, str]:
    return {UNIT_FILE: unit_text(command(made.port), "User=sglang", *more)}


def end(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


async def stops(made: Orchestrated) -> int:
    """How often systemd has stopped the service."""
    return (await made.journal(f"--unit={made.unit}")).count(f"Stopping {made.unit}")


async def refused(made: Orchestrated, sentence: str, **changes: Any) -> None:
    """Such a rollout is refused with that sentence, and leaves host and service as they are; whether a reload is due is
    systemd's own look at the disk, which it takes when it likes."""
    before, stopped = await made.state(), await stops(made)
    outcome, summary = end(await made.roll_out(**changes))
    assert outcome == "refused", summary
    assert re.search(sentence, summary), summary
    after = replace(await made.state(), reload=before.reload)
    assert (after, await stops(made)) == (before, stopped), summary


async def members(made: Orchestrated) -> list[int]:
    """PIDs in the unit's control group."""
    group = (await made.show("ControlGroup"))["ControlGroup"]
    return [int(pid) for pid in (await made.run("cat", "--", f"/sys/fs/cgroup{group}/cgroup.procs")).split()]
