"""How soon the command line does something: its own start, and from `apply` to the first look at the host.

    python -m benchmarks first-look [--runs 5]

The first look is the first command that the host's sshd starts a session for, by the host's own log.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import record
from benchmarks.contenders import COMMAND_LINE, bare
from benchmarks.options import count, is_trial
from benchmarks.record import Row, Sample, sample
from benchmarks.stage import ROOT, Bench, ContenderFailed, bench, call, own_environment

LOG = b"""[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/models/m', tp_size=1, mem_fraction_static=0.8)
[2026-01-01 00:00:09] The server is fired up and ready to roll!
"""


async def looked_at(made: Bench, begun: float) -> float:
    """Seconds from `begun` to the first command on the host after it. Raises ContenderFailed without one."""
    shown = await made.stage.run("journalctl", "--output=json", "_COMM=sshd", f"--since=@{begun - 1:.3f}")
    records = [json.loads(line) for line in shown.splitlines()]
    times = [int(r["__REALTIME_TIMESTAMP"]) / 1e6 for r in records if "Starting session" in str(r.get("MESSAGE"))]
    after = [at for at in times if at >= begun]
    if not after:
        raise ContenderFailed("nobody looked at the host")
    return min(after) - begun


async def first_looks(runs: int) -> Sample:
    """Of an `apply` with Prefect coming up beside it, which finds nothing to do."""
    found = list[float]()
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder)) as made:
            fraction = made.next_fraction()
            await bare(made, fraction)
            argv = (*COMMAND_LINE, "apply", str(made.manifest(fraction)), "--json")
            for _ in range(runs + 1):
                begun = time.time()
                status, said = await call(argv, made.environment(), made.folder)
                if status != 0:
                    raise ContenderFailed(said[-2000:])
                found.append(await looked_at(made, begun))
                print(f"first look after {found[-1]:.2f} s", file=sys.stderr)
    return sample(found[1:])  # the first one compiles modules


def starts(words: Sequence[str], runs: int) -> Sample:
    """Seconds of whole processes of the command line."""
    found = list[float]()
    for _ in range(runs + 1):
        begun = time.perf_counter()
        subprocess.run(
            (*COMMAND_LINE, *words), check=True, capture_output=True, env={**own_environment(), "PYTHONPATH": str(ROOT)}
        )
        found.append(time.perf_counter() - begun)
    return sample(found[1:])


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="first-look")
    parser.add_argument("--runs", type=count, default=5)
    asked = parser.parse_args(words)
    on = record.machine()
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        log.write(LOG)
        log.flush()
        told = {"--help": starts(["--help"], asked.runs), "inspect": starts(["inspect", log.name], asked.runs)}
    looks = asyncio.run(first_looks(asked.runs))
    made = [
        Row(
            "`apply` typed → first look at the host, no `serve` running",
            "≤ 1.5 s",
            looks.text(),
            met=looks.median <= 1.5,
        ),
        *(
            Row(f"`interlock {name}`, the whole process", "< 0.3 s", found.text(), met=found.median < 0.3)
            for name, found in told.items()
        ),
    ]
    kept = {"looks": looks.values, **{name: s.values for name, s in told.items()}}
    record.write("first-look", on, made, kept, rounds=asked.runs, trial=is_trial(parser, asked))
    return made
