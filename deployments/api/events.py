"""Events of one rollout and of everything: as pages of JSON, or as a stream that a client can go on with."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from deployments.api.guard import Guard
from deployments.api.refusals import too_many_streams
from deployments.api.routing import api_of, guarded, needs, problems, token_of
from deployments.api.tail import Tail, event_json
from deployments.api.wanted import After, LastEventId, Limit, RolloutPath
from flows.history import stream_of
from state.errors import InterlockError, NotFound
from state.store.tokens import Token

SSE = "text/event-stream"
RETRY_MS = 1000
"""How long a client waits before it connects again."""

ASKED_AGAIN_S = 5.0
"""How often an open stream's token is looked at: a revoked one is cut off within this, and a heartbeat."""

router = guarded("", "events")

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page, or with `Accept: text/event-stream` every event from there on as it is recorded.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/EventPage"}},
            SSE: {"schema": {"type": "string"}},
        },
    }
}


@router.get("/events", response_class=JSONResponse, responses={**problems(), **_ANSWERS}, openapi_extra=needs("read"))
async def read_events(
    request: Request, after: After = None, limit: Limit = 100, last_event_id: LastEventId = None
) -> Response:
    """Events of every stream, by position."""
    position = _position(after, last_event_id)
    if _wants_stream(request):
        return _stream(request, position, None)
    found = await api_of(request).ports.events.read_all(position, limit)
    return _page([event_json(event) for event in found], position)


@router.get(
    "/rollouts/{rollout}/events",
    response_class=JSONResponse,
    responses={**problems(), **_ANSWERS},
    openapi_extra=needs("read"),
)
async def read_rollout_events(
    request: Request,
    rollout: RolloutPath,
    after: After = None,
    limit: Limit = 100,
    last_event_id: LastEventId = None,
) -> Response:
    """Events of one rollout, by position."""
    position = _position(after, last_event_id)
    recorded = await api_of(request).ports.events.read(stream_of(rollout))
    if not recorded:
        raise NotFound("rollout", rollout, hint="GET /api/v1/rollouts lists them")
    if _wants_stream(request):
        return _stream(request, position, stream_of(rollout))
    return _page([event_json(event) for event in recorded if event.position > position][:limit], position)


class EventStream(StreamingResponse):
    """A stream that counts among the tail's followers from its first byte to its end, however that comes."""

    def __init__(self, tail: Tail, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, media_type=SSE, headers={"X-Accel-Buffering": "no"})
        self._tail = tail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._tail.following():
            await super().__call__(scope, receive, send)


def _position(after: int | None, last_event_id: int | None) -> int:
    return after or 0 if last_event_id is None else last_event_id


def _wants_stream(request: Request) -> bool:
    return SSE in request.headers.get("Accept", "")


def _page(events: list[dict[str, Any]], position: int) -> Response:
    return JSONResponse({"events": events, "next": events[-1]["position"] if events else position})


def _stream(request: Request, after: int, stream: str | None) -> Response:
    """Raises RequestRefused when too many are open."""
    tail: Tail = request.app.state.tail
    limit = api_of(request).settings.streams
    if tail.followers >= limit:
        raise too_many_streams(limit)
    return EventStream(tail, _sent(request.app.state.guard, token_of(request), tail, after, stream))


async def _sent(guard: Guard, token: Token, tail: Tail, after: int, stream: str | None) -> AsyncIterator[bytes]:
    """The bytes of a stream; it ends when its token does, when the store fails, and when the server stops."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    looked = time.monotonic()
    try:
        async with aclosing(tail.follow(after, stream, guard.api.settings.heartbeat_s)) as chunks:
            async for chunk in chunks:
                if time.monotonic() - looked > ASKED_AGAIN_S:
                    looked = time.monotonic()
                    if not await guard.tokens.still_valid(token, guard.api.ports.now()):
                        return
                yield chunk or b": heartbeat\n\n"
    except InterlockError:
        return  # the client comes again with its position, and is told what is the matter
