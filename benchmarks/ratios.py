"""The few comparisons that CI makes: each a ratio taken in pairs, never an absolute time.

    python -m benchmarks ratios [--pairs 3]

Ends with 1 if the median of one is above its bound: a single slow pair is the machine's. The bounds are wider than the
goals of the whole suite, which a quiet machine measures.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from benchmarks.journal import write_journal
from benchmarks.options import count, needs
from benchmarks.record import Row
from benchmarks.stage import ROOT, SPECULATION, ContenderFailed, own_environment
from flows import requests
from flows.ports import Ports, opened
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.engines.engine import engine_for
from state.manifest.load import load_manifest
from state.store.migrate import upgrade
from state.times import dark_seconds
from tasks.endpoint import Endpoint
from tasks.hosts.port import Argv, Host
from tasks.practice.scene import Scene, scene

HELP_BOUND, INSPECT_BOUND, DARK_BOUND = 3.0, 20.0, 1.6
JOURNAL_MB = 150


@dataclass(frozen=True, slots=True)
class Ratio:
    """What is compared, the pairs' ratios, and the bound that their median must keep."""

    what: str
    found: tuple[float, ...]
    bound: float

    @property
    def kept(self) -> bool:
        return statistics.median(self.found) <= self.bound


def pairs(number: int, ours: Callable[[], float], other: Callable[[], float]) -> tuple[float, ...]:
    return tuple(ours() / other() for _ in range(number))


def process(*words: str) -> tuple[float, bytes]:
    """Seconds of a whole process, and what it printed."""
    begun = time.perf_counter()
    done = subprocess.run(words, check=True, capture_output=True, env={**own_environment(), "PYTHONPATH": str(ROOT)})
    return time.perf_counter() - begun, done.stdout


def command_line(number: int) -> Ratio:
    """The command line's own start beside that of its parser alone."""
    ours = (sys.executable, "-c", "from deployments.cli import main; main()", "--help")
    process(*ours)
    found = pairs(number, lambda: process(*ours)[0], lambda: process(sys.executable, "-c", "import typer")[0])
    return Ratio("`interlock --help` / importing its parser", found, HELP_BOUND)


def inspection(number: int, folder: Path) -> Ratio:
    """Inspection of a journal beside grep, both without their start."""
    made = folder / "journal.short"
    write_journal(made, JOURNAL_MB * 1_000_000, "short")
    small = folder / "small"
    small.write_bytes(made.read_bytes()[:2000])

    def ours() -> float:
        words = (sys.executable, "-m", "deployments.inspect", "--json")
        whole, said = process(*words, str(made))
        if not json.loads(said)["boots"]:
            raise ContenderFailed("inspection found no start in a journal of two")
        return whole - process(*words, str(small))[0]

    def grep() -> float:
        return process("grep", "-c", "-F", "accept len: 1.00", str(made))[0]

    return Ratio("inspection of a journal / grep -c of one string", pairs(number, ours, grep), INSPECT_BOUND)


async def darkness(number: int, folder: Path) -> Ratio:
    """The dark time of a rollout on a practice host behind SSH beside that of a restart with a poll every 10 ms."""
    found = list[float]()
    async with practised(folder) as (made, ports), opened(ports, made.specs) as hosts:
        host = hosts["serving"]
        for index in range(number):
            floor = await restarted(made, host)
            fraction = 0.75 + (index + 1) / 1000
            arguments = {"mem_fraction_static": fraction, **dict.fromkeys(SPECULATION)}
            text = made.manifest(arguments, gpus=None, claims=None)
            asked = requests.from_manifest(ports, load_manifest(text, "manifest.yaml"), "rollout", "ratio")
            ended = await begin(ports, asked)
            if ended.concluded is None or ended.concluded.outcome != "promoted":
                raise ContenderFailed(f"a rollout on a practice host ended as {ended.concluded}")
            dark = dark_seconds(await ports.events.read(f"rollout-{asked.rollout}"))
            found.append((dark or float("inf")) / floor)
    return Ratio("dark time of a rollout on a practice host / restart and poll", tuple(found), DARK_BOUND)


@asynccontextmanager
async def practised(folder: Path) -> AsyncIterator[tuple[Scene, Ports]]:
    async with scene(folder / "hosts", settings={"stage_seconds": {"weights": 2.0}}) as made:
        settings = Settings(data_dir=folder, ssh_key=str(made.key), ssh_config="", database_url="")
        await upgrade(settings.store_url)
        await made.until_it_answers()
        async with wired(settings) as (ports, _):
            yield made, ports


async def restarted(made: Scene, host: Host) -> float:
    """Seconds of a restart over SSH until a generation comes back, asked for every 10 ms."""
    question = Argv(("systemctl", "restart", "--", made.unit), root=True)
    begun = time.perf_counter()
    await host.run_all([question], timeout_s=60.0)
    engine = engine_for("sglang")
    patience = AsyncRetrying(
        retry=retry_if_result(lambda answer: not answer.ok), wait=wait_fixed(0.01), stop=stop_after_delay(60)
    )
    async with Endpoint(host, f"http://127.0.0.1:{made.port}") as endpoint:
        await patience(endpoint.ask, engine.generation("The", 1, exact=False), timeout_s=5.0)
    return time.perf_counter() - begun


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="ratios")
    parser.add_argument("--pairs", type=count, default=3)
    asked = parser.parse_args(words).pairs
    needs("grep")
    with tempfile.TemporaryDirectory() as folder:
        found = [
            command_line(asked),
            inspection(asked, Path(folder)),
            asyncio.run(darkness(asked, Path(folder))),
        ]
    for one in found:
        told = ", ".join(f"{ratio:.2f}" for ratio in one.found)
        print(f"{'kept' if one.kept else 'BROKEN'}: {one.what}: {told} (at most {one.bound:g})")
    if not all(one.kept for one in found):
        raise SystemExit(1)
    return []
