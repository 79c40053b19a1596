"""What every EventStore promises, checked of each of them."""

import asyncio
from dataclasses import replace
from datetime import UTC

import pytest

from state.errors import VersionConflict
from state.store.chain import check_chain
from state.store.port import GENESIS, EventStore, NewEvent


def made(count: int, type: str = "made") -> list[NewEvent]:
    return [NewEvent(type, 1, {"number": number}, {"by": "test"}) for number in range(1, count + 1)]


async def test_what_was_appended_is_read_back_in_order(event_store: EventStore) -> None:
    appended = await event_store.append("rollout-1", 0, made(2))
    appended += await event_store.append("rollout-1", 2, made(1, "ended"))
    assert await event_store.read("rollout-1") == appended
    assert [(e.version, e.type, e.data, e.metadata) for e in appended] == [
        (1, "made", {"number": 1}, {"by": "test"}),
        (2, "made", {"number": 2}, {"by": "test"}),
        (3, "ended", {"number": 1}, {"by": "test"}),
    ]


async def test_the_time_of_recording_is_the_clocks_in_utc(event_store: EventStore) -> None:
    await event_store.append("rollout-1", 0, made(1))
    (read,) = await event_store.read("rollout-1")
    assert read.recorded_at.isoformat() == "2026-01-01T12:00:00.001000+00:00"
    assert read.recorded_at.tzinfo is UTC


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"n": 2**80, "m": -(2**63) - 1}, id="integers-beyond-64-bits"),
        pytest.param({"f": 0.1, "g": 1e300, "h": -0.0, "i": 1.0}, id="floats"),
        pytest.param({"s": 'é ✓ 🚂 \u2028 \x00 \x7f \\ "'}, id="any-character"),
        pytest.param({"ключ": {"": [None, True, [], {}]}}, id="any-shape"),
    ],
)
async def test_json_comes_back_exactly(event_store: EventStore, data: dict[str, object]) -> None:
    (appended,) = await event_store.append("rollout-1", 0, [NewEvent("made", 1, data, data)])
    (read,) = await event_store.read("rollout-1")
    assert (repr(read.data), repr(read.metadata)) == (repr(appended.data), repr(appended.metadata))
    assert repr(dict(sorted(read.data.items()))) == repr(dict(sorted(data.items())))


