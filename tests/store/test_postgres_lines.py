"""The driver's own connections to PostgreSQL: each in one hand at a time, used again while it is sound, none left."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it ships no types
import pytest
from contract.store_fixtures import Postgres

from state.store.connect import open_stores
from state.store.database import Database
from state.store.port import NewEvent
from state.store.postgres_lines import MOST, PostgresLines

PID = "SELECT pg_backend_pid()"


@pytest.fixture
def options(postgres: Postgres) -> dict[str, Any]:
    return {"host": str(postgres.socket), "user": "postgres", "database": "postgres", "command_timeout": 30.0}


async def pid_of(lines: PostgresLines) -> int:
    async with lines.line() as line:
        return int(await line.fetchval(PID))


async def test_a_line_is_used_again_and_by_one_at_a_time(options: dict[str, Any]) -> None:
    lines = PostgresLines(options, 5.0)
    first = await pid_of(lines)
    assert await pid_of(lines) == first
    async with lines.line() as held:
        assert await held.fetchval(PID) == first
        assert await pid_of(lines) != first
    await lines.close()


async def test_a_statement_that_the_server_refuses_leaves_its_line(options: dict[str, Any]) -> None:
    lines = PostgresLines(options, 5.0)
    first = await pid_of(lines)
    with pytest.raises(asyncpg.PostgresSyntaxError):
        async with lines.line() as line:
            await line.fetchval("SELEKT 1")
    assert await pid_of(lines) == first
    await lines.close()


async def test_a_line_whose_answer_nobody_waited_for_is_not_used_again(options: dict[str, Any]) -> None:
    lines = PostgresLines(options, 5.0)
    first = await pid_of(lines)

    async def sleep() -> None:
        async with lines.line() as line:
            await line.execute("SELECT pg_sleep(30)")

    waiting = asyncio.create_task(sleep())
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert await pid_of(lines) != first
    await lines.close()


async def test_no_more_lines_are_opened_than_there_may_be(options: dict[str, Any]) -> None:
    lines, at_once, most = PostgresLines(options, 5.0), 0, 0

    async def use() -> None:
        nonlocal at_once, most
        async with lines.line() as line:
            at_once += 1
            most = max(most, at_once)
            await line.execute("SELECT pg_sleep(0.01)")
            at_once -= 1

    await asyncio.gather(*(use() for _ in range(3 * MOST)))
    assert most == MOST
    await lines.close()


@pytest.mark.parametrize(
    "trusted_s", [pytest.param(5.0, id="a line that was just used"), pytest.param(-1.0, id="one that lay idle")]
)
async def test_a_line_that_the_server_ended_is_met_by_a_new_one(
    options: dict[str, Any], postgres: Postgres, trusted_s: float
) -> None:
    lines = PostgresLines(options, trusted_s)
    first = await pid_of(lines)
    postgres.sql(f"SELECT pg_terminate_backend({first}, 5000)")
    ((now,),) = await lines.fetch(PID)
    assert now != first
    await lines.close()


async def test_a_store_that_is_closed_leaves_no_connection(
    postgres_url: str, postgres: Postgres, now: Callable[[], datetime]
) -> None:
    name = postgres_url.removeprefix("postgresql://postgres@/").partition("?")[0]
    count = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    async with open_stores(postgres_url, now) as stores:
        for version in range(3):
            await stores.events.append("rollout-1", version, [NewEvent("made", 1, {})])
        await stores.events.read("rollout-1")
        async with Database(stores.engine).single_writing() as line:
            pid = await line.fetchval(PID)
        assert int(postgres.sql(count)) >= 1
    waited = f"SELECT pg_terminate_backend({pid}, 5000)"  # waits until it has ended, if it has not
    postgres.sql(waited)
    assert postgres.sql(count) == "0"
