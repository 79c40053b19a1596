"""What bounds a client, what every answer carries, and what is said while the store is away."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.api.buckets import Buckets
from deployments.api.headers import ALWAYS
from deployments.api.reading import after_cursor, cursor_of
from deployments.api.settings import ApiSettings
from flows.ports import utc_now
from state.errors import StoreUnavailable, UsageInvalid
from tests.api.served import GENEROUS, Served, served

R = "/api/v1/rollouts"


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    settings = GENEROUS.model_copy(update={"body_bytes": 4096, "body_timeout_s": 0.3})
    async with served(sqlite_url, tmp_path / "marks", settings, started=False) as ready:
        yield ready


async def test_no_answer_waits_for_an_acknowledgement_of_its_head(server: Served) -> None:
    async with server.client() as client:
        assert (await client.get("/api/v1/services")).status_code == 200
        (connection,) = server.server.server_state.connections
        connected = connection.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_a_token_that_asks_too_often_waits_and_others_do_not(sqlite_url: str, tmp_path: Path) -> None:
    slow = ApiSettings(rate=0.5, burst=5)
    async with (
        served(sqlite_url, tmp_path / "marks", slow, started=False) as server,
        server.client("reader") as reader,
        server.client("all") as other,
    ):
        answers = [await reader.get("/api/v1/services") for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert answers[-1].json()["code"] == "rate-limited"
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 2
        assert (await other.get("/api/v1/services")).status_code == 200


@given(asks=st.lists(st.floats(0, 5), max_size=60), rate=st.floats(0.1, 20), burst=st.integers(1, 10))
def test_no_more_are_let_in_than_the_rate_and_the_burst_allow(asks: list[float], rate: float, burst: int) -> None:
    now = 0.0
    buckets = Buckets(rate, burst, lambda: now)
    let_in = 0
    for pause in asks:
        now += pause
        wait_s = buckets.take("a")
        let_in += not wait_s
        assert wait_s >= 0
    assert let_in <= burst + now * rate + 1e-6
    assert let_in >= min(len(asks), burst)


@given(pause=st.floats(0, 100), rate=st.floats(0.05, 20))
def test_who_waits_as_long_as_it_is_told_is_let_in(pause: float, rate: float) -> None:
    now = 0.0
    buckets = Buckets(rate, 1, lambda: now)
    assert buckets.take("a") == 0
    now += pause / 100 / rate * 0.99
    wait_s = buckets.take("a")
    now += wait_s + 1e-6
    assert buckets.take("a") == 0


async def test_a_body_over_the_limit_is_refused_by_what_it_says_and_by_what_it_is(server: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b" " * 1000

    async with server.client() as client:
        stated = await client.post(R, content=b" " * 5000)
        chunked = await client.post(R, content=pieces())
        whole = await client.post(R, content=b" " * 4096)
    for answer in (stated, chunked):
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert whole.status_code == 422


@pytest.mark.parametrize("length", ["x", "-1", "1e3", "9" * 30])
async def test_an_odd_length_is_no_way_in(server: Served, length: str) -> None:
    answer = await spoken(server, f"Content-Length: {length}\r\n", b"{}")
    assert answer.split(b" ")[1] in (b"400", b"413")


async def test_a_body_that_does_not_come_is_not_waited_for(server: Served) -> None:
    answer = await spoken(server, "Content-Length: 100\r\n", b'{"manif')
    assert answer.split(b" ")[1] == b"408"
    assert b"body-too-slow" in answer


async def spoken(server: Served, headers: str, body: bytes) -> bytes:
    """A request as written by hand, and the head of its answer."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {R} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.tokens['all']}\r\n"
    writer.write(head.encode() + headers.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()
    async with asyncio.timeout(20):
        answer = await reader.read(4096)
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "path", ["/healthz", "/api/v1/services", "/api/v1/nothing", "/api/v1/openapi.json", "/metrics"]
)
async def test_every_answer_carries_the_headers(server: Served, path: str) -> None:
    async with server.client() as client:
        answer = await client.get(path)
    assert {name: answer.headers.get(name) for name in ALWAYS} == ALWAYS


