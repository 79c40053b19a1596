"""How the routes are declared: guarded, with their scopes, and with every answer that they can give."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from deployments.api.guard import KEYED, SCOPES, GuardedRoute
from deployments.api.ports import Api
from deployments.api.problems import MEDIA_TYPE
from state.store.tokens import Scope, Token

_MEANS = {
    400: "The body is no JSON.",
    401: "No valid token.",
    403: "The token lacks the scope.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "The rules say no, as things stand.",
    413: "The body is too large.",
    422: "The request, the manifest or a name is off; every mistake is listed.",
    424: "A host failed, or could not be reached.",
    429: "Too many requests with this token.",
    500: "The history is damaged, or the server has a fault.",
    503: "The event store cannot be reached; ask again.",
}
ALWAYS = (400, 401, 403, 404, 408, 413, 422, 429, 500, 503)
"""What every guarded route may answer."""


def guarded(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=f"/api/v1{prefix}", tags=[tag], route_class=GuardedRoute)


def needs(*scopes: Scope, keyed: bool = False, **shown: Any) -> dict[str, Any]:
    """The operation's part that the guard reads: one of `scopes` is enough. `shown` goes into the document."""
    named = [{"bearer": list(scopes)}]
    return {**shown, "security": named, SCOPES: list(scopes), KEYED: keyed}


def problems(*statuses: int, always: Sequence[int] = ALWAYS) -> dict[int | str, dict[str, Any]]:
    """The problem documents that a route may answer with, beside those that every route may."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _MEANS[status], "content": content} for status in sorted({*always, *statuses})}


def api_of(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


def token_of(request: Request) -> Token:
    token: Token = request.state.token
    return token
