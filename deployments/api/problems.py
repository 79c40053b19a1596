"""Problem documents (RFC 9457): every error of the one tree, and every mistake of a request, as one JSON object."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import to_jsonable_python
from starlette.exceptions import HTTPException
from starlette.routing import Match

from deployments.api.refusals import RequestRefused
from state import errors
from state.errors import InterlockError
from state.redaction import redact

MEDIA_TYPE = "application/problem+json"
OBJECT = "the-manifest-object"
"""What a manifest is called that came as a JSON object: the lines of its text are not the client's."""

RETRY_AFTER_S = 5
"""When a client may ask again after the store, or a part of the server, was away."""

STATUS: Mapping[type[InterlockError], int] = {
    errors.UsageInvalid: 422,
    errors.ManifestInvalid: 422,
    errors.NotFound: 404,
    errors.NoneProven: 409,
    errors.Refused: 409,
    errors.StoreOutdated: 503,
    errors.StoreUnavailable: 503,
    errors.HostUnreachable: 424,
    errors.HostKeyMismatch: 424,
    errors.PrivilegeRefused: 424,
    errors.ArgvFailed: 424,
    errors.StepFailed: 424,
    errors.DeadlineExceeded: 424,
    errors.EngineFailed: 424,
    errors.FencedOut: 409,
    errors.HostReverted: 409,
    errors.VersionConflict: 409,
    errors.TakenOver: 409,
    errors.Stranded: 409,
    errors.HistoryCorrupt: 500,
    InterlockError: 500,
}
"""The status of each error, or of the nearest above it in the tree. 424 (failed dependency) is a host's failure: a 502
would tell a proxy, and whoever watches it, that interlock itself is broken."""


def status_of(error: InterlockError) -> int:
    if isinstance(error, RequestRefused):
        return error.status
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def problem_of(error: InterlockError) -> dict[str, Any]:
    """The document of an error: its sentence, hint and facts, redacted."""
    status = status_of(error)
    mistakes = manifest_mistakes(error) if isinstance(error, errors.ManifestInvalid) else []
    detail = _counted("the manifest", mistakes) if mistakes else str(error)
    return problem(status, error.code, detail, hint=error.hint, facts=_facts(error), mistakes=mistakes)


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    facts: Mapping[str, Any] | None = None,
    mistakes: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    return {
        "type": f"urn:interlock:problem:{code}",
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "detail": redact(detail),
        "hint": redact(hint),
        "code": code,
        "facts": dict(facts or {}),
        "mistakes": list(mistakes),
    }


def answer(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The document as a response; one that may be asked again says when."""
    given = dict(headers or {})
    if document["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
        given.setdefault("Retry-After", str(RETRY_AFTER_S))
    return JSONResponse(document, document["status"], given, media_type=MEDIA_TYPE)


def manifest_mistakes(error: errors.ManifestInvalid) -> list[dict[str, Any]]:
    """Each mistake with its line and field; the loader's sentences are `PATH:LINE: FIELD: SENTENCE`."""
    shape = re.compile(rf"{re.escape(error.path)}:(\d+): (?:(\S+): )?(.*)", re.DOTALL)
    found = []
    for mistake in error.mistakes:
        match = shape.fullmatch(mistake.replace("the file: ", "", 1))
        line, field, sentence = match.groups() if match else (None, None, mistake)
        shown = int(line) if line and error.path != OBJECT else None
        found.append({"line": shown, "field": field, "sentence": redact(sentence)})
    return found


def add_handlers(app: FastAPI) -> None:
    """Whatever is raised becomes a problem document."""

    @app.exception_handler(InterlockError)
    async def _of_error(_request: Request, error: InterlockError) -> JSONResponse:
        headers = error.headers if isinstance(error, RequestRefused) else {}
        return answer(problem_of(error), headers)

    @app.exception_handler(RequestValidationError)
    async def _of_validation(_request: Request, error: RequestValidationError) -> JSONResponse:
        mistakes = [_mistake(one) for one in error.errors()]
        hint = "GET /api/v1/openapi.json says what each field may be"
        return answer(problem(422, "request-invalid", _counted("the request", mistakes), hint=hint, mistakes=mistakes))

    @app.exception_handler(HTTPException)
    async def _of_http(request: Request, error: HTTPException) -> JSONResponse:
        headers = {"Allow": _allowed(request)} if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED else error.headers
        return answer(_http_problem(request, error), headers)

    @app.exception_handler(Exception)
    async def _of_anything(_request: Request, error: Exception) -> JSONResponse:
        detail = f"The server met an error that it did not expect ({type(error).__name__})"
        return answer(problem(500, "internal-error", detail, hint="the server's log has the whole of it"))


def _http_problem(request: Request, error: HTTPException) -> dict[str, Any]:
    path = request.url.path[:200]
    match error.status_code:
        case 404:
            return problem(404, "route-unknown", f"There is nothing at {path}", hint=_ROUTES)
        case 405:
            return problem(405, "method-not-allowed", f"{request.method[:20]} is not allowed at {path}", hint=_ROUTES)
        case 400:
            return problem(400, "body-unreadable", "The body could not be read as JSON", hint=_ROUTES)
    return problem(error.status_code, "http-error", str(error.detail))


def _allowed(request: Request) -> str:
    """The methods of every route at this path; Starlette names those of the first alone."""
    methods: set[str] = set()
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods
    return ", ".join(sorted(methods))


_ROUTES = "GET /api/v1/openapi.json lists the routes"


def _facts(error: InterlockError) -> dict[str, Any]:
    """The error's fields but its sentence and hint."""
    hidden = ("hint", "mistakes", "status", "headers", "name_")
    plain = to_jsonable_python({k: v for k, v in vars(error).items() if k not in hidden}, fallback=str)
    return {k: redact(v) if isinstance(v, str) else v for k, v in plain.items()}


def _counted(what: str, mistakes: Sequence[Mapping[str, Any]]) -> str:
    first = mistakes[0]
    where = f"`{first['field']}` " if first["field"] else ""
    more = f"; and {len(mistakes) - 1} more" if len(mistakes) > 1 else ""
    return f"In {what}, {where}{first['sentence']}{more}"


def _mistake(error: Mapping[str, Any]) -> dict[str, Any]:
    place, *path = error["loc"] or ("body",)
    if error["type"] == "json_invalid":
        reason = error.get("ctx", {}).get("error", "")
        return {"line": None, "field": None, "sentence": f"the body is no JSON: {reason} at byte {path[0]}"}
    field = ".".join(str(word) for word in path) or None
    return {"line": None, "field": field, "sentence": _sentence(error, str(place), field)}


_SAID = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "model_attributes_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
}


def _sentence(error: Mapping[str, Any], place: str, field: str | None) -> str:
    said = _SAID.get(error["type"])
    if said is None:
        text = str(error["msg"]).removeprefix("Value error, ")
        said = re.sub(r"^(Input|String|Value) should", "should", text)
    if field is None:
        return f"the {place} {said}"
    return said if place == "body" else f"in the {place} {said}"
