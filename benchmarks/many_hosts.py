"""Many hosts at once from one process: whether memory and time grow in proportion.

    python -m benchmarks many-hosts [--hosts 25 50 100 200]

The hosts are simulated ones behind real SSH servers, in a process of their own; it shares the machine's processors, so
the times are those of both. Each gets a whole rollout.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import asyncssh

from benchmarks import record
from benchmarks.options import count, is_trial
from benchmarks.record import Row
from benchmarks.served import taken
from benchmarks.stage import ROOT, own_environment

BENT = 1.25
"""How many times the cost of one more host may grow from the smallest number to the largest, to be called linear."""


@dataclass(frozen=True, slots=True)
class Run:
    """Of so many rollouts at once, all promoted: seconds, processor seconds of the orchestrator, MB that it took beside
    what it had, and processor seconds of the simulated hosts."""

    hosts: int
    seconds: float
    cpu: float
    mb: float
    hosts_cpu: float


@dataclass(frozen=True, slots=True)
class Farm:
    """Simulated hosts in the process `pid`; a manifest for each."""

    pid: int
    manifests: list[str]


@contextmanager
def farm(count: int, public_key: str, environment: Mapping[str, str]) -> Iterator[Farm]:
    """So many simulated hosts in a process of their own, which let the key in."""
    words = (sys.executable, "-m", "benchmarks.farm", str(count), public_key)
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, env=dict(environment), cwd=ROOT)
    assert process.stdin is not None  # asked for with PIPE
    assert process.stdout is not None
    try:
        yield Farm(process.pid, json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait(60)


def once(count: int, folder: Path) -> Run:
    """Raises SystemExit where a rollout ended otherwise than promoted."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = folder / f"key-{count}"
    key.write_private_key(str(path))
    path.chmod(0o600)
    public = key.export_public_key().decode().strip()
    environment = {**own_environment(), "PYTHONPATH": str(ROOT), "INTERLOCK_DATA_DIR": str(folder / f"data-{count}")}
    environment |= {"INTERLOCK_SSH_KEY": str(path), "INTERLOCK_SSH_CONFIG": "", "INTERLOCK_DATABASE_URL": ""}
    with farm(count, public, environment) as hosts:
        manifests = folder / f"manifests-{count}.json"
        manifests.write_text(json.dumps(hosts.manifests), encoding="utf-8")
        words = (sys.executable, "-m", "benchmarks.drive_many", str(manifests))
        before = taken(hosts.pid)
        told = json.loads(subprocess.run(words, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        hosts_cpu = taken(hosts.pid).cpu_s - before.cpu_s
    if told["outcomes"] != {"promoted": count}:
        raise SystemExit(f"of {count} rollouts not all were promoted: {told['outcomes']}")
    return Run(count, told["seconds"], told["cpu"], told["peak_mb"] - told["before_mb"], hosts_cpu)


def correlation(runs: Sequence[Run], figure: str) -> float:
    """Pearson's r of the figure with the number of hosts."""
    return statistics.correlation([run.hosts for run in runs], [float(getattr(run, figure)) for run in runs])


def rows(runs: Sequence[Run]) -> list[Row]:
    largest = runs[-1]
    fits = {figure: correlation(runs, figure) for figure in ("seconds", "cpu", "mb")}
    per_host = {figure: float(getattr(largest, figure)) / largest.hosts for figure in ("seconds", "cpu", "mb")}
    grown = [per_host[f] / (float(getattr(runs[0], f)) / runs[0].hosts) for f in ("seconds", "cpu", "mb")]
    each = "; ".join(
        f"{r.hosts}: {r.seconds:.1f} s, {r.cpu:.1f} s of a processor, {r.mb:.0f} MB, the hosts' own {r.hosts_cpu:.1f} s"
        for r in runs
    )
    return [
        Row(
            "hosts driven at once from one process",
            "200, memory and time linear",
            f"{largest.hosts} in {largest.seconds:.1f} s: {1000 * per_host['cpu']:.0f} ms of a processor and "
            f"{per_host['mb']:.2f} MB each; r = {fits['seconds']:.3f} (time), {fits['mb']:.3f} (memory)",
            met=largest.hosts >= 200 and max(grown) <= BENT,
            note=f"{each}. The simulated hosts run on the same {os.cpu_count()} processors.",
        )
    ]


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="many-hosts")
    parser.add_argument("--hosts", type=count, nargs="+", default=[25, 50, 100, 200])
    asked = parser.parse_args(words)
    if len(set(asked.hosts)) < 3:
        parser.error("argument --hosts: whether something is linear takes three numbers or more")
    on = record.machine()
    runs = list[Run]()
    with tempfile.TemporaryDirectory() as folder:
        for number in sorted(set(asked.hosts)):
            runs.append(once(number, Path(folder)))
            print(runs[-1], file=sys.stderr)
    made = rows(runs)
    kept = {"runs": [asdict(run) for run in runs]}
    record.write("many-hosts", on, made, kept, rounds=1, trial=is_trial(parser, asked))
    return made
