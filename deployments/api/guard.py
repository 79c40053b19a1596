"""The guard before every route: the token, its scope, its rate, the size and pace of the body, then idempotency.

It stands before FastAPI reads the body, so that who may not ask learns nothing about what they sent.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from deployments.api import refusals
from deployments.api.buckets import Buckets
from deployments.api.once import Once
from deployments.api.ports import Api
from state.store.tokens import Token, TokenStore

SCOPES = "x-interlock-scopes"
"""Where a route's operation names the scopes of which a token must have one."""

KEYED = "x-interlock-keyed"
"""Whether a route takes an Idempotency-Key."""


class Guard:
    """Who may ask for what, and how often."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.tokens = TokenStore(api.stores.engine)
        self.once = Once(api)
        self._buckets = Buckets(api.settings.rate, api.settings.burst, api.ports.clock)

    async def admitted(self, request: Request, scopes: tuple[str, ...]) -> Token:
        """Raises RequestRefused: 401 without a valid token, 403 without the scope, 429 when it asks too often."""
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        token = await self.tokens.presented(text.strip(), self.api.ports.now()) if kind.lower() == "bearer" else None
        if token is None:
            raise refusals.unauthenticated()
        if wait_s := self._buckets.take(token.id):
            raise refusals.too_often(wait_s)
        if not set(scopes) & set(token.scopes):
            raise refusals.under_scoped(token.name, scopes)
        return token


class GuardedRoute(APIRoute):
    """A route that nobody reaches past the guard of its app (`app.state.guard`)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        extra = self.openapi_extra or {}
        scopes, keyed = tuple(extra[SCOPES]), bool(extra.get(KEYED))

        async def guarded(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            token = await guard.admitted(request, scopes)
            bounded = Request(request.scope, _bounded(request, guard.api))
            bounded.state.token = token
            await _read(bounded, guard.api)
            return await guard.once.answer(bounded, token, inner) if keyed else await inner(bounded)

        return guarded


async def _read(request: Request, api: Api) -> None:
    """The whole body, which the request keeps. Raises RequestRefused: 413, 408."""
    limit, stated = api.settings.body_bytes, request.headers.get("Content-Length", "0")
    if not (stated.isascii() and stated.isdigit()) or int(stated[:20]) > limit:
        raise refusals.too_large(limit)
    try:
        async with asyncio.timeout(api.settings.body_timeout_s):
            await request.body()
    except (TimeoutError, ClientDisconnect) as error:
        raise refusals.too_slow(api.settings.body_timeout_s) from error


def _bounded(request: Request, api: Api) -> Receive:
    """The request's messages, up to as many bytes as a body may have."""
    came = 0

    async def receive() -> Message:
        nonlocal came
        message = await request.receive()
        came += len(message.get("body", b""))
        if came > api.settings.body_bytes:
            raise refusals.too_large(api.settings.body_bytes)
        return message

    return receive
