"""Whose turn it is to write, among the writers of one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Transactions write one at a time; single statements any number together, for they queue where they are run.

    A statement that waited for its turn alone would be handed it by the event loop, one for each of its rounds: with a
    hundred rollouts in the loop, an append then took seconds (measured). Neither kind keeps the other waiting for good:
    what waits when a transaction ends, or when the last statement does, goes first.
    """

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._no_transaction, self._no_single = asyncio.Event(), asyncio.Event()
        self._no_transaction.set()
        self._no_single.set()
        self._singles = 0

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """The turn of a transaction: nothing else of this process writes."""
        async with self._one:
            self._no_transaction.clear()
            try:
                await self._no_single.wait()
                yield
            finally:
                self._no_transaction.set()

    async def begin_single(self) -> None:
        """The turn of a single statement, with others: no transaction writes until `end_single`, which follows
        whatever happens."""
        while not self._no_transaction.is_set():
            await self._no_transaction.wait()
        self._singles += 1
        self._no_single.clear()

    def end_single(self) -> None:
        self._singles -= 1
        if not self._singles:
            self._no_single.set()
