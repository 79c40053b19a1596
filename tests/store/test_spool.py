"""The spool: its lines, its file, and its way into the stores."""

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import SpoolDamaged, StoreUnavailable, VersionConflict
from state.leases import SubjectLeased, SubjectReleased
from state.store.flush import Flush
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import GENESIS, EventStore, EvidenceRef, EvidenceStore, NewEvent, RecordedEvent
from state.store.spool import Owed, Record, SpooledEvents, SpooledEvidence, line_of, read_spool
from state.store.spool_file import FileSpool, SpoolFolder

THEN = datetime(2026, 1, 1, 9, tzinfo=UTC)
STREAM = "rollout-0a1b"


def events(*types: str) -> tuple[NewEvent, ...]:
    return tuple(NewEvent(type, 1, {"action": type}, {}, THEN) for type in types)


def written(*records: Record) -> bytes:
    check, lines = GENESIS, []
    for record in records:
        line, check = line_of(record, check)
        lines.append(line)
    return b"".join(lines)


async def evidence(data: bytes) -> SpooledEvidence:
    ref = await MemoryEvidenceStore().put(data, "text/plain")
    return SpooledEvidence(ref.digest, "text/plain", data)


RELEASED = SubjectReleased(rollout="0a1b")
OWED = Owed("host-h:22", NewEvent(RELEASED.wire, 1, RELEASED.as_json(), {}, THEN))

NEW_EVENTS = st.builds(
    NewEvent,
    type=st.sampled_from(["action-started", "step-succeeded"]),
    schema_version=st.integers(1, 3),
    data=st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers() | st.text(st.characters(codec="utf-8"))),
    metadata=st.just({}),
    happened_at=st.datetimes(timezones=st.just(UTC)),
)
RECORDS = st.one_of(
    st.builds(
        SpooledEvents, st.just(STREAM), st.integers(0, 99), st.lists(NEW_EVENTS, min_size=1, max_size=3).map(tuple)
    ),
    st.builds(SpooledEvidence, st.just("ab" * 32), st.just("text/plain"), st.binary(max_size=50)),
    st.builds(Owed, st.just("host-h:22"), NEW_EVENTS),
)


@given(st.lists(RECORDS, max_size=6))
def test_what_is_written_is_read_back(records: list[Record]) -> None:
    found = read_spool(written(*records), "x.spool")
    assert found.records == tuple(records)
    assert not found.torn


@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_a_spool_cut_off_anywhere_keeps_every_line_that_was_whole(records: list[Record], data: st.DataObject) -> None:
    whole = written(*records)
    end = data.draw(st.integers(0, len(whole)))
    found = read_spool(whole[:end], "x.spool")
    assert found.records == tuple(records)[: whole[:end].count(b"\n")]
    assert found.torn == (end > 0 and whole[end - 1 : end] != b"\n")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(lambda lines: lines[:1] + lines[2:], 2, id="a-line-is-taken-out"),
        pytest.param(lambda lines: [lines[1], lines[0], *lines[2:]], 1, id="two-lines-change-places"),
        pytest.param(lambda lines: [lines[0], lines[1].replace(b"stop", b"slop"), lines[2]], 2, id="a-word-is-changed"),
        pytest.param(lambda lines: [lines[0], b"{}\n", lines[2]], 2, id="a-line-holds-something-else"),
        pytest.param(lambda lines: [lines[0], b"\xff\n", lines[2]], 2, id="a-line-is-no-text"),
        pytest.param(lambda lines: [lines[0], lines[0], *lines[1:]], 2, id="a-line-is-there-twice"),
    ],
)
def test_a_changed_spool_is_refused_and_names_its_first_wrong_line(change: Any, line: int) -> None:
    lines = written(*(SpooledEvents(STREAM, n, events(f"stop-{n}")) for n in range(3))).splitlines(keepends=True)
    with pytest.raises(SpoolDamaged, match=rf"Line {line} of x\.spool") as raised:
        read_spool(b"".join(change(lines)), "x.spool")
    assert raised.value.line == line


