"""The orchestrator killed, or the wire to the host cut, in the middle of a rollout on real systemd."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.ports import Watch
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tasks.hosts.ssh_options import KEEPALIVE_S
from tasks.lab import lab, wire
from tasks.lab.record import LabHost
from tasks.lab.vm_record import VmHost
from tasks.practice.scene import UNIT
from tests.flows.test_rollout_endings import fault
from tests.lab.contained import Stage, prepare, stage

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[2]
TIMER_S = 12
SILENCE_S = 4 * KEEPALIVE_S + 4
"""After this long without an answer a connection has been given up."""


async def python(made: Stage, *words: str, lease_s: float = 300.0) -> tuple[int, str]:
    """Run this Python with the orchestrator's settings; its exit code and standard output."""
    environment = os.environ | made.environment | {"INTERLOCK_LEASE_S": str(lease_s), "INTERLOCK_GENERATION_S": "10"}
    child = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(child.communicate(), 120)
    assert child.returncode is not None
    return child.returncode, out.decode()


@pytest.mark.parametrize(
    "step", [pytest.param("do:2:stop-service", id="stopped"), pytest.param("do:4:start-service", id="started-anew")]
)
async def test_the_host_heals_itself_when_the_orchestrator_is_killed(
    tmp_path: Path, step: str, record_property: Callable[[str, object], None]
) -> None:
    """`kill -9` right after the step: the host's own timer restores everything within its deadline."""
    async with stage(tmp_path) as made:
        before = await made.state()
        path = tmp_path / "manifest.yaml"
        path.write_text(lab.manifest(made.host, policy={"timer": f"{TIMER_S}s"}))
        killed, _ = await python(
            made, "-m", "tests.lab.orchestrator", str(path), "step-succeeded", step, lease_s=TIMER_S
        )
        assert killed == -signal.SIGKILL
        left = await made.state()
        assert left != before
        begun = time.monotonic()
        healed = await made.until(lambda s: (s.files, s.argv, s.active) == (before.files, before.argv, "active"), 60)
        record_property("healed_s", round(time.monotonic() - begun, 1))
        assert (healed.files, healed.argv, healed.active) == (before.files, before.argv, "active")
        assert time.monotonic() - begun < TIMER_S + 10

        code, out = await python(made, "-c", "from deployments.cli import main; main()", "recover", "--json")
        (ended,) = json.loads(out)
        assert (code, ended["outcome"]) == (1, "rolled-back"), out
        assert re.search("own timer", ended["summary"]), out
        assert await made.state() == before


STEPS = [
    "do:0:stage-files",
    "do:1:arm-timer",
    "do:2:stop-service",
    "do:3:install-files",
    "do:4:start-service",
    "await-readiness:new",
    "verify:new:1",
    "conclude:promoted",
]


@dataclass(frozen=True)
class Cut:
    """`after_s` the intent is recorded the wire is cut, and mended once the connection has been given up if need be."""

    cut: Callable[[Any], object]
    after_s: float = 0.0
    lasts_s: float | None = None

    async def go_on(self, host: LabHost | VmHost) -> None:
        if self.after_s:
            await asyncio.sleep(self.after_s)
            self.cut(host)
        if self.lasts_s is not None:
            await asyncio.sleep(self.lasts_s)
            wire.mend(host)


CUTS = [
    pytest.param(Cut(wire.cut, lasts_s=SILENCE_S), id="the-host-hears-nothing-of-it"),
    pytest.param(Cut(wire.cut, after_s=0.4, lasts_s=SILENCE_S), id="midway"),
    pytest.param(Cut(wire.drop_answers, after_s=0.4), id="the-host-does-it-and-its-answer-is-lost"),
]


@pytest.mark.parametrize("cut", CUTS)
async def test_a_step_during_which_the_wire_is_cut_is_not_run_twice(tmp_path: Path, cut: Cut) -> None:
    """Each step on a host of its own, all at once: what is waited for is the silence."""
    folders = {step: tmp_path / step.replace(":", "-") for step in STEPS}
    for folder in folders.values():
        folder.mkdir()
        await prepare(folder)
    async with asyncio.TaskGroup() as hosts:
        for step, folder in folders.items():
            hosts.create_task(survive(folder, step, cut))


async def survive(folder: Path, step: str, cut: Cut) -> None:
    slow = fault("slow-stop-leftover", always=True, seconds=2, leftover_seconds=1)
    done: list[RecordedEvent] = []
    async with stage(folder, slow) as made, asyncio.TaskGroup() as cuts:

        def watch(_: Rollout, event: RecordedEvent) -> None:
            done.append(event)
            if event.type == "action-started" and event.data["action"] == step and attempts(done, step) == 1:
                if not cut.after_s:
                    cut.cut(made.host)
                cuts.create_task(cut.go_on(made.host))

        made.generation_s = 2 * SILENCE_S  # what is silent for a shorter time is the wire
        ended = await made.roll_out(watch=Watch(recorded=watch))
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted", (step, ended.concluded.summary)
        assert {name: count for name, count in (await runs(made)).items() if count != 1} == {}, step
        assert (await made.journal(f"--unit={UNIT}")).count(f"Stopping {UNIT}") == 1, step
        assert (await made.state()).units == (), step
        in_flight = cut.after_s and "stop-service" in step  # the others may be over by then, or nothing of them asked
        assert attempts(done, step) > 1 or not in_flight


def attempts(events: list[RecordedEvent], action: str) -> int:
    return sum(event.type == "action-started" and event.data.get("action") == action for event in events)


async def runs(made: Stage) -> dict[str, int]:
    """Transient service -> how often systemd has started it, as systemd's own records say."""
    return started(await made.run("journalctl", "--no-pager", "--output=json", "_PID=1", "JOB_TYPE=start"))


def started(text: str) -> dict[str, int]:
    """The same of systemd's records about starts, as JSON lines."""
    records: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    steps = [r for r in records if r["UNIT"].startswith("interlock-") and r["UNIT"].endswith(".service")]
    names = [r["UNIT"] for r in steps if r.get("JOB_RESULT") == "done"]
    assert names
    return {name: names.count(name) for name in names}