@pytest.mark.parametrize(
    ("stream", "event", "said"),
    [
        pytest.param("", NewEvent("made", 1, {}), "is no name", id="a-stream-without-a-name"),
        pytest.param("a\nb", NewEvent("made", 1, {}), "is no name", id="a-stream-with-a-line-end"),
        pytest.param("a", NewEvent("", 1, {}), "is no name", id="a-type-without-a-name"),
        pytest.param("a", NewEvent("made", 1, {"f": float("nan")}), "JSON compliant", id="not-a-number"),
        pytest.param("a", NewEvent("made", 1, {"s": "\ud800"}), "surrogates not allowed", id="half-a-character"),
    ],
)
async def test_what_cannot_be_kept_faithfully_is_refused_whole(
    event_store: EventStore, stream: str, event: NewEvent, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        await event_store.append(stream, 0, [*made(1), event])
    assert await event_store.read_all() == ()


@pytest.mark.parametrize("expected", [pytest.param(0, id="behind"), pytest.param(2, id="ahead")])
async def test_another_version_than_the_streams_is_a_conflict_that_says_both(
    event_store: EventStore, expected: int
) -> None:
    await event_store.append("rollout-1", 0, made(1))
    with pytest.raises(VersionConflict, match=f"is at version 1, not {expected}") as caught:
        await event_store.append("rollout-1", expected, made(1))
    assert (caught.value.expected, caught.value.actual) == (expected, 1)
    assert len(await event_store.read("rollout-1")) == 1


async def test_of_many_writers_at_one_version_exactly_one_wins(event_store: EventStore) -> None:
    outcomes = await asyncio.gather(
        *(event_store.append("rollout-1", 0, made(2, f"writer-{n}")) for n in range(8)), return_exceptions=True
    )
    won = [o for o in outcomes if not isinstance(o, BaseException)]
    assert [type(o) for o in outcomes if isinstance(o, BaseException)] == [VersionConflict] * 7
    assert list(await event_store.read("rollout-1")) == list(won[0])


async def test_an_append_of_nothing_still_checks_the_version(event_store: EventStore) -> None:
    assert await event_store.append("rollout-1", 0, []) == ()
    with pytest.raises(VersionConflict):
        await event_store.append("rollout-1", 1, [])
    assert await event_store.streams() == ()


async def test_reading_goes_on_after_a_version(event_store: EventStore) -> None:
    appended = await event_store.append("rollout-1", 0, made(3))
    assert await event_store.read("rollout-1", 1) == appended[1:]
    assert await event_store.read("rollout-1", 3) == ()
    assert await event_store.read("rollout-1", 9) == ()
    assert await event_store.read("nobody") == ()


async def test_all_events_are_paged_by_position(event_store: EventStore) -> None:
    first = await event_store.append("a", 0, made(2))
    second = await event_store.append("b", 0, made(2))
    third = await event_store.append("a", 2, made(1))
    everything = (*first, *second, *third)
    assert await event_store.read_all() == everything
    assert await event_store.read_all(limit=3) == everything[:3]
    assert await event_store.read_all(everything[2].position) == everything[3:]
    assert [e.position for e in everything] == sorted(e.position for e in everything)


async def test_streams_are_named_by_prefix_in_order_of_their_first_event(event_store: EventStore) -> None:
    for name in ("rollout-b", "rollout-a", "Rollout-c", "roll_ut-d", "host-é"):
        await event_store.append(name, 0, made(2))
    assert await event_store.streams("rollout-") == ("rollout-b", "rollout-a")
    assert await event_store.streams("roll_") == ("roll_ut-d",)
    assert await event_store.streams("host-é") == ("host-é",)
    assert await event_store.streams() == ("rollout-b", "rollout-a", "Rollout-c", "roll_ut-d", "host-é")


async def test_each_digest_hangs_on_the_one_before(event_store: EventStore) -> None:
    appended = await event_store.append("a", 0, made(3))
    (other,) = await event_store.append("b", 0, made(1))
    check_chain(appended)
    check_chain(appended[1:], appended[0].digest, 1)
    check_chain([other], GENESIS)
    assert len({e.digest for e in (*appended, other)}) == 4


async def test_what_a_reader_does_to_its_copy_stays_with_it(event_store: EventStore) -> None:
    await event_store.append("a", 0, made(1))
    (mine,) = await event_store.read("a")
    assert isinstance(mine.data, dict)
    mine.data["number"] = 7
    (again,) = await event_store.read("a")
    assert again == replace(mine, data={"number": 1})


@pytest.mark.parametrize("count", [1, 2, 3, 9])
async def test_the_newest_events_are_read_from_the_end(event_store: EventStore, count: int) -> None:
    appended = await event_store.append("a", 0, made(3))
    await event_store.append("b", 0, made(5))
    assert await event_store.read_last("a", count) == appended[-count:]
    assert await event_store.read_last("nobody", count) == ()


async def test_what_was_read_from_the_end_can_be_appended_to(event_store: EventStore) -> None:
    await event_store.append("a", 0, made(3))
    (last,) = await event_store.read_last("a", 1)
    (next_,) = await event_store.append("a", last.version, made(1))
    check_chain([next_], last.digest, last.version)
    assert len(await event_store.read("a")) == 4


LEASE = {"action": "lease:0", "attempt": 1}
STANDINGS = {
    "begun": ((), True),
    "concluded-without-a-lease": ((("rollout-concluded", {}),), False),
    "concluded-with-a-lease-that-was-asked-for": (
        (("action-started", LEASE), ("rollout-concluded", {})),
        True,
    ),
    "concluded-and-given-back": (
        (("action-started", LEASE), ("rollout-concluded", {}), ("lease-released", {})),
        False,
    ),
    "given-back-and-a-device-cleared": (
        (("action-started", LEASE), ("rollout-concluded", {}), ("lease-released", {}), ("device-cleared", {})),
        False,
    ),
    "gone-on-with-after-its-end": ((("rollout-concluded", {}), ("rollout-resumed", {})), True),
    "ended-after-that": (
        (("rollout-concluded", {}), ("rollout-resumed", {}), ("rollout-concluded", {})),
        False,
    ),
}


async def test_what_may_be_unfinished_is_named_in_order_and_what_has_ended_is_not(event_store: EventStore) -> None:
    for name, (rest, _) in STANDINGS.items():
        await event_store.append(f"rollout-{name}", 0, made(1, "rollout-requested"))
        for type_, data in rest:
            version = len(await event_store.read(f"rollout-{name}"))
            await event_store.append(f"rollout-{name}", version, [NewEvent(type_, 1, data)])
    await event_store.append("host-a", 0, made(2))
    open_ = tuple(f"rollout-{name}" for name, (_, unfinished) in STANDINGS.items() if unfinished)
    assert await event_store.unfinished() == open_
