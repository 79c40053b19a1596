"""The stores with a bound on how long an answer is waited for: a slow one does not hold up a stopped service."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from state.errors import StoreUnavailable
from state.store.port import EventStore, EvidenceRef, EvidenceStore, NewEvent, RecordedEvent

Result = TypeVar("Result")

_PARTS = 8


class Patience:
    """Waits for calls as many seconds as `seconds` says at the time. A call that is given up runs on by itself, since
    what it appends may still land; until it has ended, the store counts as away."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._given_up: set[asyncio.Task[Any]] = set()

    async def wait_for(self, call: Coroutine[Any, Any, Result]) -> Result:
        """Raises StoreUnavailable if the answer does not come in time, and what the call raises."""
        if self._given_up:
            call.close()
            raise StoreUnavailable("it has not answered yet")
        task, seconds = asyncio.ensure_future(call), self._seconds()
        try:
            await _answered(task, seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            self._given_up.add(task)
            task.add_done_callback(self._ended)
            raise StoreUnavailable(f"it did not answer within {seconds:g} s")
        return task.result()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._given_up.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more


async def _answered(task: "asyncio.Task[Any]", seconds: float) -> None:
    """Wait so many seconds at most, in parts that each count as no more than they should have taken: a process that is
    busy with a hundred other rollouts hears an answer late that came in time."""
    for _ in range(_PARTS):
        await asyncio.wait([task], timeout=seconds / _PARTS)
        if task.done():
            return


class PatientEvents:
    """Implements `EventStore`."""

    def __init__(self, inner: EventStore, patience: Patience) -> None:
        self._inner, self._patience = inner, patience

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        return await self._patience.wait_for(self._inner.append(stream, expected_version, events))

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        return await self._patience.wait_for(self._inner.read(stream, after_version))

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        return await self._patience.wait_for(self._inner.read_last(stream, count))

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return await self._patience.wait_for(self._inner.read_all(after_position, limit))

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await self._patience.wait_for(self._inner.streams(prefix))

    async def unfinished(self) -> tuple[str, ...]:
        return await self._patience.wait_for(self._inner.unfinished())


class PatientEvidence:
    """Implements `EvidenceStore`."""

    def __init__(self, inner: EvidenceStore, patience: Patience) -> None:
        self._inner, self._patience = inner, patience

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        return await self._patience.wait_for(self._inner.put(data, media_type))

    async def get(self, digest: str) -> bytes:
        return await self._patience.wait_for(self._inner.get(digest))
