"""The HTTP API as one application, to be served alone or mounted beside others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.cors import CORSMiddleware

from deployments.api import events, health, rollouts, services, starts, steering
from deployments.api.document import document_of
from deployments.api.guard import Guard
from deployments.api.headers import AnswerHeaders
from deployments.api.metrics import Metrics
from deployments.api.ports import Api
from deployments.api.problems import add_handlers
from deployments.api.reading import ReadModels
from deployments.api.tail import Tail
from state.store.listing import last_position

OPENAPI = "/api/v1/openapi.json"

ROUTERS = (
    services.router,
    starts.router,
    steering.router,
    rollouts.router,
    events.router,
    rollouts.evidence_router,
    health.router,
    health.metrics_router,
)


def create_app(api: Api) -> FastAPI:
    """The application. Its lifespan must run (a mounted application's does not by itself: enter `running(app)`), and
    `end_streams(app)` must be called before the server waits for its connections, as `deployments.api.server` does."""
    app = FastAPI(
        title="interlock",
        version=version("interlock"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=running,
    )
    _equip(app, api)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = partial(document_of, app)  # type: ignore[method-assign]  # FastAPI's documented way

    @app.get(OPENAPI, include_in_schema=False)
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    return app


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[None]:
    """The application's background work: the one reader of the history's end."""
    reader = asyncio.create_task(app.state.tail.read_for_ever(), name="tail of the events")
    try:
        yield
    finally:
        end_streams(app)
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader


def end_streams(app: FastAPI) -> None:
    """Let every event stream end, since a server that stops waits for them."""
    tail: Tail = app.state.tail
    tail.close()


def _equip(app: FastAPI, api: Api) -> None:
    add_handlers(app)
    app.state.routes = [route for router in ROUTERS for route in router.routes]
    app.state.api = api
    app.state.guard = Guard(api)
    app.state.metrics = Metrics(api.stores)
    app.state.read_models = ReadModels(api.stores)
    app.state.tail = Tail(api.ports.events, partial(last_position, api.stores.engine), api.settings.tail_s)
    if api.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(api.settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
        )
    app.add_middleware(AnswerHeaders, hosts=api.settings.hosts)
