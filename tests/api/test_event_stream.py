"""Followers of the events lose nothing and see each event once, however late, slow, or often they come."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from deployments.api import events as routes
from deployments.api import tail
from flows.ports import utc_now
from state.errors import StoreUnavailable
from state.store.connect import Stores, open_stores
from state.store.port import NewEvent, RecordedEvent
from state.store.sql import SqlEventStore
from state.store.tokens import TokenStore
from tests.api.served import GENEROUS, Served, served, until

SSE = {"Accept": "text/event-stream"}
ALL = "/api/v1/events"
BEGUN = datetime(2026, 11, 30, 6, tzinfo=UTC)


class Hour:
    """A clock of an hour that passes in as many looks as it is told."""

    def __init__(self, looks: int) -> None:
        self._step = timedelta(hours=1) / looks
        self._moment = BEGUN

    def __call__(self) -> datetime:
        self._moment += self._step
        return self._moment


Seen = tuple[int, str, int]
"""Position, stream, version."""

SHAPE = re.compile(rb'id: (\d+)\nevent: ([a-z-]+)\ndata: {"position":(\d+),"stream":"([a-z0-9-]+)","version":(\d+),.*}')


class Follower:
    """What one client has seen, in the order in which it came; it goes on after the last when it connects again."""

    def __init__(self, client: httpx.AsyncClient, path: str = ALL) -> None:
        self._client, self.path = client, path
        self.seen: list[Seen] = []
        self.heartbeats = 0
        self.connected = 0
        self._rest = b""

    async def follow(self, count: int, *, slowly_s: float = 0.0) -> None:
        """Read until it has seen `count` events in all, or the stream ends; then hang up."""
        given = SSE | ({"Last-Event-ID": str(self.seen[-1][0])} if self.seen else {})
        self._rest = b""
        async with self._client.stream("GET", self.path, headers=given) as answer:
            assert answer.status_code == 200
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            self.connected += 1
            async for chunk in answer.aiter_raw():
                self._take(chunk)
                if len(self.seen) >= count:
                    return
                await asyncio.sleep(slowly_s)

    def _take(self, chunk: bytes) -> None:
        *whole, self._rest = (self._rest + chunk).split(b"\n\n")
        for block in whole:
            if block.startswith(b"id: "):
                match = SHAPE.fullmatch(block)
                assert match, block
                assert match[1] == match[3]
                self.seen.append((int(match[1]), match[4].decode(), int(match[5])))
            elif block.startswith(b":"):
                self.heartbeats += 1
            else:
                assert block == b"retry: 1000"


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(store_url, tmp_path / "marks", started=False) as ready:
        yield ready


async def append(events: SqlEventStore, stream: str, version: int, count: int = 1) -> None:
    made = [NewEvent("noted", 1, {"number": version + i, "text": "ü\n\r\u2028 data: x"}) for i in range(count)]
    await events.append(stream, version, made)


async def history(stores: Stores) -> list[Seen]:
    found: list[Seen] = []
    while page := await stores.events.read_all(found[-1][0] if found else 0, 1000):
        found += [(event.position, event.stream, event.version) for event in page]
    return found


STREAMS = 12
FOLLOWERS = 100


def names(number: int) -> str:
    return f"{number:012d}"


async def an_hour(url: str, count: int, begun: asyncio.Event) -> None:
    """`count` events of twelve rollouts over an hour of the store's clock, from two writers, as fast as it goes."""
    async with open_stores(url, Hour(count)) as stores:

        async def write(mine: range) -> None:
            for turn in range(count // STREAMS):
                for number in mine:
                    await append(stores.events, f"rollout-{names(number)}", turn)
                if turn == 1:
                    begun.set()

        await asyncio.gather(write(range(0, STREAMS, 2)), write(range(1, STREAMS, 2)))


async def test_a_hundred_clients_over_an_hour_lose_nothing_and_see_each_event_once(
    server: Served, store_url: str
) -> None:
    """Forty follow everything from the beginning, five of them slowly; twenty come later; twenty hang up again and
    again and go on after their position; twenty follow one rollout each."""
    count = 3600 if store_url.startswith("sqlite") else 1200
    limits = httpx.Limits(max_connections=None)
    given = {"Authorization": f"Bearer {server.tokens['reader']}"}
    async with (
        asyncio.timeout(240),
        httpx.AsyncClient(base_url=server.url, headers=given, timeout=120, trust_env=False, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):
        begun = asyncio.Event()
        group.create_task(an_hour(store_url, count, begun))
        followers = [Follower(client) for _ in range(FOLLOWERS)]
        for number, follower in enumerate(followers):
            group.create_task(_lived(number, follower, count, begun))
    recorded = await history(server.api.stores)
    assert len(recorded) == count
    times = [event.recorded_at for event in await server.api.stores.events.read_all(0, count)]
    assert max(times) - min(times) >= timedelta(minutes=59)
    for follower in followers[:80]:
        assert follower.seen == recorded
    for number, follower in enumerate(followers[80:], 80):
        assert follower.seen == [one for one in recorded if one[1] == f"rollout-{names(number % STREAMS)}"]
    assert all(follower.connected >= count // 600 for follower in followers[60:80])


async def _lived(number: int, follower: Follower, count: int, begun: asyncio.Event) -> None:
    if number < 40:
        await follower.follow(count, slowly_s=0.01 if number < 5 else 0.0)
    elif number < 60:
        await asyncio.sleep((number - 40) / 5)
        await follower.follow(count)
    elif number < 80:
        while len(follower.seen) < count:
            await follower.follow(min(count, len(follower.seen) + 51 + number))
    else:
        await begun.wait()
        follower.path = f"/api/v1/rollouts/{names(number % STREAMS)}/events"
        await follower.follow(count // STREAMS)


async def test_a_client_that_reconnects_misses_none_whatever_was_recorded_meanwhile(server: Served) -> None:
    events = server.api.stores.events
    async with server.client("reader") as client:
        follower = Follower(client)
        for turn in range(6):
            await append(events, "rollout-a", 3 * turn, 3)
            await follower.follow(2 * turn + 1)
        await follower.follow(18)
    assert follower.seen == await history(server.api.stores)


@pytest.mark.parametrize("kept", [0, 3, 4096], ids=["nothing-is-kept", "hardly-anything-is-kept", "everything-is-kept"])
async def test_how_much_of_the_end_is_kept_changes_nothing(
    server: Served, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "KEPT", kept)
    monkeypatch.setattr(tail, "PAGE", 7)
    events = server.api.stores.events
    async with server.client("reader") as client, asyncio.timeout(60), asyncio.TaskGroup() as group:
        everything, one = Follower(client), Follower(client, "/api/v1/rollouts/a/events")
        await append(events, "rollout-a", 0, 20)
        group.create_task(everything.follow(100))
        group.create_task(one.follow(60))
        for turn in range(40):
            await append(events, "rollout-a", 20 + turn)
            await append(events, "rollout-b", turn)
    recorded = await history(server.api.stores)
    assert everything.seen == recorded
    assert one.seen == [seen for seen in recorded if seen[1] == "rollout-a"]


async def test_silence_is_filled_with_comments_and_then_goes_on(sqlite_url: str, tmp_path: Path) -> None:
    quick = GENEROUS.model_copy(update={"heartbeat_s": 0.05})
    async with served(sqlite_url, tmp_path / "marks", quick, started=False) as server:
        async with server.client("reader") as client, asyncio.TaskGroup() as group:
            follower = Follower(client)
            group.create_task(follower.follow(1))
            await until(lambda: follower.heartbeats >= 3)
            await append(server.api.stores.events, "rollout-a", 0)
        assert [seen[1:] for seen in follower.seen] == [("rollout-a", 1)]


async def test_an_event_is_sent_within_a_moment(server: Served) -> None:
    """One look of the tail, and what a busy machine takes."""
    events = server.api.stores.events
    async with server.client("reader") as client, asyncio.TaskGroup() as group:
        follower = Follower(client)
        await append(events, "rollout-a", 0)
        group.create_task(follower.follow(2))
        await until(lambda: follower.seen)
        begun = time.monotonic()
        await append(events, "rollout-a", 1)
        await until(lambda: len(follower.seen) >= 2)
        assert time.monotonic() - begun < 2


async def test_streams_end_cleanly_when_the_server_stops(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path / "marks", started=False) as server:
        async with server.client("reader") as client:
            followers = [Follower(client) for _ in range(5)]
            following = [asyncio.create_task(follower.follow(10)) for follower in followers]
            await until(lambda: all(follower.connected for follower in followers))
            begun = time.monotonic()
            server.server.should_exit = True
            await asyncio.gather(*following)
        assert time.monotonic() - begun < 4
        assert server.app.state.tail.followers == 0


async def test_the_stream_of_a_revoked_token_is_cut_off(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "ASKED_AGAIN_S", 0.0)
    async with server.client("reader") as client, asyncio.timeout(30):
        follower = Follower(client)
        following = asyncio.create_task(follower.follow(10))
        await until(lambda: follower.connected)
        await TokenStore(server.api.stores.engine).revoke("reader", utc_now())
        await following
    assert follower.seen == []


async def test_a_stream_ends_when_the_store_fails_and_is_gone_on_with(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = server.api.stores.events
    read_all = events.read_all
    async with server.client("reader") as client, asyncio.timeout(60):
        follower = Follower(client)
        await append(events, "rollout-a", 0, 3)
        following = asyncio.create_task(follower.follow(6))
        await until(lambda: len(follower.seen) == 3)

        async def away(after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
            raise StoreUnavailable("connection refused")

        monkeypatch.setattr(events, "read_all", away)
        await following
        monkeypatch.setattr(events, "read_all", read_all)
        await append(events, "rollout-a", 3, 3)
        await follower.follow(6)
    assert follower.seen == await history(server.api.stores)


async def test_too_many_streams_are_refused_and_one_that_ends_makes_room(sqlite_url: str, tmp_path: Path) -> None:
    few = GENEROUS.model_copy(update={"streams": 2})
    async with served(sqlite_url, tmp_path / "marks", few, started=False) as server, server.client("reader") as client:
        followers = [Follower(client) for _ in range(2)]
        following = [asyncio.create_task(follower.follow(1)) for follower in followers]
        await until(lambda: all(follower.connected for follower in followers))
        third = await client.get(ALL, headers=SSE)
        assert (third.status_code, third.json()["code"]) == (429, "streams-exhausted")
        assert third.headers["Retry-After"] == "5"
        following[0].cancel()
        await until(lambda: server.app.state.tail.followers == 1)
        another = asyncio.create_task(Follower(client).follow(1))
        await until(lambda: server.app.state.tail.followers == 2)
        await append(server.api.stores.events, "rollout-a", 0)
        await asyncio.gather(following[1], another)


async def test_one_reader_looks_whoever_many_follow_and_none_while_nobody_does(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    read_all = server.api.stores.events.read_all

    async def counted(after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        nonlocal looks
        looks += 1
        return await read_all(after_position, limit)

    monkeypatch.setattr(server.api.stores.events, "read_all", counted)
    await asyncio.sleep(0.2)
    assert looks == 0
    async with server.client("reader") as client:
        followers = [Follower(client) for _ in range(50)]
        following = [asyncio.create_task(follower.follow(1)) for follower in followers]
        await until(lambda: all(follower.connected for follower in followers))
        looks, begun = 0, time.monotonic()
        await asyncio.sleep(0.5)
        assert looks <= (time.monotonic() - begun) / server.api.settings.tail_s + 2
        await append(server.api.stores.events, "rollout-a", 0)
        await asyncio.gather(*following)


async def test_pages_of_events_go_on_where_the_last_ended(server: Served) -> None:
    await append(server.api.stores.events, "rollout-a", 0, 25)
    await append(server.api.stores.events, "rollout-b", 0, 5)
    for path, count in ((ALL, 30), ("/api/v1/rollouts/a/events", 25)):
        positions: list[int] = []
        async with server.client("reader") as client:
            after = 0
            while page := (await client.get(path, params={"after": after, "limit": 7})).json()["events"]:
                positions += [event["position"] for event in page]
                after = page[-1]["position"]
            last = (await client.get(path, params={"after": after})).json()
        assert positions == sorted(set(positions))
        assert (len(positions), last) == (count, {"events": [], "next": after})
