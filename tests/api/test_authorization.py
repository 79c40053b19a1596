"""Nobody gets past the guard: each route refuses missing, wrong, revoked, expired and under-scoped tokens untouched."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from deployments.api.app import OPENAPI, ROUTERS
from deployments.api.guard import SCOPES, GuardedRoute
from state.store.keyed_requests import KeyedRequests
from state.store.tokens import TokenStore
from tests.api.served import SCOPED, Served, served

OPEN = {"/healthz", "/readyz"}
VALUES = {"service": "qwen35-122b", "rollout": "4f1c9be27a03", "digest": "0" * 64}


def routes() -> Iterator[APIRoute]:
    for router in ROUTERS:
        yield from (route for route in router.routes if isinstance(route, APIRoute))


GUARDED = [route for route in routes() if route.path not in OPEN]


def named(route: APIRoute) -> str:
    return f"{min(route.methods)} {route.path}"


def asked(route: APIRoute) -> tuple[str, str]:
    return min(route.methods), route.path.format_map(VALUES)


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    """The service is not even started: nothing here may reach it."""
    async with served(sqlite_url, tmp_path / "marks", started=False) as ready:
        yield ready


def test_every_route_but_the_health_checks_is_guarded() -> None:
    assert len(GUARDED) >= 18
    assert [named(route) for route in GUARDED if not isinstance(route, GuardedRoute)] == []
    assert {route.path for route in routes()} >= OPEN


async def untouched(server: Served) -> tuple[int, Any]:
    """Events, and tokens with when they were used."""
    tokens = await TokenStore(server.api.stores.engine).all()
    return await server.events(), [(token.name, token.last_used_at) for token in tokens if token.name != "roller"]


BAD = {
    "missing": "",
    "another-scheme": "Basic YWxsOmFsbA==",
    "no-token": "Bearer",
    "a-word": "Bearer hello",
    "well-formed-and-wrong": "Bearer ilk_0123456789abcdef_" + "A" * 43,
    "another-alphabet": "Bearer ilk_0123456789abcdef_" + "é" * 43,
    "twice-as-long": "Bearer " + "ilk_" * 4000,
}


def headers(server: Served) -> Iterator[tuple[str, dict[bytes, bytes]]]:
    right = server.tokens["all"]
    texts = BAD | {name: f"Bearer {server.tokens[name]}" for name in ("revoked", "expired")}
    texts["another-secret"] = f"Bearer {right[:-1]}{'A' if right[-1] != 'A' else 'B'}"
    texts["cut-short"] = f"Bearer {right[:-1]}"
    for name, text in texts.items():
        yield name, {b"Authorization": text.encode()} if text else {}


@pytest.mark.parametrize("route", GUARDED, ids=named)
async def test_a_route_refuses_every_bad_token_untouched(server: Served, route: APIRoute) -> None:
    method, path = asked(route)
    before = await untouched(server)
    async with server.client("") as client:
        for name, given in headers(server):
            for body in (None, b"{", b'{"manifest": "interlock: 1"}'):
                answer = await client.request(method, path, headers=given | {b"Idempotency-Key": b"k"}, content=body)
                assert answer.status_code == 401, (name, body, answer.text)
                assert answer.headers["WWW-Authenticate"] == 'Bearer realm="interlock"', name
                assert answer.headers["Content-Type"] == "application/problem+json"
                assert answer.json()["code"] == "token-invalid"
    assert await untouched(server) == before
    assert await KeyedRequests(server.api.stores.engine).find(await identity(server, "all"), "k") is None


@pytest.mark.parametrize("route", GUARDED, ids=named)
async def test_a_route_refuses_every_token_without_its_scope(server: Served, route: APIRoute) -> None:
    assert isinstance(route, GuardedRoute)
    wanted = set((route.openapi_extra or {})[SCOPES])
    method, path = asked(route)
    before = await server.events()
    checked = 0
    for name, scopes in SCOPED.items():
        async with server.client(name) as client:
            answer = await client.request(method, path, headers={"Idempotency-Key": "k"}, content=b"{")
        if wanted & set(scopes):
            assert answer.status_code not in (401, 403), (name, answer.text)
        else:
            checked += 1
            refused(answer, name)
            assert await KeyedRequests(server.api.stores.engine).find(await identity(server, name), "k") is None
    assert checked >= 1
    assert await server.events() == before


def refused(answer: httpx.Response, name: str) -> None:
    assert answer.status_code == 403, answer.text
    assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]
    document = answer.json()
    assert document["code"] == "scope-missing"
    assert f"`{name}`" in document["detail"]


async def identity(server: Served, name: str) -> str:
    return next(token.id for token in await TokenStore(server.api.stores.engine).all() if token.name == name)


@pytest.mark.parametrize("path", sorted(OPEN | {OPENAPI}))
async def test_health_and_the_document_need_no_token(server: Served, path: str) -> None:
    async with server.client("") as client:
        assert (await client.get(path)).status_code == 200


async def test_promoting_a_held_rollout_needs_more_than_rolling_back(server: Served) -> None:
    async with server.client("on-call") as client:
        answers = {
            word: (await client.post("/api/v1/rollouts/nothing/answer", json={"answer": word, "reason": "seen"}))
            for word in ("promote", "rollback")
        }
    assert {word: answer.status_code for word, answer in answers.items()} == {"promote": 403, "rollback": 404}
    assert "`rollout`" in answers["promote"].json()["detail"]


async def test_a_scheme_may_be_spelt_in_any_case(server: Served) -> None:
    async with server.client("") as client:
        given = {"Authorization": f"bEaReR {server.tokens['reader']}"}
        assert (await client.get("/api/v1/services", headers=given)).status_code == 200
