"""One key, one rollout: sent twice, at the same instant, in another process, after a restart."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.api import once
from flows.ports import utc_now
from state.errors import StoreUnavailable
from state.events import RolloutRequested
from state.store.connect import open_stores
from state.store.keyed_requests import KeyedRequest, KeyedRequests
from state.store.tokens import TokenStore
from tests.api.served import Served, served

R = "/api/v1/rollouts"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    """On both databases. The service does not run, so that what is begun soon ends, refused."""
    async with served(store_url, tmp_path / "marks", started=False) as ready:
        yield ready


def verification(server: Served, reason: str = "first") -> dict[str, Any]:
    return {"manifest": server.scene.manifest(), "reason": reason, "purpose": "verify"}


async def post(client: httpx.AsyncClient, key: str, body: Any, path: str = R) -> httpx.Response:
    return await client.post(path, json=body, headers={"Idempotency-Key": key})


async def rollouts(server: Served) -> tuple[str, ...]:
    return await server.api.stores.events.streams("rollout-")


async def test_the_same_request_twice_begins_one_rollout_and_gets_one_answer(server: Served) -> None:
    async with server.client() as client:
        first = await post(client, "k", verification(server))
        await server.ended(first.json()["rollout"])
        second = await post(client, "k", verification(server))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.content == second.content
    assert ("Idempotency-Replayed" in first.headers, second.headers["Idempotency-Replayed"]) == (False, "true")
    assert await rollouts(server) == (f"rollout-{first.json()['rollout']}",)


async def test_twenty_at_the_same_instant_begin_one(server: Served) -> None:
    async with server.client() as client:
        answers = await asyncio.gather(*(post(client, "k", verification(server)) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert len(await rollouts(server)) == 1


async def test_the_key_with_another_body_is_refused(server: Served) -> None:
    async with server.client() as client:
        first = await post(client, "k", verification(server))
        other = await post(client, "k", verification(server, "second"))
        elsewhere = await post(client, "k", verification(server), "/api/v1/verify")
    assert first.status_code == 202
    for answer in (other, elsewhere):
        assert (answer.status_code, answer.json()["code"]) == (422, "key-reused")
    assert len(await rollouts(server)) == 1


async def test_two_bodies_with_one_key_at_the_same_instant_begin_one(server: Served) -> None:
    async with server.client() as client:
        answers = await asyncio.gather(*(post(client, "k", verification(server, str(i % 2))) for i in range(10)))
    assert sorted(answer.status_code for answer in answers) == [202] * 5 + [422] * 5
    assert len(await rollouts(server)) == 1


async def test_without_a_key_each_request_is_one_of_its_own(server: Served) -> None:
    async with server.client() as client:
        for number in range(2):
            answer = await client.post(R, json=verification(server, str(number)))
            await server.ended(answer.json()["rollout"])
    assert len(await rollouts(server)) == 2


async def test_keys_of_different_tokens_have_nothing_to_do_with_each_other(server: Served) -> None:
    begun = []
    for name in ("all", "roller"):
        async with server.client(name) as client:
            answer = await post(client, "k", verification(server))
        begun.append(answer.json()["rollout"])
        await server.ended(begun[-1])
    assert len(set(begun)) == 2
    assert [await server.requested_by(rollout) for rollout in begun] == ["all", "roller"]


async def test_a_refused_request_frees_its_key(server: Served) -> None:
    async with server.client() as client:
        by_the_manifest = await post(client, "k", {"manifest": "interlock: 1"})
        by_the_document = await post(client, "k", {"manifest": 7})
        unread = await client.post(R, content=b"[" * 90_000, headers={"Idempotency-Key": "k"} | JSON)
        on_file = await post(client, "k", {"service": "nobody", "revision": "day"})
        mended = await post(client, "k", verification(server))
    refused = (by_the_manifest, by_the_document, unread, on_file)
    assert [answer.status_code for answer in (*refused, mended)] == [422, 422, 400, 404, 202]


async def test_a_request_whose_store_was_lost_keeps_its_key_and_begins_once(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request was recorded, and the server lost the store before it could say so."""
    begin = server.resident.start

    async def lost(requested: RolloutRequested) -> None:
        await begin(requested)
        raise StoreUnavailable("connection reset")

    monkeypatch.setattr(server.resident, "start", lost)
    async with server.client() as client:
        first = await post(client, "k", verification(server))
        assert (first.status_code, first.headers["Retry-After"]) == (503, "5")
        (stream,) = await rollouts(server)
        second = await post(client, "k", verification(server))
    assert (second.status_code, f"rollout-{second.json()['rollout']}") == (202, stream)
    assert await rollouts(server) == (stream,)


async def test_a_dry_run_is_answered_again_as_it_was(server: Served) -> None:
    body = {"manifest": server.scene.manifest(), "dry_run": True}
    async with server.client() as client:
        first, second = await post(client, "k", body), await post(client, "k", body)
    assert (first.status_code, first.content) == (200, second.content)
    assert await server.events() == 0


