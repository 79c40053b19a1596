"""A stream carried to another store is the same stream, or is not taken in."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime

import pytest

from state.errors import EvidenceCorrupt, HistoryCorrupt, InterlockError, NotFound, Refused, UsageInvalid
from state.store.connect import Stores
from state.store.export import export_lines, import_lines, refs_in
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import EvidenceRef, NewEvent

Change = Callable[[list[str]], Sequence[str]]


async def written(store: MemoryEventStore, evidence: MemoryEvidenceStore) -> list[str]:
    log = await evidence.put(b"line --api-key s3cret\n", "text/plain")
    raw = await evidence.put(b"\x00\xff", "application/octet-stream")
    items = {
        n: {"digest": r.digest, "media_type": r.media_type, "size": r.size} for n, r in (("log", log), ("raw", raw))
    }
    await store.append("other", 0, [NewEvent("made", 1, {})])
    await store.append("rollout-1", 0, [NewEvent("made", 1, {"text": "é\u2028", "big": 2**70}, {"by": "test"})])
    await store.append(
        "rollout-1", 1, [NewEvent("gathered", 2, {"items": items}), NewEvent("frozen", 1, {"items": items})]
    )
    return [line async for line in export_lines(store, "rollout-1", evidence)]


@pytest.fixture
async def lines(now: Callable[[], datetime]) -> list[str]:
    return await written(MemoryEventStore(now), MemoryEvidenceStore())


async def test_what_is_imported_is_what_was_exported(lines: list[str], stores: Stores) -> None:
    await stores.events.append("before", 0, [NewEvent("made", 1, {})])
    assert await import_lines(stores.events, [*lines, "\n"], stores.evidence) == "rollout-1"
    assert [line async for line in export_lines(stores.events, "rollout-1", stores.evidence)] == lines
    (late,) = await stores.events.append("rollout-1", 3, [NewEvent("made", 1, {})])
    assert (late.version, len(await stores.events.read("rollout-1"))) == (4, 4)


async def test_a_line_is_one_json_object_and_evidence_is_there_once(lines: list[str]) -> None:
    read = [json.loads(line) for line in lines]
    assert all("\n" not in line for line in lines)
    assert [one.get("version") for one in read] == [1, 2, 3, None, None]
    assert read[0]["recorded_at"] == "2026-01-01T12:00:00.002000+00:00"


async def test_memory_takes_a_stream_in_as_well(lines: list[str], now: Callable[[], datetime]) -> None:
    store, evidence = MemoryEventStore(now), MemoryEvidenceStore()
    await import_lines(store, lines, evidence)
    assert [line async for line in export_lines(store, "rollout-1", evidence)] == lines
    assert [e.position for e in await store.read_all()] == [1, 2, 3]
    with pytest.raises(Refused, match="Stream rollout-1 exists already, with 3 events"):
        await import_lines(store, lines)


async def test_an_import_into_a_stream_that_exists_is_refused(lines: list[str], stores: Stores) -> None:
    await stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})])
    with pytest.raises(Refused, match="Stream rollout-1 exists already, with 1 events"):
        await import_lines(stores.events, lines)
    assert len(await stores.events.read("rollout-1")) == 1


def changed(line: int, **fields: object) -> Change:
    return lambda lines: [*lines[:line], json.dumps({**json.loads(lines[line]), **fields}), *lines[line + 1 :]]


REFUSED: dict[str, tuple[Change, type[InterlockError], str]] = {
    "a-change-of-the-data": (changed(1, data={}), HistoryCorrupt, "Event 2 of rollout-1"),
    "a-change-of-the-time": (changed(1, recorded_at="2026-01-01T00:00:00Z"), HistoryCorrupt, "Event 2 of rollout-1"),
    "a-line-that-is-gone": (lambda lines: lines[1:], HistoryCorrupt, "Event 1 of rollout-1 .* is missing"),
    "two-streams": (changed(1, stream="other"), HistoryCorrupt, "Event 2 of rollout-1 .* other stands in its place"),
    "changed-evidence": (changed(3, base64="AAAA"), EvidenceCorrupt, "Evidence .* its content gives"),
    "evidence-that-is-no-base64": (changed(3, base64="~"), EvidenceCorrupt, "is no base64"),
    "no-json": (lambda lines: ["{"], UsageInvalid, "Line 1 is no JSON"),
    "no-object": (lambda lines: ["[]"], UsageInvalid, "Line 1 is no line of an export"),
    "another-format": (changed(0, interlock=2), UsageInvalid, "Line 1 is no line of an export in format 1"),
    "a-field-too-many": (changed(0, extra=1), UsageInvalid, "Line 1 lacks a field, has one too many"),
    "a-field-of-another-type": (changed(0, version="1"), UsageInvalid, "or one of another type"),
    "a-boolean-for-a-number": (changed(0, version=True), UsageInvalid, "or one of another type"),
    "no-time": (changed(0, recorded_at="noon"), UsageInvalid, "Event 1 has no time"),
    "a-time-without-a-zone": (changed(0, recorded_at="2026-01-01T00:00:00"), UsageInvalid, "has no time zone"),
    "nothing": (lambda lines: [], UsageInvalid, "There is no event in these lines"),
}


@pytest.mark.parametrize(
    ("change", "error", "said"), [pytest.param(*case, id=claim) for claim, case in REFUSED.items()]
)
async def test_lines_that_are_not_an_export_are_refused_and_leave_no_event(
    lines: list[str], now: Callable[[], datetime], change: Change, error: type[InterlockError], said: str
) -> None:
    store = MemoryEventStore(now)
    with pytest.raises(error, match=said):
        await import_lines(store, change(lines), MemoryEvidenceStore())
    assert await store.streams() == ()


async def test_a_stream_that_is_not_there_is_not_found(stores: Stores) -> None:
    with pytest.raises(NotFound, match="no stream `rollout-1`"):
        [line async for line in export_lines(stores.events, "rollout-1")]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        pytest.param({"items": {"a": {"digest": "d", "media_type": "m", "size": 1}}}, 1, id="in-an-object"),
        pytest.param({"items": [[{"digest": "d", "media_type": "m", "size": 1}]]}, 1, id="in-a-list"),
        pytest.param({"digest": "d", "media_type": "m"}, 0, id="not-what-only-looks-like-one"),
    ],
)
def test_references_are_found_wherever_they_are(data: dict[str, object], count: int) -> None:
    assert list(refs_in(data)) == [EvidenceRef("d", "m", 1)] * count
