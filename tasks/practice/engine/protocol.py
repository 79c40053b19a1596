"""HTTP as values: what an endpoint gets and gives, whoever carries it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Request:
    """`path` is without the query; header names are in lower case; `client` is "host:port"."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    client: str = "127.0.0.1:0"
    query: str = ""

    def json(self) -> dict[str, object]:
        """The body as an object. Raises ValueError for anything else."""
        found = json.loads(self.body)
        if not isinstance(found, dict):
            raise ValueError("Input should be a valid dictionary")
        return found


@dataclass(frozen=True)
class Response:
    """Either `body` or, sent in chunks, `stream`."""

    status: int
    body: bytes = b""
    content_type: str = ""
    stream: AsyncIterator[bytes] | None = None

    @property
    def reason(self) -> str:
        return REASONS.get(self.status, "")


def json_response(value: object, status: int = 200) -> Response:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Response(status, text.encode(), "application/json")


def event_stream(stream: AsyncIterator[bytes]) -> Response:
    return Response(200, content_type="text/event-stream; charset=utf-8", stream=stream)


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
