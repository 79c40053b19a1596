"""The event store beside what it stands on, and beside the `eventsourcing` library: appends, and appends with a refold.

python -m benchmarks store [--pairs 7] [--count 1000]

Every way runs in a process of its own, one after the other in each round, on one database of each kind, both durable:
SQLite with WAL and `synchronous=FULL`, PostgreSQL with its own defaults. Ratios are those of rates within one round.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.peers import installed
from benchmarks.postgres import durable_postgres
from benchmarks.record import Row, Sample, sample
from benchmarks.store_contenders import PER_STREAM
from state.store.migrate import upgrade
from tests.contract.store_fixtures import Postgres

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / "benchmarks/peer/refold_eventsourcing.py"
APPEND_GOAL, REFOLD_GOAL = 0.7, 2.0
NOTE = (
    "the driver alone writes a plain table in the thread that waits; a store that must not hold up the timers' renewal "
    "waits in another, two wake-ups more, and its statement checks the head and the triggers' rule."
)
Taken = Mapping[str, Sequence[Mapping[str, float]]]


def run(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Mapping[str, float]:
    """What one process printed. Raises CalledProcessError."""
    given = {**os.environ, **(environment or {}), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, env=given, cwd=ROOT)
    told: Mapping[str, float] = json.loads(done.stdout)
    return told


def contender(way: str, url: str, count: int) -> Mapping[str, float]:
    return run((sys.executable, "-m", "benchmarks.store_contenders", way, url, str(count)))


def eventsourcing(environment: Mapping[str, str], count: int) -> Mapping[str, float]:
    return run((str(installed("eventsourcing") / "python"), str(PEER), str(count), str(PER_STREAM)), environment)


def on_sqlite(folder: Path, pairs: int, count: int) -> Taken:
    url = f"sqlite:///{folder / 'store.db'}"
    asyncio.run(upgrade(url))
    plain = f"sqlite:///{folder / 'plain.db'}"
    library = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(folder / "library.db")}
    return _rounds(pairs, {
        "sqlite3": lambda: contender("append-sqlite3", plain, count),
        "interlock": lambda: contender("append-interlock", url, count),
        "aiosqlite": lambda: contender("append-aiosqlite", plain, count),
        "eventsourcing, refold": lambda: eventsourcing(library, count // 2),
        "interlock, refold": lambda: contender("refold-interlock", url, count // 2),
    })  # fmt: skip


def on_postgresql(server: Postgres, pairs: int, count: int) -> Taken:
    for name in ("store", "plain", "library"):
        server.sql(f"CREATE DATABASE {name}")
    asyncio.run(upgrade(server.url("store")))
    library = {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": "library",
        "POSTGRES_HOST": str(server.socket),
        "POSTGRES_PORT": "5432",
        "POSTGRES_USER": "postgres",
        "POSTGRES_PASSWORD": "",
    }
    return _rounds(pairs, {
        "asyncpg": lambda: contender("append-asyncpg", server.url("plain"), count),
        "interlock": lambda: contender("append-interlock", server.url("store"), count),
        "eventsourcing, refold": lambda: eventsourcing(library, count // 2),
        "interlock, refold": lambda: contender("refold-interlock", server.url("store"), count // 2),
    })  # fmt: skip


def _rounds(pairs: int, ways: Mapping[str, Any]) -> Taken:
    for way in ways.values():  # once for nothing: files are made, caches filled
        way()
    rounds = [{name: way() for name, way in ways.items()} for _ in range(pairs)]
    return {name: [one[name] for one in rounds] for name in ways}


def ratio(taken: Taken, ours: str, other: str, clock: str = "wall") -> Sample:
    """How many times the rate of the other ours is, round by round."""
    return sample([b[clock] / a[clock] for a, b in zip(taken[ours], taken[other], strict=True)])


def rate(taken: Taken, way: str, count: int) -> str:
    return sample([count / one["wall"] for one in taken[way]]).text("/s", 0)


def rows(database: str, raw: str, taken: Taken, count: int) -> list[Row]:
    append, refold = ratio(taken, "interlock", raw), ratio(taken, "interlock, refold", "eventsourcing, refold")
    peers = {} if "aiosqlite" not in taken else {
        f"aiosqlite {rate(taken, 'aiosqlite', count)}": f"interlock is {_times(ratio(taken, 'interlock', 'aiosqlite'))}"
    }  # fmt: skip
    cpu = ratio(taken, "interlock, refold", "eventsourcing, refold", "cpu")
    return [
        Row(
            f"durable append, one event a commit, {database}",
            f"≥ {APPEND_GOAL} × {raw}",
            f"{rate(taken, 'interlock', count)}, {_times(append)}",
            f"{raw} {rate(taken, raw, count)}",
            peers,
            append.median >= APPEND_GOAL,
            NOTE if append.median < APPEND_GOAL else "",
        ),
        Row(
            f"append and refold, streams of {PER_STREAM} events, {database}",
            f"≥ {REFOLD_GOAL:g} × eventsourcing",
            f"{rate(taken, 'interlock, refold', count // 2)}, {_times(refold)}",
            peers={"eventsourcing": rate(taken, "eventsourcing, refold", count // 2)},
            met=refold.median >= REFOLD_GOAL,
            note=f"by processor time of the client {_times(cpu)}.",
        ),
    ]


def _times(found: Sample) -> str:
    return found.text("×")


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks store", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=7, help="rounds (default 7)")
    parser.add_argument("--count", type=int, default=1000, help="events of a run (default 1000)")
    given = parser.parse_args(words)
    began_on = record.machine()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        sqlite = on_sqlite(Path(folder), given.pairs, given.count)
    with durable_postgres() as server:
        postgresql = on_postgresql(server, given.pairs, given.count)
    found = [*rows("SQLite", "sqlite3", sqlite, given.count), *rows("PostgreSQL", "asyncpg", postgresql, given.count)]
    record.write("store", began_on, found, {"SQLite": sqlite, "PostgreSQL": postgresql})
    return found
