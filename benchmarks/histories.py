"""A store of any size, filled with the recorded sample histories under new ids, beside their leases and revisions.

Every stream is sealed as an append would seal it: digests are whole, and the same `seed` gives the same store.
"""

import asyncio
import json
import random
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from state.store.chain import digest_of_texts, utc_text
from state.store.port import GENESIS

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "histories"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SERVICES = 40
RENEWALS = 6
"""Of each lease: those of a rollout of ten minutes."""

COLUMNS = ("stream", "version", "type", "schema_version", "data", "metadata", "recorded_at", "digest")
Row = tuple[str, int, str, int, str, str, datetime, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """A recorded stream: (type, schema_version, data, metadata) of each event, as canonical text."""

    rollout: str
    service: str
    events: tuple[tuple[str, int, str, str], ...]


def samples() -> tuple[Sample, ...]:
    return tuple(_sample(path) for path in sorted(SAMPLES.glob("*.jsonl")))


def _sample(path: Path) -> Sample:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    events = [line for line in lines if "type" in line]
    first = events[0]["data"]
    kept = [(e["type"], e["schema_version"], _text(e["data"]), _text(e["metadata"])) for e in events]
    return Sample(first["rollout"], first["service"], tuple(kept))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class Writing:
    """Heads of the streams written so far, and the clock."""

    def __init__(self) -> None:
        self._heads: dict[str, tuple[int, str]] = {}
        self._moment = BEGIN

    def event(self, stream: str, type_: str, schema_version: int, data: str, metadata: str = "{}") -> Row:
        version, previous = self._heads.get(stream, (0, GENESIS))
        self._moment += timedelta(seconds=1)
        version, moment = version + 1, self._moment
        digest = digest_of_texts(previous, stream, version, type_, schema_version, data, metadata, utc_text(moment))
        self._heads[stream] = version, digest
        return stream, version, type_, schema_version, data, metadata, moment, digest


def rows(count: int, *, unfinished: int = 0, seed: int = 1) -> Iterator[Row]:
    """At least `count` events of whole rollouts one after the other, then `unfinished` ones that break off."""
    chosen, writing, known = random.Random(seed), Writing(), samples()
    made = 0
    while made < count:
        for row in _rollout(writing, chosen, known):
            made += 1
            yield row
    for _ in range(unfinished):
        yield from islice(_rollout(writing, chosen, known), 12)


def _rollout(writing: Writing, chosen: random.Random, known: Sequence[Sample]) -> Iterator[Row]:
    sample, number = chosen.choice(known), chosen.randrange(SERVICES)
    rollout, service = f"{chosen.getrandbits(48):012x}", f"{sample.service}-{number}"
    leases = (f"service-lease-{service}", f"host-serving-{number}.example:22", f"host-gpu-{number // 2}.example:22")
    leased = _text({"holder": "ops@example", "reason": "benchmark", "rollout": rollout, "until": utc_text(BEGIN)})
    for at, (type_, schema_version, data, metadata) in enumerate(sample.events):
        renamed = data.replace(sample.rollout, rollout).replace(sample.service, service)
        yield writing.event(f"rollout-{rollout}", type_, schema_version, renamed, metadata)
        if at < RENEWALS:
            yield from (writing.event(lease, "subject-leased", 1, leased) for lease in leases)
    for lease in leases:
        yield writing.event(lease, "subject-released", 1, _text({"rollout": rollout}))


def fill(url: str, made: Iterable[Row]) -> int:
    """Write the rows into a migrated store; how many there were."""
    if url.startswith("sqlite:///"):
        return _fill_sqlite(url.removeprefix("sqlite:///"), made)
    return asyncio.run(_fill_postgres(url, made))


def _fill_sqlite(path: str, made: Iterable[Row]) -> int:
    connection, written = sqlite3.connect(path), 0
    statement = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
    connection.execute("PRAGMA synchronous=OFF")
    rest = iter(made)
    while batch := list(islice(rest, 20_000)):
        with connection:
            connection.executemany(statement, [(*row[:6], utc_text(row[6]), row[7]) for row in batch])
        written += len(batch)
    connection.close()
    return written


async def _fill_postgres(url: str, made: Iterable[Row]) -> int:
    import asyncpg  # type: ignore[import-untyped]  # it ships no types

    connection, written = await asyncpg.connect(url), 0
    rest = iter(made)
    while batch := list(islice(rest, 20_000)):
        await connection.copy_records_to_table("events", records=batch, columns=COLUMNS)
        written += len(batch)
    await connection.execute("ANALYZE events")
    await connection.close()
    return written


def first_rollout(made: Iterable[Mapping[str, Any]]) -> str:
    return str(next(iter(made))["rollout"])