async def test_a_key_is_good_across_a_restart(store_url: str, tmp_path: Path) -> None:
    async with served(store_url, tmp_path / "marks", started=False) as before:
        body = verification(before)
        async with before.client() as client:
            first = await post(client, "k", body)
        await before.ended(first.json()["rollout"])
        token = before.tokens["all"]
    async with served(store_url, tmp_path / "marks", started=False) as after:
        after.tokens["all"] = token
        async with after.client() as client:
            second = await post(client, "k", body)
        assert first.content == second.content
        assert len(await rollouts(after)) == 1


@asynccontextmanager
async def two_servers(store_url: str, tmp_path: Path) -> AsyncIterator[tuple[Served, Served]]:
    async with (
        served(store_url, tmp_path / "one", started=False) as one,
        served(store_url, tmp_path / "two", on=one.scene) as two,
    ):
        two.tokens.update(one.tokens)
        yield one, two


async def test_two_servers_on_one_store_begin_one_and_answer_alike(store_url: str, tmp_path: Path) -> None:
    async with two_servers(store_url, tmp_path) as servers:
        body = verification(servers[0])

        async def send(server: Served) -> httpx.Response:
            async with server.client() as client:
                return await post(client, "k", body)

        answers = await asyncio.gather(*(send(servers[i % 2]) for i in range(10)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.content for answer in answers}) == 1
        assert len(await rollouts(servers[0])) == 1


async def test_a_claim_whose_server_died_before_it_began_anything_is_taken_up(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is there, the answer is not, and nothing was begun: it is done under the id that it was given."""
    monkeypatch.setattr(once, "ANSWERED_ELSEWHERE_S", 0.2)
    body = verification(server)
    keyed = KeyedRequests(server.api.stores.engine)
    async with server.client() as client:
        await _claimed(server, client, keyed, body, rollout="0123456789ab")
        answer = await post(client, "dead", body)
    assert (answer.status_code, answer.json()["rollout"]) == (202, "0123456789ab")
    assert await rollouts(server) == ("rollout-0123456789ab",)


async def test_a_claim_whose_server_died_after_it_began_is_answered_from_the_stream(server: Served) -> None:
    body = verification(server)
    keyed = KeyedRequests(server.api.stores.engine)
    async with server.client() as client:
        begun = await client.post(R, json=body)
        rollout = begun.json()["rollout"]
        await server.ended(rollout)
        await _claimed(server, client, keyed, body, rollout)
        answer = await post(client, "dead", body)
    assert (answer.status_code, answer.json()) == (202, begun.json())
    assert await rollouts(server) == (f"rollout-{rollout}",)


async def _claimed(server: Served, client: httpx.AsyncClient, keyed: KeyedRequests, body: Any, rollout: str) -> None:
    """As a server leaves it that dies between the claim and the answer."""
    token = next(t for t in await TokenStore(server.api.stores.engine).all() if t.name == "all")
    probe = client.build_request("POST", R, json=body)
    head = f"POST {R}?\n".encode()
    fingerprint = hashlib.sha256(head + probe.read()).hexdigest()
    left = KeyedRequest(token=token.id, key="dead", fingerprint=fingerprint, rollout=rollout, made_at=utc_now())
    assert await keyed.claim(left, timedelta(days=1)) == (left, True)


async def test_a_key_is_forgotten_after_its_lifetime(store_url: str) -> None:
    now = utc_now()

    def wanted(hours: int, rollout: str) -> KeyedRequest:
        made = now + timedelta(hours=hours)
        return KeyedRequest(token="0" * 16, key="k", fingerprint="0" * 64, rollout=rollout, made_at=made)

    async with open_stores(store_url, utc_now) as stores:
        keyed, lifetime = KeyedRequests(stores.engine), timedelta(hours=24)
        first, claimed = await keyed.claim(wanted(0, "first"), lifetime)
        assert (first.rollout, claimed) == ("first", True)
        await keyed.answer(first, 202, json.dumps({"a": 1}))
        again, claimed = await keyed.claim(wanted(23, "second"), lifetime)
        assert (again.rollout, again.answer, claimed) == ("first", '{"a": 1}', False)
        late, claimed = await keyed.claim(wanted(25, "third"), lifetime)
        assert (late.rollout, late.answer, claimed) == ("third", None, True)


async def test_the_first_answer_stays(store_url: str) -> None:
    async with open_stores(store_url, utc_now) as stores:
        keyed = KeyedRequests(stores.engine)
        wanted = KeyedRequest(token="0" * 16, key="k", fingerprint="0" * 64, rollout="r", made_at=utc_now())
        claimed, _ = await keyed.claim(wanted, timedelta(days=1))
        await keyed.answer(claimed, 202, "first")
        await keyed.answer(claimed, 409, "second")
        await keyed.forget(claimed)
        found = await keyed.find("0" * 16, "k")
    assert found is not None
    assert (found.status, found.answer) == (202, "first")
