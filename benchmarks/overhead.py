"""What orchestration costs: a whole rollout bare and under `interlock serve` with Prefect, and what that server takes.

    python -m benchmarks overhead [--runs 5] [--idle 30]

The overhead is the whole rollout, from its request to its lease's return, without the restart itself (the floor of the
same round) and without the traffic of its verification. Last, ten rollouts go on at once on ten practice hosts.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import asyncssh

from benchmarks import plain_ssh, record
from benchmarks.contenders import COMMAND_LINE
from benchmarks.many_hosts import farm
from benchmarks.options import count, is_trial
from benchmarks.record import Row, sample
from benchmarks.served import Taken, idle, serving, taken
from benchmarks.stage import ROOT, Bench, ContenderFailed, bench, call, own_environment
from deployments.serve.hand_over import Asked, handed_over
from flows.settings import Settings
from flows.wiring import wired
from state.events import EvidenceGathered, LeaseReleased, RolloutRequested, decode
from state.store.migrate import upgrade

AT_ONCE = 10
WAYS = ("bare", "serve")


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds: the whole rollout, the floor of its round, the traffic, and what is left."""

    way: str
    whole: float
    floor: float
    traffic: float

    @property
    def overhead(self) -> float:
        return self.whole - self.floor - self.traffic


async def once(made: Bench, way: str, floor: float) -> Run:
    words = (*COMMAND_LINE, "apply", str(made.manifest(made.next_fraction())), "--json")
    status, said = await call((*words, *(["--bare"] if way == "bare" else [])), made.environment(), made.folder)
    if status != 0:
        raise ContenderFailed(said[-2000:])
    rollout = json.loads(said[said.index("{") :])["rollout"]
    async with wired(made.stage.settings) as (ports, _):
        history = await ports.events.read(f"rollout-{rollout}")
    seen = [(decode(one), one.recorded_at) for one in history]
    begun = next(at for event, at in seen if isinstance(event, RolloutRequested))
    ended = next(at for event, at in seen if isinstance(event, LeaseReleased))
    traffic = sum(event.seconds for event, _ in seen if isinstance(event, EvidenceGathered))
    return Run(way, (ended - begun).total_seconds(), floor, traffic)


async def restart(made: Bench) -> float:
    """The floor: seconds of a restart until a generation comes back."""
    async with plain_ssh.connected(made) as connection:
        begun = time.time()
        return await plain_ssh.floor(connection) - begun


async def rollouts(runs: int, idle_s: float) -> tuple[list[Run], tuple[float, float]]:
    found = list[Run]()
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder)) as made, serving(made.folder, made.environment()) as server:
            made.start_takes(3.5)
            resting = await idle(server.pid, idle_s)
            for index in range(runs):
                floor = await restart(made)
                for way in WAYS if index % 2 else WAYS[::-1]:
                    found.append(await once(made, way, floor))
                    print(f"{way}: {found[-1].whole:.2f} s, overhead {found[-1].overhead:.2f} s", file=sys.stderr)
    return found, resting


@dataclass(frozen=True, slots=True)
class Busy:
    """Ten rollouts at once under `serve`: seconds from the first request to the last end, MB at the end, processor
    seconds of the server and its children."""

    seconds: float
    memory_mb: float
    cpu: float
    promoted: int


async def at_once(folder: Path) -> Busy:
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = folder / "key"
    key.write_private_key(str(path))
    path.chmod(0o600)
    environment = {**own_environment(), "PYTHONPATH": str(ROOT), "INTERLOCK_DATA_DIR": str(folder)}
    environment |= {"INTERLOCK_SSH_KEY": str(path), "INTERLOCK_SSH_CONFIG": "", "INTERLOCK_DATABASE_URL": ""}
    os.environ["INTERLOCK_DATA_DIR"] = str(folder)  # where the following client looks for its server
    settings = Settings(data_dir=folder, database_url="")
    await upgrade(settings.store_url)
    with farm(AT_ONCE, key.export_public_key().decode().strip(), environment) as hosts:
        async with serving(folder, environment) as server, wired(settings) as (ports, _):
            before, begun = taken(server.pid), time.monotonic()
            asked = [
                Asked("/rollouts", {"manifest": text, "reason": "benchmark", "plan": None}) for text in hosts.manifests
            ]
            ended = await asyncio.gather(*(handed_over(server.reach, one, ports) for one in asked))
            after: Taken = taken(server.pid)
            took = time.monotonic() - begun
    promoted = sum(one.concluded is not None and one.concluded.outcome == "promoted" for one in ended)
    return Busy(took, after.memory_mb, after.cpu_s - before.cpu_s, promoted)


def rows(found: Sequence[Run], resting: tuple[float, float], busy: Busy) -> list[Row]:
    bare, served = (sample([run.overhead for run in found if run.way == way]) for way in WAYS)
    more = served.median - bare.median
    return [
        Row(
            "orchestration of a whole rollout, all steps, under `serve` with Prefect",
            "≤ 2 s; ≤ 0.5 s more than bare",
            f"{served.text()}; {more:.2f} s more",
            floor=f"bare {bare.text()}",
            met=served.median <= 2 and more <= 0.5,
            note="without the restart and the verification's traffic.",
        ),
        Row(
            "`interlock serve` with Prefect, doing nothing",
            "—",
            f"{resting[0]:.0f} MB, {100 * resting[1]:.1f} % of a processor",
        ),
        Row(
            f"{AT_ONCE} rollouts at once under `serve`",
            "—",
            f"{busy.promoted} promoted in {busy.seconds:.1f} s; {busy.memory_mb:.0f} MB, "
            f"{busy.cpu / AT_ONCE:.2f} s of a processor each, Prefect's server included",
            note=f"the simulated hosts run on the same {os.cpu_count()} processors.",
        ),
    ]


async def _measured(runs: int, idle_s: float) -> tuple[list[Run], tuple[float, float], Busy]:
    found, resting = await rollouts(runs, idle_s)
    with tempfile.TemporaryDirectory() as folder:
        return found, resting, await at_once(Path(folder))


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="overhead")
    parser.add_argument("--runs", type=count, default=5)
    parser.add_argument("--idle", type=count, default=30)
    asked = parser.parse_args(words)
    on = record.machine()
    found, resting, busy = asyncio.run(_measured(asked.runs, asked.idle))
    made = rows(found, resting, busy)
    kept = {"runs": [asdict(run) for run in found], "idle": resting, "at_once": asdict(busy)}
    record.write("overhead", on, made, kept, rounds=asked.runs, trial=is_trial(parser, asked))
    return made
