"""The stores with a spool before them: what a rollout finds while they are away, and when they are back."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from state.errors import NotFound, StoreUnavailable, TakenOver, VersionConflict
from state.store.chain import check_chain
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import NewEvent
from state.store.spooling import LONGEST_WAIT_S, Spooling, SpoolingEvents
from tests.contract.store_fixtures import spooling_over
from tests.flows.store_faults import Line, LineEvents, LineEvidence
from tests.practice.virtual_time import in_virtual_time

STREAM = "rollout-1"
SECRET = b"argv: --api-key s3cret --port 30000\n"


def made(*types: str) -> list[NewEvent]:
    return [NewEvent(type, 1, {"action": type}) for type in types]


class Away:
    """A spooling store over one at the end of a line that can be cut."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self.line = Line()
        self.stored, self.kept = MemoryEventStore(now), MemoryEvidenceStore()
        self.heard: list[str] = []
        self.folder = folder / "spool"
        inner = LineEvents(self.stored, self.line), LineEvidence(self.kept, self.line)
        self.spooling: Spooling = spooling_over(*inner, folder, now, self.heard)
        self.events, self.evidence = self.spooling.events, self.spooling.evidence

    async def begun(self) -> "Away":
        await self.events.append(STREAM, 0, made("asked"))
        await self.events.read(STREAM)
        return self

    def kept_aside(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.folder.glob("*.kept"))

    def spooled(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.folder.glob("*.spool"))


@pytest.fixture
async def away(tmp_path: Path, now: Callable[[], datetime]) -> Away:
    return await Away(tmp_path, now).begun()


async def test_what_was_spooled_reads_as_if_it_were_stored_and_then_is(away: Away) -> None:
    away.line.cut = True
    spooled = await away.events.append(STREAM, 1, made("stop", "stopped"))
    ref = await away.evidence.put(SECRET, "text/plain")
    spooled += await away.events.append(STREAM, 3, made("started"))
    assert [(event.position, event.version) for event in spooled] == [(0, 2), (0, 3), (0, 4)]
    read = await away.events.read(STREAM)
    assert read[1:] == spooled
    check_chain(read)
    assert b"s3cret" not in away.spooled()
    assert b"s3cret" not in await away.evidence.get(ref.digest)
    with pytest.raises(NotFound):
        await away.kept.get(ref.digest)
    away.line.mended()
    assert await away.spooling.flush(now=True)
    told = await away.stored.read(STREAM)
    assert [(e.type, e.recorded_at, e.digest) for e in told] == [(e.type, e.recorded_at, e.digest) for e in read]
    assert await away.kept.get(ref.digest) == await away.evidence.get(ref.digest)
    assert list(away.folder.glob("*.spool")) == []
    assert [sentence.split(":")[0] for sentence in away.heard] == [
        "The event store cannot be reached",
        "the event store is back",
    ]


async def test_everything_is_spooled_until_all_of_it_is_stored(away: Away) -> None:
    away.line.at, away.line.how = len(away.line.calls) + 1, "once"
    await away.events.append(STREAM, 1, made("stop"))
    await away.events.append(STREAM, 2, made("stopped"))
    assert len(await away.stored.read(STREAM)) == 1
    assert await away.spooling.flush(now=True)
    await away.events.append(STREAM, 3, made("started"))
    assert [e.type for e in await away.stored.read(STREAM)] == ["asked", "stop", "stopped", "started"]


async def test_an_append_that_was_stored_and_not_answered_is_not_stored_twice(away: Away) -> None:
    away.line.at, away.line.how = len(away.line.calls) + 1, "answer-lost"
    await away.events.append(STREAM, 1, made("stop"))
    assert len(await away.stored.read(STREAM)) == 2
    await away.events.append(STREAM, 2, made("stopped"))
    assert await away.spooling.flush(now=True)
    assert [e.type for e in await away.stored.read(STREAM)] == ["asked", "stop", "stopped"]


async def test_a_wrong_version_is_a_conflict_without_the_store_too(away: Away) -> None:
    away.line.cut = True
    await away.events.append(STREAM, 1, made("stop"))
    with pytest.raises(VersionConflict, match="is at version 2, not 1"):
        await away.events.append(STREAM, 1, made("stop"))