async def test_other_hosts_and_origins_are_refused_only_where_some_are_named(sqlite_url: str, tmp_path: Path) -> None:
    named = GENEROUS.model_copy(update={"hosts": ("127.0.0.1",), "origins": ("https://panel.example",)})
    origin = {"Origin": "https://panel.example"}
    async with served(sqlite_url, tmp_path / "marks", named, started=False) as server, server.client() as client:
        assert (await client.get("/healthz")).status_code == 200
        other = await client.get("/healthz", headers={"Host": "evil.example"})
        assert (other.status_code, other.json()["code"]) == (421, "host-unknown")
        allowed = await client.get("/healthz", headers=origin)
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://panel.example"
        foreign = await client.get("/healthz", headers={"Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in foreign.headers


async def test_by_default_any_host_is_answered_and_no_origin_is_allowed(server: Served) -> None:
    async with server.client() as client:
        answer = await client.get("/healthz", headers={"Host": "any.example", "Origin": "https://any.example"})
    assert answer.status_code == 200
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_store_that_is_away_is_503_and_when_to_ask_again(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.client() as client:
        assert (await client.get("/readyz")).json() == {"ready": True, "parts": {"store": True, "runner": True}}
        away = StoreUnavailable("connection refused")
        monkeypatch.setattr(server.app.state.guard.tokens, "presented", _raising(away))
        for path in ("/api/v1/services", "/metrics", "/api/v1/events"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), path
            assert answer.json()["code"] == "store-unavailable"
        assert (await client.get("/healthz")).status_code == 200


async def test_a_server_without_its_store_or_runner_is_not_ready(
    server: Served, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.resident, "parts", {"runner": lambda: False})
    async with server.client("") as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert answer.json() == {"ready": False, "parts": {"store": True, "runner": False}}
        await server.api.stores.engine.dispose()
        _folder_instead_of(Path(sqlite_url.removeprefix("sqlite:///")))
        assert (await client.get("/readyz")).json()["parts"]["store"] is False


def _folder_instead_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


async def test_metrics_say_the_same_after_a_restart(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path / "marks", started=False) as server:
        token = server.tokens["reader"]
        async with server.client("roller") as client:
            body = {"manifest": server.scene.manifest()}
            rollout = (await client.post("/api/v1/verify", json=body)).json()["rollout"]
        outcome = await server.ended(rollout)
        before = await _metrics(server)
    async with served(sqlite_url, tmp_path / "marks", started=False) as server:
        server.tokens["reader"] = token
        assert await _metrics(server) == before
    assert f'interlock_rollouts_total{{outcome="{outcome}",purpose="verify",service="qwen35-122b"}} 1.0' in before


async def _metrics(server: Served) -> str:
    async with server.client("reader") as client:
        answer = await client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    return answer.text


async def test_an_error_that_nobody_expected_is_a_problem_without_its_insides(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        server.api.catalogue, "services", _raising(ZeroDivisionError("the inside of it")), raising=False
    )
    async with server.client() as client:
        answer = await client.get("/api/v1/services")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "inside of it" not in answer.text
    assert "Traceback" not in answer.text


@given(st.datetimes(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80))
def test_a_cursor_leads_back_to_its_line(at: object, stream: str) -> None:
    moment = at.replace(tzinfo=utc_now().tzinfo)  # type: ignore[attr-defined]  # hypothesis's datetimes
    assert after_cursor(cursor_of({"requested_at": moment, "stream": stream})) == (moment, stream)


@given(st.text(alphabet="ABCDEFabcdef0123456789-_", max_size=80) | st.binary(max_size=60).map(lambda b: b.hex()))
def test_any_other_text_is_no_cursor(text: str) -> None:
    with pytest.raises(UsageInvalid, match="The cursor is none that a page gave"):
        after_cursor(text)


def _raising(error: Exception) -> object:
    async def raising(*_args: object, **_named: object) -> None:
        raise error

    return raising
