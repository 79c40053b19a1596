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
from benchmarks.options import count, is_trial
from benchmarks.peers import install, installed
from benchmarks.postgres import durable_postgres
from benchmarks.record import Row, Sample, sample
from benchmarks.store_contenders import PER_STREAM
from state.store.migrate import upgrade
from tests.contract.store_fixtures import Postgres

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / "benchmarks/peer/refold_eventsourcing.py"
APPEND_GOAL, REFOLD_GOAL = 0.7, 2.0
PEER_CACHE = {"AGGREGATE_CACHE_MAXSIZE": "1000", "AGGREGATE_CACHE_FASTFORWARD": "y"}
NOTE = (
    "the driver alone writes a plain table in the thread that waits; a store that must not hold up the timers' renewal "
    "waits in another, two wake-ups more, and its statement checks the head and the triggers' rule."
)
REFOLD_NOTE = (
    "interlock reads the whole stream each time and checks every digest, and folds what is new; the peer checks none, "
    "and is taken at its faster setting, which with its own cache reads what is new alone."
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


def eventsourcing_ways(environment: Mapping[str, str], count: int) -> Mapping[str, Any]:
    """As it comes, and with its cache of aggregates, which it brings up to date from the database at each use."""
    return {
        "eventsourcing": lambda: eventsourcing(environment, count),
        "eventsourcing, cached": lambda: eventsourcing({**environment, **PEER_CACHE}, count),
    }


def on_sqlite(folder: Path, pairs: int, count: int) -> Taken:
    url = f"sqlite:///{folder / 'store.db'}"
    asyncio.run(upgrade(url))
    plain = f"sqlite:///{folder / 'plain.db'}"
    library = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(folder / "library.db")}
    return _rounds(pairs, {
        "sqlite3": lambda: contender("append-sqlite3", plain, count),
        "interlock": lambda: contender("append-interlock", url, count),
        "off the loop": lambda: contender("append-sqlite3-off-the-loop", plain, count),
        "aiosqlite": lambda: contender("append-aiosqlite", plain, count),
        **eventsourcing_ways(library, count // 2),
        "interlock, refold": lambda: contender("refold-interlock", url, count // 2),
        "interlock, refold cold": lambda: contender("refold-cold-interlock", url, count // 2),
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
        **eventsourcing_ways(library, count // 2),
        "interlock, refold": lambda: contender("refold-interlock", server.url("store"), count // 2),
        "interlock, refold cold": lambda: contender("refold-cold-interlock", server.url("store"), count // 2),
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
    append = ratio(taken, "interlock", raw)
    others = [way for way in ("off the loop", "aiosqlite") if way in taken]
    return [
        Row(
            f"durable append, one event a commit, {database}",
            f"≥ {APPEND_GOAL} × {raw}",
            f"{rate(taken, 'interlock', count)}, {_times(append)}",
            f"{raw} {rate(taken, raw, count)}",
            {_named(way, raw): f"{rate(taken, way, count)}, interlock is {_against(taken, way)}" for way in others},
            append.median >= APPEND_GOAL,
            NOTE if append.median < APPEND_GOAL else "",
        ),
        refold_row(database, taken, count // 2),
    ]


def refold_row(database: str, taken: Taken, count: int) -> Row:
    peers = ("eventsourcing", "eventsourcing, cached")
    peer = min(peers, key=lambda way: ratio(taken, "interlock, refold", way).median)
    refold = ratio(taken, "interlock, refold", peer)
    cold, cpu = ratio(taken, "interlock, refold cold", peer), ratio(taken, "interlock, refold", peer, "cpu")
    return Row(
        f"append and refold, streams of {PER_STREAM} events, {database}",
        f"≥ {REFOLD_GOAL:g} × eventsourcing",
        f"{rate(taken, 'interlock, refold', count)}, {_times(refold)}",
        peers={way: rate(taken, way, count) for way in peers},
        met=refold.median >= REFOLD_GOAL,
        note=f"against `{peer}`; by processor time of the client {_times(cpu)}; folded whole each time "
        f"{rate(taken, 'interlock, refold cold', count)}, {_times(cold)}. {REFOLD_NOTE}",
    )


def _named(way: str, raw: str) -> str:
    return f"{raw} {way}" if way == "off the loop" else way


def _against(taken: Taken, way: str) -> str:
    return _times(ratio(taken, "interlock", way))


def _times(found: Sample) -> str:
    return found.text("×")


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks store", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=count, default=7, help="rounds (default 7)")
    parser.add_argument("--count", type=count, default=1000, help="events of a run (default 1000)")
    given = parser.parse_args(words)
    if given.count < 2 * PER_STREAM:
        parser.error(f"argument --count: a run is of {2 * PER_STREAM} events at least, two whole streams")
    install("eventsourcing")
    began_on = record.machine()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        sqlite = on_sqlite(Path(folder), given.pairs, given.count)
    with durable_postgres() as server:
        postgresql = on_postgresql(server, given.pairs, given.count)
    found = [*rows("SQLite", "sqlite3", sqlite, given.count), *rows("PostgreSQL", "asyncpg", postgresql, given.count)]
    kept = {"SQLite": sqlite, "PostgreSQL": postgresql}
    record.write("store", began_on, found, kept, rounds=given.pairs, trial=is_trial(parser, given))
    return found
