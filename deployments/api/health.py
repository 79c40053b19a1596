"""Whether the server lives, whether it can take work, and its metrics."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from deployments.api.guard import GuardedRoute
from deployments.api.routing import api_of, needs, problems
from deployments.api.schemas import Alive, Ready
from state.errors import InterlockError
from state.store.listing import last_position

METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"

router = APIRouter(tags=["health"])
metrics_router = APIRouter(tags=["health"], route_class=GuardedRoute)


@router.get("/healthz", response_model=Alive)
async def healthz() -> Alive:
    """The process answers."""
    return Alive()


@router.get(
    "/readyz",
    response_model=Ready,
    responses={503: {"description": "A part of the server does not work; ask again.", "model": Ready}},
)
async def readyz(request: Request) -> Response:
    """Whether every part works: the event store, and what the server runs beside it."""
    parts = {"store": await _reached(request), **await api_of(request).starter.ready()}
    ready = Ready(ready=all(parts.values()), parts=parts)
    headers = {} if ready.ready else {"Retry-After": "5"}
    return JSONResponse(ready.model_dump(), 200 if ready.ready else 503, headers)


@metrics_router.get(
    "/metrics",
    response_class=Response,
    responses={
        **problems(),
        200: {"description": "For Prometheus.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
    openapi_extra=needs("read"),
)
async def metrics(request: Request) -> Response:
    """Rollouts by outcome and service, durations, dark time, acceptance; counted from the history."""
    position = await request.app.state.read_models.caught_up()
    page = await request.app.state.metrics.page(position, request.app.state.tail.followers)
    return Response(page, media_type=METRICS_TYPE)


async def _reached(request: Request) -> bool:
    try:
        await last_position(api_of(request).stores.engine)
    except InterlockError:
        return False
    return True
