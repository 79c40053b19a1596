"""A store of a million events: what the commands about the past take, each a process of its own.

python -m benchmarks large-store [--events 1000000] [--database sqlite|postgresql]
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import record
from benchmarks.histories import Row as StoredRow
from benchmarks.histories import fill, rows
from benchmarks.options import count
from benchmarks.postgres import durable_postgres
from benchmarks.record import Row, sample
from benchmarks.stage import ROOT, own_environment
from state.store.migrate import upgrade

COMMAND = (sys.executable, "-c", "from deployments.cli import main; main()")
SERVICE = "qwen35-122b-7"
RUNS, LEAST_EVENTS = 3, 10_000


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a migrated store without events."""
    if kind == "sqlite":
        url = f"sqlite:///{folder / 'store.db'}"
        asyncio.run(upgrade(url))
        yield url
        return
    with durable_postgres() as server:
        server.sql("CREATE DATABASE large")
        asyncio.run(upgrade(server.url("large")))
        yield server.url("large")


def taken(words: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of one command; a comparison may find the later rollout worse, which is exit 1."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    given = {**own_environment(), "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run((*COMMAND, *words), check=False, stdout=subprocess.DEVNULL, env=given)
    if done.returncode > 1:
        raise SystemExit(f"interlock {' '.join(words)} ended with {done.returncode}")
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks large-store")
    parser.add_argument("--events", type=count, default=1_000_000)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    given = parser.parse_args(words)
    if given.events < LEAST_EVENTS:
        parser.error(f"argument --events: {LEAST_EVENTS} at least, so that each service has rollouts to show")
    began_on = record.machine()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder, database(given.database, Path(folder)) as at:
        environment = {"INTERLOCK_DATABASE_URL": at, "INTERLOCK_DATA_DIR": folder}
        one, other, written = _filled(at, given.events)
        begun = taken(("history",), environment)
        asked = (
            ("history",),
            ("history", SERVICE),
            ("show", one),
            ("report", one),
            ("compare", one, other),
            ("recover",),
        )
        runs = {_name(each): [taken(each, environment) for _ in range(RUNS)] for each in asked}
    found = [
        Row(
            f"{written:,} events, {given.database}: `interlock {command}`",
            "bounded: as in an empty store but for what is shown",
            f"{sample([wall for wall, _ in times]).text()}; processor {sample([cpu for _, cpu in times]).text()}",
        )
        for command, times in runs.items()
    ]
    found.append(
        Row(f"{written:,} events, {given.database}: all tables for showing made anew", "", f"{begun[0]:.0f} s")
    )
    record.write(f"large-store-{given.database}", began_on, found, runs, rounds=RUNS)
    return found


def _name(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{words[0]} {'SERVICE' if words[0] == 'history' else 'ROLLOUT'}"


def _filled(url: str, count: int) -> tuple[str, str, int]:
    """The beginnings of the ids of two rollouts in the middle, and how many events there are."""
    seen: list[str] = []

    def noted() -> Iterator[StoredRow]:
        for row in rows(count):
            if row[1] == 1 and row[0].startswith("rollout-"):
                seen.append(row[0].removeprefix("rollout-"))
            yield row

    written = fill(url, noted())
    middle = len(seen) // 2
    return seen[middle][:10], seen[middle + 1][:10], written
