"""vLLM's log lines, as text (V1; 0.11 to 0.29, from public logs)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .acts import Say

if TYPE_CHECKING:
    from .engine import Engine
    from .launch import Launch

_UVICORN = ("INFO: ", "WARNING: ", "ERROR: ")


def stamped(engine: Engine, act: Say) -> str:
    """Each line behind its process, and behind level and time unless it is uvicorn's."""
    world = engine.world
    label, pid = "APIServer", world.pid
    if act.rank is not None:
        label, pid = engine.launch.ranks[act.rank], world.rank_pid(act.rank)
    moment = time.strftime("%m-%d %H:%M:%S", time.localtime(world.now()))
    level = "ERROR" if act.severe and act.level == "INFO" else act.level
    front = f"({label} pid={pid}) "
    behind = "" if act.text.startswith(_UVICORN) else f"{level} {moment} "
    return "\n".join(f"{front}{behind}{line}" for line in act.text.split("\n"))


def non_default(asked: Mapping[str, object], defaults: Mapping[str, object], *, serves: bool) -> str:
    """`non-default args: {…}`: what differs from its default, the model twice where it was the first word."""
    shown = {name: value for name, value in asked.items() if value != defaults.get(name)}
    if "api_key" in shown:
        shown["api_key"] = ["__REDACTED__"]
    first = {"model_tag": asked["model"]} if serves else {}
    return f"[utils.py:233] non-default args: { ({**first, **shown})!r}"


def configuration(launch: Launch) -> str:
    """The line of the engine core, with what is in effect after resolution."""
    resolved, asked = launch.resolved, launch.resolved.arguments
    served = resolved.text("served_model_name")
    fields = [
        f"model={launch.model.path!r}",
        f"speculative_config={_speculative(launch)}",
        f"tokenizer={launch.model.path!r}",
        "skip_tokenizer_init=False",
        "tokenizer_mode=auto",
        f"trust_remote_code={bool(asked.get('trust_remote_code'))}",
        "dtype=torch.bfloat16",
        f"max_seq_len={resolved.integer('context_length') or launch.model.context_length}",
        "load_format=auto",
        f"tensor_parallel_size={resolved.integer('tp_size')}",
        "pipeline_parallel_size=1",
        "data_parallel_size=1",
        f"disable_custom_all_reduce={bool(asked.get('disable_custom_all_reduce'))}",
        f"quantization={asked.get('quantization')}",
        f"enforce_eager={bool(asked.get('disable_cuda_graph'))}",
        f"kv_cache_dtype={asked.get('kv_cache_dtype')}",
        "device_config=cuda",
        "structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_any_whitespace=False)",
        f"seed={resolved.integer('random_seed')}",
        f"served_model_name={served}",
        f"enable_prefix_caching={not asked.get('disable_radix_cache')}",
        f"enable_chunked_prefill={asked.get('enable_chunked_prefill') is not False}",
        "compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'backend': 'inductor'}",
    ]
    return f"[core.py:109] Initializing a V1 LLM engine (v{launch.version}) with config: {', '.join(fields)}"


def _speculative(launch: Launch) -> str:
    config = launch.resolved.arguments.get("speculative_config")
    if not isinstance(config, Mapping):
        return "None"
    model = config.get("model") or launch.model.path
    method = launch.resolved.speculation.lower()
    return f"SpeculativeConfig(method={method!r}, model={model!r}, num_spec_tokens={launch.resolved.drafts_per_step})"


def statistics(*, prompt: float, generated: float, running: int, waiting: int, usage: float) -> str:
    """Throughputs in tokens a second, the cache's usage as a share."""
    return (
        f"[loggers.py:273] Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s,"
        f" Avg generation throughput: {generated:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs,"
        f" GPU KV cache usage: {100 * usage:.1f}%, Prefix cache hit rate: 0.0%"
    )


def window(*, drafts: int, accepted: int, depth: int, by_position: Sequence[int], seconds: float) -> str:
    """`SpecDecoding metrics` of a window with at least one draft; `depth` is the number of tokens in each."""
    drafted = drafts * depth
    rates = ", ".join(f"{count / drafts:.3f}" for count in by_position)
    accepted_speed, drafted_speed = accepted / seconds, drafted / seconds
    return (
        f"[metrics.py:101] SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f},"
        f" Accepted throughput: {accepted_speed:.2f} tokens/s, Drafted throughput: {drafted_speed:.2f} tokens/s,"
        f" Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates},"
        f" Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
    )