async def test_other_streams_are_not_known_without_the_store(away: Away) -> None:
    away.line.cut = True
    await away.events.append(STREAM, 1, made("stop"))
    with pytest.raises(StoreUnavailable):
        await away.events.read("host-h:22")
    with pytest.raises(StoreUnavailable):
        await away.events.append("host-h:22", 0, made("leased"))


async def test_a_stream_that_somebody_else_wrote_to_is_taken_over_and_the_spool_kept(away: Away) -> None:
    away.line.cut = True
    await away.events.append(STREAM, 1, made("stop"))
    await away.stored.append(STREAM, 1, made("rollout-resumed"))
    away.line.mended()
    with pytest.raises(TakenOver) as raised:
        await away.spooling.flush(now=True)
    assert b'"stop"' in away.kept_aside()
    assert raised.value.kept in str(raised.value)
    for again in (away.events.read(STREAM), away.events.append(STREAM, 2, made("more")), away.evidence.put(b"", "x/y")):
        with pytest.raises(TakenOver):
            await again
    assert [e.type for e in await away.stored.read(STREAM)] == ["asked", "rollout-resumed"]


async def test_what_somebody_else_wrote_is_not_guessed_at_without_the_store(away: Away) -> None:
    await away.stored.append(STREAM, 1, made("hold-answered"))
    with pytest.raises(VersionConflict):
        await away.events.append(STREAM, 1, made("stop"))
    away.line.cut = True
    with pytest.raises(StoreUnavailable):
        await away.events.read(STREAM)
    away.line.mended()
    assert len(await away.events.read(STREAM)) == 2


async def test_a_spool_that_cannot_be_written_ends_the_rollout(away: Away) -> None:
    away.folder.write_text("a file where the folder should be")
    away.line.cut = True
    with pytest.raises(StoreUnavailable, match="cannot be spooled"):
        await away.events.append(STREAM, 1, made("stop"))


class Slow(SpoolingEvents):
    """An event store that takes its time, and stores all the same."""

    def __init__(self, inner: MemoryEventStore, seconds: float) -> None:
        self.inner, self.seconds = inner, seconds

    async def append(self, stream: str, expected_version: int, events):  # type: ignore[no-untyped-def]  # see the port
        await asyncio.sleep(self.seconds)
        return await self.inner.append(stream, expected_version, events)

    async def read(self, stream: str, after_version: int = 0):  # type: ignore[no-untyped-def]  # see the port
        return await self.inner.read(stream, after_version)


def test_a_slow_store_holds_a_rollout_up_once_and_what_lands_late_is_there_once(
    tmp_path: Path, now: Callable[[], datetime]
) -> None:
    @in_virtual_time
    async def run() -> None:
        loop = asyncio.get_running_loop()
        stored = MemoryEventStore(now)
        slow = Slow(stored, 600.0)
        spooling = spooling_over(slow, MemoryEvidenceStore(), tmp_path, now, clock=loop.time)
        await spooling.events.read(STREAM)
        begun = loop.time()
        for number in range(20):
            await spooling.events.append(STREAM, number, made(f"step-{number}"))
        assert loop.time() - begun == 5.0
        await asyncio.sleep(600)
        slow.seconds = 0.0
        assert await spooling.flush(now=True)
        assert [e.type for e in await stored.read(STREAM)] == [f"step-{number}" for number in range(20)]

    run()


def test_the_store_is_tried_again_at_growing_intervals(tmp_path: Path, now: Callable[[], datetime]) -> None:
    @in_virtual_time
    async def run() -> None:
        loop = asyncio.get_running_loop()
        line = Line(cut=True)
        spooling = spooling_over(
            LineEvents(MemoryEventStore(now), line), MemoryEvidenceStore(), tmp_path, now, clock=loop.time
        )
        spooling.recent.read((), 0)
        tried = []
        for number in range(600):
            count = len(line.calls)
            await spooling.events.append(STREAM, number, made("step"))
            tried += [loop.time()] if len(line.calls) > count else []
            await asyncio.sleep(0.5)
        assert [b - a for a, b in pairwise(tried)][:8] == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
        assert LONGEST_WAIT_S == 30.0

    run()