# --- the file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_spool_belongs_to_its_user_alone(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path / "data" / "spool")
    file = folder.of("0a1b.0")
    await file.append(b"one\n")
    await file.append(b"two\n")
    assert [mode_of(path) for path in (Path(file.place), Path(file.place).parent)] == [0o600, 0o700]
    assert (file.read(), folder.left()) == (b"one\ntwo\n", ("0a1b.0",))
    file.remove()
    assert (file.read(), folder.left()) == (b"", ())


async def test_a_spool_that_is_written_to_is_nobody_elses(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path)
    writer, other = folder.of("0a1b.0"), folder.of("0a1b.0")
    await writer.append(b"one\n")
    assert not other.hold()
    with pytest.raises(StoreUnavailable, match="cannot be spooled"):
        await other.append(b"two\n")
    writer.let_go()
    assert other.hold()
    other.remove()
    assert not folder.of("0a1b.0").hold()
    with pytest.raises(StoreUnavailable, match="another process's by now"):
        await writer.append(b"two\n")


async def test_what_was_let_go_of_can_be_gone_on_with(tmp_path: Path) -> None:
    file = SpoolFolder(tmp_path).of("0a1b.0")
    await file.append(b"one\n")
    file.let_go()
    await file.append(b"two\n")
    assert file.read() == b"one\ntwo\n"


async def test_a_spool_set_aside_is_kept_and_left_to_nobody(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path)
    kept = []
    for text in (b"first\n", b"second\n"):
        file = folder.of("0a1b.0")
        await file.append(text)
        kept.append(Path(file.set_aside()))
    assert [path.read_bytes() for path in kept] == [b"first\n", b"second\n"]
    assert folder.left() == ()


