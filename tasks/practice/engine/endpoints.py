"""Which path does what, who may ask, and what the access log says about it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping

from . import llamacpp_endpoints, vllm_endpoints
from .acts import Say
from .engine import Engine
from .native import generate
from .openai_api import chat, completions
from .protocol import Request, Response, json_response
from .reports import metrics, model_info, models, server_info

Endpoint = Callable[[Engine, Request], Awaitable[Response]]

_ADMIN = ("/flush_cache", "/set_internal_state", "/abort_request", "/configure_logging")


async def handle(engine: Engine, request: Request) -> Response:
    """Answer one request and write its access log line, when the answer begins, as uvicorn does."""
    response = await _answer(engine, request)
    path = request.path + (f"?{request.query}" if request.query else "")
    engine.log_access(request.client, request.method, path, response.status, response.reason)
    return response


async def _answer(engine: Engine, request: Request) -> Response:
    allowed, served = _SERVERS[engine.launch.engine]
    if not allowed(engine, request) and engine.launch.engine == "llamacpp":
        return llamacpp_endpoints.unauthorized()
    if not allowed(engine, request):
        return json_response({"error": "Unauthorized"}, 401)
    routes = served.get(request.path)
    if routes is None:
        return json_response({"detail": "Not Found"}, 404)
    endpoint = routes.get(request.method)
    return await endpoint(engine, request) if endpoint else json_response({"detail": "Method Not Allowed"}, 405)


def _allowed(engine: Engine, request: Request) -> bool:
    """`/health…` and `/metrics…` need no key; administration needs the admin key where there is one."""
    key = engine.launch.resolved.text("api_key")
    admin = engine.launch.resolved.text("admin_api_key")
    if admin and request.path in _ADMIN:
        key = admin
    if not key or request.path.startswith(("/health", "/metrics", "/ready")) or request.method == "OPTIONS":
        return True
    return hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {key}".encode())


async def _health(engine: Engine, request: Request) -> Response:
    if engine.state == "draining":
        await engine.say(Say("Health check request received during shutdown. Returning 503."))
    if engine.state != "ready":
        return Response(503)
    plain = engine.launch.environment.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "1").lower() in ("0", "false")
    if plain and request.path == "/health":
        return Response(200)
    return Response(200) if await _scheduler_answers(engine) else Response(503)


async def _scheduler_answers(engine: Engine) -> bool:
    """One token from the scheduler, within the engine's limit; any output of a running request counts as well."""
    settings = engine.launch.settings
    hang = engine.launch.faults.get("hang-after-ready")
    if engine.batch.running or (hang is not None and str(hang.options.get("health", "200")) == "200"):
        await asyncio.sleep(settings.health_seconds)
        return True
    limit = hang.number("after_seconds", settings.health_timeout_seconds) if hang else settings.health_timeout_seconds
    probe = asyncio.ensure_future(
        engine.finish(engine.new_job(["Health"], ["."], "length", f"HEALTH_CHECK_{engine.world.now()}"))
    )
    done, _ = await asyncio.wait({probe}, timeout=limit)
    if done:
        await asyncio.sleep(settings.health_seconds)
        return True
    probe.cancel()
    text = f"Health check failed. Server couldn't get a response from detokenizer for last {limit:g} seconds."
    await engine.say(Say(text, severe=True))
    return False


async def _models(engine: Engine, request: Request) -> Response:
    return json_response(models(engine))


async def _model_info(engine: Engine, request: Request) -> Response:
    await _warn_if_deprecated(engine, request, "/get_model_info", "/model_info")
    return json_response(model_info(engine))


async def _server_info(engine: Engine, request: Request) -> Response:
    await _warn_if_deprecated(engine, request, "/get_server_info", "/server_info")
    return json_response(server_info(engine))


async def _warn_if_deprecated(engine: Engine, request: Request, old: str, new: str) -> None:
    if request.path == old and engine.launch.version >= (0, 5, 6):
        text = f"Endpoint '{old}' is deprecated and will be removed in a future version. Please use '{new}' instead."
        await engine.say(Say(text))


async def _metrics(engine: Engine, request: Request) -> Response:
    if not engine.launch.resolved.arguments["enable_metrics"]:
        return json_response({"detail": "Not Found"}, 404)
    return Response(200, metrics(engine).encode(), "text/plain; version=0.0.4; charset=utf-8")


async def _flush_cache(engine: Engine, request: Request) -> Response:
    return Response(200, b"Cache flushed.\nPlease check backend logs for more details.\n", "text/plain; charset=utf-8")


async def _ready(engine: Engine, request: Request) -> Response:
    if engine.launch.version < (0, 5, 20):
        return json_response({"detail": "Not Found"}, 404)
    return Response(200 if engine.state == "ready" else 503)


ROUTES: Mapping[str, Mapping[str, Endpoint]] = {
    "/health": {"GET": _health},
    "/health_generate": {"GET": _health},
    "/ready": {"GET": _ready},
    "/v1/models": {"GET": _models},
    "/model_info": {"GET": _model_info},
    "/get_model_info": {"GET": _model_info},
    "/server_info": {"GET": _server_info},
    "/get_server_info": {"GET": _server_info},
    "/metrics": {"GET": _metrics},
    "/generate": {"POST": generate, "PUT": generate},
    "/v1/chat/completions": {"POST": chat},
    "/v1/completions": {"POST": completions},
    "/flush_cache": {"GET": _flush_cache, "POST": _flush_cache},
}

_SERVERS: Mapping[str, tuple[Callable[[Engine, Request], bool], Mapping[str, Mapping[str, Endpoint]]]] = {
    "sglang": (_allowed, ROUTES),
    "vllm": (vllm_endpoints.allowed, vllm_endpoints.ROUTES),
    "llamacpp": (llamacpp_endpoints.allowed, llamacpp_endpoints.ROUTES),
}
