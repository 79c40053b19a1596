"""llama-server's paths: health, props, models, its own completion, the OpenAI-compatible API and `/metrics`."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator, Mapping

from .engine import Engine
from .llamacpp_timings import build_info, timings
from .native import new_job, text_of
from .openai_api import chat, completions
from .protocol import Request, Response, json_response
from .reports import models

Endpoint = Callable[[Engine, Request], Awaitable[Response]]
_OPEN = ("/health", "/v1/health", "/models", "/v1/models")


def allowed(engine: Engine, request: Request) -> bool:
    """One of its keys is asked for everywhere but for health and models."""
    keys = engine.launch.resolved.arguments["api_keys"]
    if not isinstance(keys, tuple) or not keys or request.path in _OPEN:
        return True
    sent = request.headers.get("authorization", "").encode()
    return any(hmac.compare_digest(sent, f"Bearer {key}".encode()) for key in keys)


def unauthorized() -> Response:
    return _error(401, "Invalid API Key", "authentication_error")


def _error(status: int, message: str, kind: str) -> Response:
    return json_response({"error": {"code": status, "message": message, "type": kind}}, status)


def _loaded(endpoint: Endpoint) -> Endpoint:
    """The port is open before the model is loaded."""

    async def answer(engine: Engine, request: Request) -> Response:
        if engine.state != "ready":
            return _error(503, "Loading model", "unavailable_error")
        return await endpoint(engine, request)

    return answer


async def _health(engine: Engine, request: Request) -> Response:
    """Whether the model is loaded; a server that hangs is healthy."""
    return json_response({"status": "ok"})


async def _props(engine: Engine, request: Request) -> Response:
    resolved = engine.launch.resolved
    settings = {
        "params": {"n_predict": -1, "temperature": 0.8, "speculative.types": "none"},
        "n_ctx": resolved.integer("slot_context"),
    }
    return json_response(
        {
            "default_generation_settings": settings,
            "total_slots": resolved.integer("slots_at_once"),
            "model_alias": engine.launch.asked.get("alias") or "",
            "model_path": engine.launch.model.path,
            "modalities": {"vision": False, "audio": False},
            "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
            "bos_token": "",
            "eos_token": "<|im_end|>",
            "build_info": build_info(engine),
            "is_sleeping": False,
        }
    )


async def _models(engine: Engine, request: Request) -> Response:
    listed = models(engine)
    entries = listed["data"]
    if isinstance(entries, list):
        for entry in entries:
            for name in ("root", "parent", "max_model_len"):
                entry.pop(name)
            entry.update(owned_by="llamacpp", meta={"n_ctx_train": engine.launch.model.context_length})
    return json_response(listed)


async def _completion(engine: Engine, request: Request) -> Response:
    try:
        body = request.json()
        asked = int(str(body.get("n_predict", -1)))
        sampling = {"max_new_tokens": asked if asked >= 0 else 4096, **body}
        job = new_job(engine, body.get("prompt"), sampling)
    except (ValueError, TypeError) as error:
        return _error(400, str(error), "invalid_request_error")
    await engine.finish(job)
    engine.count(job)
    return json_response(
        {
            "index": 0,
            "content": text_of(job),
            "tokens": [],
            "id_slot": 0,
            "stop": True,
            "model": engine.launch.resolved.text("served_model_name"),
            "tokens_predicted": job.done,
            "tokens_evaluated": len(job.prompt),
            "prompt": "".join(job.prompt),
            "truncated": False,
            "stop_type": "limit" if job.finish == "length" else "eos",
            "stopping_word": "",
            "tokens_cached": job.tokens - 1,
            "timings": timings(engine, job),
        }
    )


async def _metrics(engine: Engine, request: Request) -> Response:
    if not engine.launch.asked.get("metrics"):
        message = "This server does not support metrics endpoint. Start it with `--metrics`"
        return _error(501, message, "not_supported_error")
    return Response(200, "".join(_series(engine)).encode(), "text/plain; version=0.0.4")


def _series(engine: Engine) -> Iterator[str]:
    """Counters of speculation came about build 10000, without labels."""
    batch, counts = engine.batch, engine.batch.counts
    yield from _one("prompt_tokens_total", "counter", counts.prompt_tokens)
    yield from _one("tokens_predicted_total", "counter", counts.generated_tokens)
    yield from _one("requests_processing", "gauge", len(batch.running))
    yield from _one("requests_deferred", "gauge", len(batch.waiting))
    depth = batch.acceptance.steps
    if depth and engine.launch.version >= (0, 0, 10000):
        yield from _one("spec_decode_num_drafts_total", "counter", counts.verify_calls)
        yield from _one("spec_decode_num_draft_tokens_total", "counter", counts.verify_calls * depth)
        yield from _one("spec_decode_num_accepted_tokens_total", "counter", counts.accepted)


def _one(name: str, kind: str, value: float) -> Iterator[str]:
    yield f"# HELP llamacpp:{name} {name.replace('_', ' ')}.\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"


ROUTES: Mapping[str, Mapping[str, Endpoint]] = {
    "/health": {"GET": _loaded(_health)},
    "/v1/health": {"GET": _loaded(_health)},
    "/props": {"GET": _loaded(_props)},
    "/v1/models": {"GET": _loaded(_models)},
    "/metrics": {"GET": _loaded(_metrics)},
    "/completion": {"POST": _loaded(_completion)},
    "/v1/completions": {"POST": _loaded(completions)},
    "/v1/chat/completions": {"POST": _loaded(chat)},
}
