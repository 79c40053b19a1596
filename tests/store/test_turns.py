"""Turns of the writers of one process, and patience with a store in a process that has much else to do."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from state.errors import StoreUnavailable
from state.store.patient import Patience
from state.store.turns import Turns


@asynccontextmanager
async def _single(turns: Turns) -> AsyncIterator[None]:
    await turns.begin_single()
    try:
        yield
    finally:
        turns.end_single()


async def _written(told: list[str], name: str, turns: Turns, kind: str, leave: asyncio.Event) -> None:
    async with turns.alone() if kind == "transaction" else _single(turns):
        told.append(f"{name} in")
        await leave.wait()
        told.append(f"{name} out")


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("kinds", "inside"),
    [
        pytest.param(("single", "single", "single"), 3, id="single statements need not wait for each other"),
        pytest.param(("transaction", "transaction"), 1, id="of two transactions one waits"),
        pytest.param(("single", "transaction"), 1, id="a transaction waits for a single statement"),
        pytest.param(("transaction", "single", "single"), 1, id="single statements wait for a transaction"),
        pytest.param(("single", "transaction", "single"), 1, id="nor are later ones let past a transaction that waits"),
    ],
)
async def test_who_writes_beside_whom(kinds: tuple[str, ...], inside: int) -> None:
    told: list[str] = []
    turns, leave = Turns(), asyncio.Event()
    writers = [asyncio.create_task(_written(told, str(n), turns, kind, leave)) for n, kind in enumerate(kinds)]
    await _settled()
    assert len(told) == inside
    leave.set()
    await asyncio.gather(*writers)
    assert len(told) == 2 * len(kinds)


async def test_who_gives_up_waiting_leaves_the_turn_to_others() -> None:
    told: list[str] = []
    turns, leave, at_once = Turns(), asyncio.Event(), asyncio.Event()
    at_once.set()
    first = asyncio.create_task(_written(told, "first", turns, "single", leave))
    await _settled()
    waiting = asyncio.create_task(_written(told, "waiting", turns, "transaction", leave))
    await _settled()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await _written(told, "second", turns, "single", at_once)
    leave.set()
    await first
    await _written(told, "third", turns, "transaction", at_once)
    assert told == ["first in", "second in", "second out", "first out", "third in", "third out"]


async def _answers_soon() -> str:
    await asyncio.sleep(0.01)
    for _ in range(3):
        await asyncio.sleep(0)
    return "answered"


async def _never_answers() -> str:
    await asyncio.Event().wait()
    return "answered"


async def _heard(call: Callable[[], Coroutine[None, None, str]], patience: Patience) -> str:
    try:
        return await patience.wait_for(call())
    except StoreUnavailable:
        return "given up"


@pytest.mark.parametrize(
    ("call", "heard"),
    [
        pytest.param(_answers_soon, "answered", id="an answer in time is heard late, where the loop was busy"),
        pytest.param(_never_answers, "given up", id="a store that is silent is given up"),
    ],
)
async def test_it_is_the_store_that_is_waited_for(call: Callable[[], Coroutine[None, None, str]], heard: str) -> None:
    waiting = asyncio.create_task(_heard(call, Patience(lambda: 0.2)))
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251  # that the loop stands still is what this is about
    assert await waiting == heard
