"""A start that dies: how long after the engine's fatal line it is noticed, and what is done then.

    python -m benchmarks dead-start [--runs 3]

The engine fails while it captures its graphs. The others get the limit that they need: ten seconds of waiting.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.contenders import COMMAND_LINE, CONTENDERS, bare, fact
from benchmarks.record import Row, sample
from benchmarks.repeated import repeated
from benchmarks.stage import Bench, ContenderFailed, bench, call
from flows.wiring import wired
from state.events import ActionFailed, ActionStarted, decode
from tasks.practice.scene import UNIT, UNIT_FILE

FATAL = "Scheduler hit an exception"
LIMIT_S = 10.0
TOOLS = ("asyncssh script", "pyinfra", "Ansible")


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds from the fatal line to noticing it, and from that to the first action of the way back; whether the old
    unit was in place at the end."""

    tool: str
    noticed: float
    begun_back: float | None
    restored: bool


async def fatal_at(made: Bench) -> float:
    """When the newest fatal line was written (seconds since the epoch). Raises ValueError where there is none."""
    shown = await made.stage.run("journalctl", "--output=json", "--all", f"--unit={UNIT}", "--no-pager")
    records = [json.loads(line) for line in shown.splitlines()]
    times = [int(r["__REALTIME_TIMESTAMP"]) / 1e6 for r in records if FATAL in str(r.get("MESSAGE"))]
    if not times:
        raise ValueError(f"the engine did not say {FATAL!r}")
    return times[-1]


async def interlock(made: Bench, fraction: float) -> Run:
    before = made.stage.path(UNIT_FILE).read_text()
    argv = (*COMMAND_LINE, "apply", str(made.manifest(fraction)), "--json", "--bare")
    _, said = await call(argv, made.environment(), made.folder)
    async with wired(made.stage.settings) as (ports, _):
        history = await ports.events.read(f"rollout-{json.loads(said[said.index('{') :])['rollout']}")
    seen = [(decode(one), one.recorded_at.timestamp()) for one in history]
    failed = next(at for e, at in seen if isinstance(e, ActionFailed) and e.action == "await-readiness:new")
    back = next(at for e, at in seen if isinstance(e, ActionStarted) and at >= failed)
    return Run("interlock, bare", failed - await fatal_at(made), back - failed, _unit(made) == before)


async def peer(made: Bench, tool: str, fraction: float) -> Run:
    before = _unit(made)
    try:
        async with asyncio.timeout(LIMIT_S + 30):
            await CONTENDERS[tool](made, fraction)
    except (ContenderFailed, TimeoutError):
        noticed = time.time()
    else:
        raise ContenderFailed(f"{tool} did not notice that the engine is dead")
    return Run(tool, noticed - await fatal_at(made), None, _unit(made) == before)


def _unit(made: Bench) -> str:
    return made.stage.path(UNIT_FILE).read_text()


async def measure(runs: int) -> list[Run]:
    found = list[Run]()
    peers.install("pyinfra", "ansible")
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder)) as made:
            made.limit_s = LIMIT_S
            for _ in range(runs):
                for tool in ("interlock, bare", *TOOLS):
                    made.stage.script_faults()
                    made.start_takes(2.0)
                    await bare(made, made.next_fraction())
                    dying = made.next_fraction()
                    made.stage.script_faults({"fault": "graph-capture-failed", "when": {"mem_fraction_static": dying}})
                    found.append(await (interlock(made, dying) if tool not in TOOLS else peer(made, tool, dying)))
                    print(found[-1], fact(dying), file=sys.stderr)
    return found


def rows(found: Sequence[Run]) -> list[Row]:
    by_tool = {tool: [run for run in found if run.tool == tool] for tool in dict.fromkeys(r.tool for r in found)}
    ours = by_tool.pop("interlock, bare")
    noticed = sample([run.noticed for run in ours])
    back = sample([run.begun_back for run in ours if run.begun_back is not None])
    return [
        Row(
            "a dead start noticed after its fatal line; way back begun after that",
            "≤ 2 s; ≤ 1 s",
            f"{noticed.text()}; {back.text(digits=3)}; {_restored(ours)}",
            peers={
                tool: f"{sample([r.noticed for r in runs]).text()}, {_restored(runs)}" for tool, runs in by_tool.items()
            },
            met=noticed.median <= 2 and back.median <= 1 and all(run.restored for run in ours),
            note=f"the others wait for a generation with a limit of {LIMIT_S:g} s, most of their time: nothing "
            "in their playbook reads the log of a start, nor puts anything back; somebody would have to write that.",
        )
    ]


def _restored(runs: Sequence[Run]) -> str:
    return f"the old unit back in {sum(run.restored for run in runs)} of {len(runs)}"


def main(words: Sequence[str]) -> list[Row]:
    return repeated("dead-start", words, 3, measure, rows)