class Filling(FileSpool):
    """On a disk that takes a few bytes more, and then none until the reserve is given up."""

    def _write(self, descriptor: int, line: bytes) -> None:
        if (Path(self.place).parent / "reserve").exists():
            os.write(descriptor, line[:3])
            os.ftruncate(descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super()._write(descriptor, line)


async def test_a_full_disk_gives_up_its_reserve_for_the_spool(tmp_path: Path) -> None:
    SpoolFolder(tmp_path).reserve()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 8 << 20
    file = Filling(tmp_path / "0a1b.0.spool")
    await file.append(b"one\n")
    assert file.read() == b"one\n"


async def test_a_disk_that_takes_nothing_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the folder should be")
    with pytest.raises(StoreUnavailable, match="cannot be spooled to") as raised:
        await SpoolFolder(tmp_path / "spool").of("0a1b.0").append(b"one\n")
    assert str(tmp_path / "spool") in raised.value.hint


# --- its way into the stores


class Cut(Exception):
    """The process is gone."""


@dataclass
class Mortal:
    """Both stores, whose caller dies before (or after) the `at`-th change."""

    events: EventStore
    evidence: EvidenceStore
    at: int
    after: bool
    changes: int = 0

    async def append(self, stream: str, expected: int, new: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        self._die(before=True)
        done = await self.events.append(stream, expected, new)
        self._die(before=False)
        return done

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        self._die(before=True)
        done = await self.evidence.put(data, media_type)
        self._die(before=False)
        return done

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        return await self.events.read(stream, after_version)

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        return await self.events.read_last(stream, count)

    def _die(self, *, before: bool) -> None:
        self.changes += before
        if self.changes == self.at and before != self.after:
            raise Cut


async def leased(store: MemoryEventStore) -> None:
    lease = SubjectLeased(rollout="0a1b", holder="o", reason="", until="2026-01-01T12:00:00+00:00")
    await store.append("host-h:22", 0, [NewEvent(lease.wire, 1, lease.as_json())])
    await store.append(STREAM, 0, events("asked"))


async def whole_spool() -> tuple[Record, ...]:
    return (
        SpooledEvents(STREAM, 1, events("stop", "stopped")),
        await evidence(b"a journal"),
        SpooledEvents(STREAM, 3, events("gathered")),
        OWED,
        SpooledEvents(STREAM, 4, events("released")),
    )


@pytest.mark.parametrize("after", [pytest.param(False, id="before"), pytest.param(True, id="after")])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_flush_killed_at_any_change_is_made_again_with_the_same_result(at: int, after: bool) -> None:
    store, kept = MemoryEventStore(lambda: datetime(2026, 1, 1, 12, tzinfo=UTC)), MemoryEvidenceStore()
    await leased(store)
    spool = await whole_spool()
    mortal: Any = Mortal(store, kept, at, after)
    with pytest.raises(Cut):
        await Flush(mortal, mortal).run(spool)
    await Flush(store, kept).run(spool)
    await Flush(store, kept).run(spool)
    told = await store.read(STREAM)
    assert [event.type for event in told] == ["asked", "stop", "stopped", "gathered", "released"]
    assert {event.recorded_at for event in told} == {THEN}
    assert [event.type for event in await store.read("host-h:22")] == [SubjectLeased.wire, SubjectReleased.wire]
    assert await kept.get((await evidence(b"a journal")).digest) == b"a journal"


async def test_evidence_is_stored_before_all_events_and_those_in_one_append() -> None:
    store, kept = MemoryEventStore(lambda: THEN), MemoryEvidenceStore()
    await leased(store)
    mortal: Any = Mortal(store, kept, at=2, after=False)
    with pytest.raises(Cut):
        await Flush(mortal, mortal).run(await whole_spool())
    assert await kept.get((await evidence(b"a journal")).digest)
    assert len(await store.read(STREAM)) == 1
    mortal = Mortal(store, kept, at=3, after=False)
    with pytest.raises(Cut):
        await Flush(mortal, mortal).run(await whole_spool())
    assert len(await store.read(STREAM)) == 5


@pytest.mark.parametrize(
    ("there", "total"),
    [
        pytest.param(("rollout-resumed",), 2, id="instead-of-the-first"),
        pytest.param(("stop", "rollout-resumed"), 3, id="after-one-whose-answer-was-lost"),
    ],
)
async def test_nothing_is_forced_in_behind_somebody_elses_events(there: tuple[str, ...], total: int) -> None:
    store, kept = MemoryEventStore(lambda: THEN), MemoryEvidenceStore()
    await leased(store)
    await store.append(STREAM, 1, events(*there))
    with pytest.raises(VersionConflict):
        await Flush(store, kept).run(await whole_spool())
    assert len(await store.read(STREAM)) == total
    assert [event.type for event in await store.read("host-h:22")] == [SubjectLeased.wire]


async def test_events_that_were_stored_without_an_answer_are_passed_over_and_others_go_on_behind_them() -> None:
    store, kept = MemoryEventStore(lambda: datetime(2026, 1, 1, 12, tzinfo=UTC)), MemoryEvidenceStore()
    await leased(store)
    await store.append(STREAM, 1, [replace(event, happened_at=None) for event in events("stop", "stopped")])
    await Flush(store, kept).run(await whole_spool())
    await store.append(STREAM, 5, events("rollout-resumed"))
    await Flush(store, kept).run(await whole_spool())
    assert [event.type for event in await store.read(STREAM)][2:] == [
        "stopped",
        "gathered",
        "released",
        "rollout-resumed",
    ]


async def test_a_store_that_is_older_than_the_spool_gets_nothing_of_it() -> None:
    store = MemoryEventStore(lambda: THEN)
    with pytest.raises(VersionConflict):
        await Flush(store, MemoryEvidenceStore()).run([SpooledEvents(STREAM, 7, events("stop"))])
    assert await store.read_all() == ()
