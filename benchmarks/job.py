"""The same job by everyone: install a changed unit, restart, wait until it generates, verify one fact of the log.

    python -m benchmarks job [--runs 5] [--seed 1] [--without NAME]

One container host; the tools take turns, each round in another order, and in one round all have the same start time of
the engine, drawn between 3 and 4 s. An outside prober asks every 10 ms; see `prober.py`.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import peers, plain_ssh, record
from benchmarks.contenders import CONTENDERS, Done
from benchmarks.options import count, is_trial, needs
from benchmarks.record import Row, Sample, sample
from benchmarks.served import serving
from benchmarks.stage import Bench, bench, outage, probing
from state.store.migrate import upgrade

FLOOR, SERVED = "floor", "interlock, under serve"
ABOVE, SHARE = 0.15, 1.05
"""Seconds above, and share of the floor, that the downtime may have."""


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds. `downtime` is from the last good answer to the first that came once the tool had verified its fact,
    `dark` to the first good answer, `noticed` from that to the tool's knowing of it; `judged` is from the last good
    answer to a verdict on everything that the tool judges."""

    tool: str
    start: float
    total: float
    dark: float
    downtime: float
    noticed: float | None = None
    judged: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


async def once(made: Bench, tool: str, start: float) -> Run:
    """One run of one tool. Raises ContenderFailed."""
    made.start_takes(start)
    fraction = made.next_fraction()
    if tool == FLOOR:
        async with plain_ssh.connected(made) as connection:
            with probing(made) as probes:
                begun = time.time()
                done = Done(await plain_ssh.floor(connection))
                ended = time.time()
                await asyncio.sleep(0.1)
    else:
        with probing(made) as probes:
            begun = time.time()
            done = await CONTENDERS[tool](made, fraction)
            ended = time.time()
            await asyncio.sleep(0.1)
    seen = outage(probes)
    return Run(
        tool,
        start,
        total=ended - begun,
        dark=seen.first_good - seen.last_good,
        downtime=max(done.verified, seen.first_good) - seen.last_good,
        noticed=done.ready - seen.first_good if done.ready else None,
        judged=done.judged - seen.last_good if done.judged else None,
        phases=done.phases,
    )


async def measure(runs: int, seed: int, tools: Sequence[str]) -> list[Run]:
    chance, found = random.Random(seed), list[Run]()
    needs("nsenter")
    peers.install("pyinfra", "ansible")
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder)) as made, server_for(made, tools):
            for tool in tools:  # once for nothing: modules are compiled, caches filled
                await once(made, tool, 3.0)
            for index in range(runs):
                start = 3.0 + (index + chance.random()) / runs
                for tool in chance.sample([FLOOR, *tools], k=len(tools) + 1):
                    found.append(await once(made, tool, start))
                    print(_told(found[-1]), file=sys.stderr)
    return found


@asynccontextmanager
async def server_for(made: Bench, tools: Sequence[str]) -> AsyncIterator[None]:
    """An `interlock serve` that is up before the first run, if one of the tools hands over to it."""
    if SERVED not in tools:
        yield
        return
    made.served.mkdir()
    await upgrade(f"sqlite:///{made.served / 'interlock.db'}")
    async with serving(made.served, made.environment(made.served)):
        yield


def _told(run: Run) -> str:
    split = ", ".join(f"{name} {seconds:.2f}" for name, seconds in run.phases.items())
    return f"{run.tool}: total {run.total:.2f} s, dark {run.dark:.2f} s, to verified {run.downtime:.2f} s  {split}"


def rows(found: Sequence[Run]) -> list[Row]:
    by_tool = {tool: [run for run in found if run.tool == tool] for tool in dict.fromkeys(run.tool for run in found)}
    floor = {run.start: run.downtime for run in by_tool[FLOOR]}
    downtime = {tool: sample([run.downtime for run in runs]) for tool, runs in by_tool.items()}
    above = {tool: sample([run.downtime - SHARE * floor[run.start] for run in runs]) for tool, runs in by_tool.items()}
    total = {tool: sample([run.total for run in runs]) for tool, runs in by_tool.items()}
    ours = next(tool for tool in CONTENDERS if tool in by_tool)
    noticed = sample([run.noticed for run in by_tool[ours] if run.noticed is not None])
    judged = sample([run.judged for run in by_tool[ours] if run.judged is not None])
    return [
        Row(
            "downtime: last good answer → first verified one, engine start 3–4 s",
            "≤ 1.05 × floor + 150 ms",
            f"{ours}: {_against(ours, downtime)}",
            downtime[FLOOR].text(),
            {tool: _against(tool, downtime) for tool in by_tool if tool not in (ours, FLOOR)},
            above[ours].median <= ABOVE,
            "all find the same fact in the log. Interlock's verdict on all its claims, with questions answered and "
            f"long texts generated, comes {judged.text()} after the last good answer. Its dark time: "
            f"{_split(by_tool[ours])}. Verified is the first generation of this start with the argument found in "
            "its log; the end of the engine's warm-up is waited for after that, before traffic.",
        ),
        Row(
            "the same job, in total",
            "shorter than Ansible and pyinfra",
            f"{ours}: {total[ours].text()}",
            total[FLOOR].text(),
            {tool: total[tool].text() for tool in by_tool if tool not in (ours, FLOOR)},
            _shorter(ours, total, downtime),
            "interlock's total holds what the others do not do: a plan, a preflight that has the engine read its "
            "arguments, a baseline with answers to compare, a timer on the host, traffic, and a verdict on all claims.",
        ),
        Row(
            "readiness noticed after the first good answer",
            "≤ 100 ms",
            Sample(tuple(1000 * v for v in noticed.values)).text("ms", 0),
            met=noticed.median <= 0.1,
        ),
    ]


def _against(tool: str, downtime: Mapping[str, Sample]) -> str:
    return f"{downtime[tool].text()}, {downtime[tool].median / downtime[FLOOR].median:.2f} × floor"


def _shorter(ours: str, *figures: Mapping[str, Sample]) -> bool | None:
    """None where one of the two was left out: nothing is known then."""
    if any(tool not in of for of in figures for tool in ("pyinfra", "Ansible")):
        return None
    return all(of[ours].median < of[tool].median for of in figures for tool in ("pyinfra", "Ansible"))


def _split(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(name for run in runs for name in run.phases))
    return ", ".join(f"{name} {sample([r.phases.get(name, 0.0) for r in runs]).median:.2f} s" for name in names)


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="job")
    parser.add_argument("--runs", type=count, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=list(CONTENDERS),
        metavar="TOOL",
        help=f"leave one out, may be repeated: {'; '.join(CONTENDERS)}",
    )
    asked = parser.parse_args(words)
    on = record.machine()
    tools = [tool for tool in CONTENDERS if tool not in asked.without]
    found = asyncio.run(measure(asked.runs, asked.seed, tools))
    made = rows(found)
    kept = {"runs": [asdict(run) for run in found]}
    record.write("job", on, made, kept, rounds=asked.runs, trial=is_trial(parser, asked))
    return made
