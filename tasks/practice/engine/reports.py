"""What the engine says about itself: models, server information and metrics."""

from __future__ import annotations

from collections.abc import Iterator

from .engine import Engine

_PHASES = {
    "target decode": "decode",
    "target verify": "target_verify",
    "draft decode": "draft_decode",
    "draft extend": "draft_extend",
}


def models(engine: Engine) -> dict[str, object]:
    name = engine.launch.resolved.text("served_model_name")
    entry = {
        "id": name,
        "object": "model",
        "created": int(engine.world.now()),
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": engine.context_length,
    }
    return {"object": "list", "data": [entry]}


def model_info(engine: Engine) -> dict[str, object]:
    resolved, model = engine.launch.resolved, engine.launch.model
    return {
        "model_path": resolved.text("model_path"),
        "tokenizer_path": resolved.text("tokenizer_path"),
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": resolved.text("weight_version"),
        "has_image_understanding": model.multimodal,
        "has_audio_understanding": False,
        "model_type": model.model_type,
        "architectures": [model.architecture],
    }


def server_info(engine: Engine) -> dict[str, object]:
    """Every argument in effect at top level (the API key too, as the engine does), then what the scheduler knows."""
    launch = engine.launch
    found: dict[str, object] = {
        **launch.resolved.arguments,
        "status": "ready",
        "max_total_num_tokens": engine.sizes.tokens,
        "max_req_input_len": engine.context_length - 6,
    }
    if launch.version >= (0, 5, 14):
        found["kv_events"] = None
    if launch.version >= (0, 5, 20):
        found["launch_command"] = " ".join(["sglang", "serve", *launch.argv])
    found["version"] = str(launch.version)
    found["internal_states"] = [_internal_state(engine)]
    return found


def _internal_state(engine: Engine) -> dict[str, object]:
    launch, sizes, batch = engine.launch, engine.sizes, engine.batch
    graphs = {_PHASES[name]: used for name, used in sizes.graphs.items()}
    memory: dict[str, object] = {
        "weight": round(sizes.weights + sizes.draft, 3),
        "kvcache": round(sizes.kv, 3),
        "token_capacity": sizes.tokens,
        "graph": round(sum(graphs.values()), 3),
    }
    if launch.version >= (0, 5, 18):
        phases = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")
        memory["graph"] = {phase: graphs.get(phase, 0.0) for phase in phases}
        memory["startup_available"] = round(sizes.after_pools - sum(graphs.values()), 3)
    state: dict[str, object] = {
        **launch.resolved.arguments,
        "last_gen_throughput": batch.last_throughput,
        "memory_usage": memory,
        "effective_max_running_requests_per_dp": batch.limit,
    }
    if batch.mean_accept_length is not None:
        state["avg_spec_accept_length"] = batch.mean_accept_length
    if launch.version >= (0, 5, 19) and launch.environment.get("SGLANG_EXPOSE_OWN_ENV_VARS") == "1":
        state["env_vars"] = {name: value for name, value in launch.environment.items() if name.startswith("SGLANG_")}
    return state


def metrics(engine: Engine) -> str:
    """Prometheus text. The acceptance gauges stand at 0 until the first decode line, and without speculation."""
    return "".join(_metrics(engine))


def _metrics(engine: Engine) -> Iterator[str]:
    batch, sizes, totals, resolved = engine.batch, engine.sizes, engine.totals, engine.launch.resolved
    name = resolved.text("served_model_name")
    short = f'engine_type="unified",model_name="{name}"'
    labels = f'{short},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    length, rate = batch.last_acceptance or (0.0, 0.0)
    if apart := engine.launch.faults.get("metrics-apart"):
        length *= apart.number("factor", 0.5)
    on = batch.last_acceptance is not None
    gauges: list[tuple[str, str, float]] = [
        ("num_running_reqs", "The number of running requests.", len(batch.running)),
        ("num_queue_reqs", "The number of requests in the waiting queue.", len(batch.waiting)),
        ("num_used_tokens", "The number of used tokens.", batch.used_tokens),
        ("token_usage", "The token usage.", batch.used_tokens / max(1, sizes.tokens)),
        ("full_token_usage", "The token usage for full attention layers.", batch.used_tokens / max(1, sizes.tokens)),
        ("mamba_usage", "The token usage for Mamba layers.", batch.mamba_used / max(1, sizes.mamba_slots)),
        ("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", sizes.tokens),
        ("gen_throughput", "The generation throughput (token/s).", batch.last_throughput),
        ("cache_hit_rate", "The prefix cache hit rate.", 0.0),
        ("weight_memory_usage_gb", "Memory used by model weights in GB.", sizes.weights + sizes.draft),
        ("kv_cache_memory_usage_gb", "Memory used by the KV cache pools in GB.", sizes.kv),
        ("is_cuda_graph", "Whether the batch is using CUDA graph.", 1.0 if sizes.graphs and batch.forwards else 0.0),
        ("spec_accept_length", "Mean acceptance length of speculative decoding.", length),
        ("spec_accept_rate", "Speculative acceptance rate.", rate),
        (
            "spec_num_steps",
            "Currently active speculative_num_steps.",
            resolved.integer("speculative_num_steps") if on else 0,
        ),
        (
            "spec_num_draft_tokens",
            "Currently active speculative_num_draft_tokens.",
            resolved.integer("speculative_num_draft_tokens") if on else 0,
        ),
    ]
    for metric, text, value in gauges:
        yield _series(metric, "gauge", text, labels, value)
    counters: list[tuple[str, str, float]] = [
        ("prompt_tokens_total", "Number of prefill tokens processed.", totals.prompt_tokens),
        ("generation_tokens_total", "Number of generation tokens processed.", totals.generated_tokens),
        ("num_requests_total", "Number of requests processed.", totals.requests),
    ]
    if engine.launch.version >= (0, 5, 13):
        counters.append(
            ("spec_verify_calls_total", "Number of speculative decoding verification calls.", totals.verify_calls)
        )
    for metric, text, value in counters:
        yield _series(metric, "counter", text, short, value)
    sums = (
        ("e2e_request_latency_seconds", totals.latency_seconds),
        ("time_to_first_token_seconds", totals.first_token_seconds),
    )
    for metric, total in sums:
        full = f"sglang:{metric}"
        yield f"# HELP {full} Histogram of {metric.replace('_', ' ')}.\n# TYPE {full} histogram\n"
        yield f'{full}_sum{{{short}}} {total}\n{full}_bucket{{{short},le="+Inf"}} {float(totals.requests)}\n'
        yield f"{full}_count{{{short}}} {float(totals.requests)}\n"


def _series(metric: str, kind: str, text: str, labels: str, value: float) -> str:
    full = f"sglang:{metric}"
    return f"# HELP {full} {text}\n# TYPE {full} {kind}\n{full}{{{labels}}} {float(value)}\n"
