"""vLLM's paths: health, version, models, the OpenAI-compatible API and `/metrics`."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator, Mapping

from .engine import Engine
from .openai_api import chat, completions
from .protocol import Request, Response, json_response
from .reports import models

Endpoint = Callable[[Engine, Request], Awaitable[Response]]


def allowed(engine: Engine, request: Request) -> bool:
    """A key is asked for below `/v1` alone; the flag's wins over the variable's."""
    key = engine.launch.asked.get("api_key") or engine.launch.environment.get("VLLM_API_KEY")
    if not key or not request.path.startswith("/v1"):
        return True
    return hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {key}".encode())


async def _health(engine: Engine, request: Request) -> Response:
    """Whether the core's process lives; a core that hangs is healthy."""
    return Response(200 if engine.state == "ready" else 503)


async def _version(engine: Engine, request: Request) -> Response:
    return json_response({"version": str(engine.launch.version)})


async def _models(engine: Engine, request: Request) -> Response:
    listed = models(engine)
    entries = listed["data"]
    if isinstance(entries, list):
        for entry in entries:
            entry.update(owned_by="vllm", root=engine.launch.model.path)
    return json_response(listed)


def _served(endpoint: Endpoint) -> Endpoint:
    async def answer(engine: Engine, request: Request) -> Response:
        try:
            model = request.json().get("model")
        except ValueError:
            model = None
        if model is not None and model != engine.launch.resolved.text("served_model_name"):
            error = {"message": f"The model `{model}` does not exist.", "type": "NotFoundError", "code": 404}
            return json_response({"error": {**error, "param": "model"}}, 404)
        return await endpoint(engine, request)

    return answer


async def _metrics(engine: Engine, request: Request) -> Response:
    return Response(200, "".join(_series(engine)).encode(), "text/plain; version=0.0.4; charset=utf-8")


def _series(engine: Engine) -> Iterator[str]:
    """Counters of speculation are there only where it is configured; with --disable-log-stats nothing is counted."""
    yield "# HELP python_info Python platform information.\n# TYPE python_info gauge\npython_info 1.0\n"
    if engine.launch.asked.get("disable_log_stats"):
        return
    batch, counts = engine.batch, engine.batch.counts
    labels = f'engine="0",model_name="{engine.launch.resolved.text("served_model_name")}"'
    yield from _one("num_requests_running", "gauge", labels, len(batch.running))
    yield from _one("num_requests_waiting", "gauge", labels, len(batch.waiting))
    yield from _one("kv_cache_usage_perc", "gauge", labels, batch.used_tokens / max(1, engine.sizes.tokens))
    yield from _one("prompt_tokens", "counter", labels, counts.prompt_tokens)
    yield from _one("generation_tokens", "counter", labels, counts.generated_tokens)
    depth = batch.acceptance.steps
    if not depth:
        return
    yield from _one("spec_decode_num_drafts", "counter", labels, counts.verify_calls)
    yield from _one("spec_decode_num_draft_tokens", "counter", labels, counts.verify_calls * depth)
    yield from _one("spec_decode_num_accepted_tokens", "counter", labels, counts.accepted)
    name = "vllm:spec_decode_num_accepted_tokens_per_pos"
    yield f"# HELP {name} Accepted tokens per draft position.\n# TYPE {name} counter\n"
    for position in range(depth):
        value = float(counts.by_position.get(position, 0))
        yield f'{name}_total{{{labels},position="{position}"}} {value}\n'


def _one(name: str, kind: str, labels: str, value: float) -> Iterator[str]:
    full = f"vllm:{name}"
    yield f"# HELP {full} {name.replace('_', ' ')}.\n# TYPE {full} {kind}\n"
    yield f"{full}{'_total' if kind == 'counter' else ''}{{{labels}}} {float(value)}\n"


ROUTES: Mapping[str, Mapping[str, Endpoint]] = {
    "/health": {"GET": _health},
    "/version": {"GET": _version},
    "/v1/models": {"GET": _models},
    "/metrics": {"GET": _metrics},
    "/v1/chat/completions": {"POST": _served(chat)},
    "/v1/completions": {"POST": _served(completions)},
}
