"""What questions cost in a large store, counted in the database's own steps and in events read: never by the clock."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from benchmarks.histories import fill, rows
from flows import lease
from flows.history import full_id
from flows.ports import Ports
from state.manifest.model import HostSpec
from state.store.connect import Stores, open_stores
from state.store.listing import After, rollout_page
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import NewEvent, RecordedEvent
from state.store.projections import catch_up
from state.store.read_models import PROJECTIONS
from tests.store.test_held import no_host, requested

FEW, MANY = 1_000, 20_000
UNFINISHED = 3
STEPS = 10
"""Of SQLite's virtual machine, between two calls of the handler that counts."""


@pytest.fixture(scope="module")
def filled(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """URLs of stores by the number of their events, shown once already."""
    urls = {}
    for count in (FEW, MANY):
        path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("large") / "store.db")
        urls[count] = f"sqlite:///{path}"
        assert fill(urls[count], rows(count, unfinished=UNFINISHED)) >= count
        asyncio.run(shown(urls[count]))
    return urls


async def shown(url: str) -> None:
    async with open_stores(url, datetime.now) as stores:
        await catch_up(stores.engine, PROJECTIONS)


@dataclass
class Counted:
    """SQLite's steps, in tens, and the statements that were sent."""

    steps: int = 0
    statements: list[str] = field(default_factory=list)

    def on(self, stores: Stores) -> None:
        event.listen(stores.engine.sync_engine, "connect", self._connected)
        event.listen(stores.engine.sync_engine, "before_cursor_execute", self._sent)

    def _connected(self, connection: Any, _record: object) -> None:
        connection.run_async(lambda driver: driver.set_progress_handler(self._step, STEPS))

    def _step(self) -> None:
        self.steps += 1

    def _sent(self, _connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        self.statements.append(statement)


async def cost(url: str, question: Callable[[Stores], Awaitable[object]]) -> Counted:
    counted = Counted()
    async with open_stores(url, datetime.now) as stores:
        await stores.events.read_last("nobody", 1)  # the door is paid for
        await stores.engine.dispose()
        counted.on(stores)
        await question(stores)
    return counted


def ports_on(stores: Stores) -> Ports:
    return Ports(events=stores.events, evidence=stores.evidence, open_host=no_host, holder="test")


async def newest(stores: Stores) -> str:
    (row,) = await rollout_page(stores.engine, 1)
    return str(row["rollout"])


async def by_its_beginning(stores: Stores) -> object:
    return await full_id(ports_on(stores), (await newest(stores))[:8])


async def a_page(stores: Stores) -> object:
    return await rollout_page(stores.engine, 20)


async def a_page_of_a_service(stores: Stores) -> object:
    return await rollout_page(stores.engine, 5, service="qwen35-122b-7")


async def an_older_page(stores: Stores) -> object:
    last = (await rollout_page(stores.engine, 5))[-1]
    return await rollout_page(stores.engine, 5, After(last["requested_at"], last["stream"]))


async def nothing_new(stores: Stores) -> object:
    return await catch_up(stores.engine, PROJECTIONS)


async def one_rollout(stores: Stores) -> object:
    return await stores.events.read(f"rollout-{await newest(stores)}")


async def the_end_of_a_lease(stores: Stores) -> object:
    return await stores.events.read_last("host-gpu-3.example:22", 8)


ALIKE = (by_its_beginning, a_page, a_page_of_a_service, an_older_page, nothing_new, one_rollout, the_end_of_a_lease)


@pytest.mark.parametrize("question", [pytest.param(one, id=one.__name__.replace("_", "-")) for one in ALIKE])
async def test_twenty_times_the_events_cost_hardly_more(
    filled: dict[int, str], question: Callable[[Stores], Awaitable[object]]
) -> None:
    few, many = [(await cost(filled[count], question)).steps for count in (FEW, MANY)]
    assert many <= 2 * few + 50, f"{few * STEPS} steps became {many * STEPS}"


async def test_the_unfinished_are_found_in_fewer_steps_than_there_are_events(filled: dict[int, str]) -> None:
    found: list[tuple[str, ...]] = []

    async def question(stores: Stores) -> None:
        found.append(await stores.events.unfinished())

    counted = await cost(filled[MANY], question)
    assert len(found[0]) == UNFINISHED
    assert counted.steps * STEPS < MANY


async def test_where_nothing_is_new_nothing_is_written(filled: dict[int, str]) -> None:
    counted = await cost(filled[MANY], nothing_new)
    assert [s for s in counted.statements if not s.startswith(("SELECT", "PRAGMA", "BEGIN"))] == []


async def test_tables_are_brought_up_to_date_in_transactions_of_a_bounded_size(filled: dict[int, str]) -> None:
    async def from_the_start(stores: Stores) -> None:
        async with stores.engine.begin() as connection:
            await connection.execute(text("DELETE FROM projections"))
        await catch_up(stores.engine, PROJECTIONS)

    counted = await cost(filled[MANY], from_the_start)
    begun = [s for s in counted.statements if s == "BEGIN IMMEDIATE"]
    assert MANY / 1000 <= len(begun) <= MANY / 1000 + 3


class Reading(MemoryEventStore):
    """Counts the events of leases that are read."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.read_events = 0

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        found = await super().read(stream, after_version)
        self.read_events += len(found) if "lease" in stream or stream.startswith("host-") else 0
        return found


RENEWED = 10_000


async def test_a_renewal_reads_the_end_of_a_lease_however_often_it_was_renewed(now: Callable[[], datetime]) -> None:
    store = Reading(now)
    ports = Ports(events=store, evidence=MemoryEvidenceStore(), open_host=no_host, holder="test", now=now)
    host = HostSpec(address="gpu-1.example", user="interlock")
    asked = requested(60.0).model_copy(update={"hosts": {"gpu-1": host}})
    for stream in lease.subjects(asked):
        taken = {"rollout": "r1", "holder": "test", "reason": "so", "until": now().isoformat()}
        await store.append(stream, 0, [NewEvent("subject-leased", 1, taken)] * RENEWED)
    await lease.renew(ports, asked, 0)
    assert [len(await store.read(stream)) for stream in lease.subjects(asked)] == [RENEWED + 1] * 2
    store.read_events = 0
    await lease.renew(ports, asked, 0)
    assert store.read_events <= 2 * lease.TAIL
    assert (await lease.held_by(ports, asked)).rollout == "r1"
    await lease.release(ports, asked)
    assert store.read_events <= 6 * lease.TAIL
