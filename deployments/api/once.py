"""Idempotency keys: a request that is sent again under its key is answered as it was, and begins nothing twice.

The key is claimed by a row in the database, with the id that a rollout of this request will have. A stream is begun
once, so that whatever happens between the claim and the answer (a crash, a second process), the same id cannot be begun
twice, and the answer can be told again from the stream.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from weakref import WeakValueDictionary

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from deployments.api.ports import Api
from deployments.api.refusals import key_reused, key_unfit
from flows.history import stream_of
from flows.requests import new_id
from state.errors import InterlockError, StoreUnavailable
from state.store.keyed_requests import KeyedRequest, KeyedRequests
from state.store.tokens import Token

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
ANSWERED_ELSEWHERE_S = 5.0
"""How long another process that has the same key is given to answer, before this one does the same work."""

_LOOK_EVERY_S = 0.05
_KEY = re.compile(r"[\x21-\x7e]{1,255}")

Handler = Callable[[Request], Awaitable[Response]]


class Once:
    """Answers a keyed request once. `request.state.rollout` is the id that a rollout begun by it must have."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._keyed = KeyedRequests(api.stores.engine)
        self._lifetime = timedelta(seconds=api.settings.key_lifetime_s)
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: Request, token: Token, handler: Handler) -> Response:
        """Raises RequestRefused for a key that is none, or came with another request."""
        key = request.headers.get(HEADER)
        if key is None:
            request.state.rollout = new_id()
            return await handler(request)
        if not _KEY.fullmatch(key):
            raise key_unfit()
        lock = self._locks.setdefault((token.id, key), asyncio.Lock())
        async with lock:
            return await self._answered(request, await self._claimed(request, token, key), handler)

    async def _claimed(self, request: Request, token: Token, key: str) -> KeyedRequest:
        """The request that has the key: this one, or one before it that was the same."""
        wanted = KeyedRequest(
            token=token.id,
            key=key,
            fingerprint=await _fingerprint(request),
            rollout=new_id(),
            made_at=self._api.ports.now(),
        )
        while True:
            found, first = await self._keyed.claim(wanted, self._lifetime)
            if found.fingerprint != wanted.fingerprint:
                raise key_reused(key)
            settled = found if first else await self._settled(found)
            if settled is not None:
                return settled

    async def _settled(self, found: KeyedRequest) -> KeyedRequest | None:
        """A request of another process, once that has answered, or had time enough to; None if it freed the key."""
        waited_s = 0.0
        now: KeyedRequest | None = found
        while now is not None and now.status is None and waited_s < ANSWERED_ELSEWHERE_S:
            if await self._api.ports.events.read(stream_of(found.rollout)):
                break
            await asyncio.sleep(_LOOK_EVERY_S)
            waited_s += _LOOK_EVERY_S
            now = await self._keyed.find(found.token, found.key)
        return now

    async def _answered(self, request: Request, keyed: KeyedRequest, handler: Handler) -> Response:
        if keyed.status is not None:
            headers = {REPLAYED: "true"}
            return Response(keyed.answer, keyed.status, headers, media_type="application/json")
        request.state.rollout = keyed.rollout
        try:
            response = await handler(request)
        except StoreUnavailable:
            raise  # it may have been begun: the key keeps its id
        except (InterlockError, RequestValidationError, HTTPException):
            await self._free(keyed)
            raise
        await self._keyed.answer(keyed, response.status_code, bytes(response.body).decode())
        return response

    async def _free(self, keyed: KeyedRequest) -> None:
        """What was refused began nothing, so that the key may come with a mended request."""
        if not await self._api.ports.events.read(stream_of(keyed.rollout)):
            await self._keyed.forget(keyed)


async def _fingerprint(request: Request) -> str:
    """Of what is asked for, and of nothing that two sendings of it may differ in."""
    head = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(head + await request.body()).hexdigest()
