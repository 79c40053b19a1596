"""SGLang's `/server_info` (`/get_server_info` before 0.5.6): resolved arguments, graph memory, average acceptance."""

import shlex
from collections.abc import Mapping
from typing import Any, cast

from state.engines.sglang.arguments import configured
from state.inspection.acceptance import drafts_per_step
from state.inspection.report import (
    AcceptLength,
    AcceptRate,
    Memory,
    ServerInfoReport,
    Speculation,
    SpeculationState,
)
from state.inspection.text import without_secrets
from state.inspection.unit_arguments import arguments_of

_NO_ARGUMENTS = frozenset(
    {
        "internal_states",
        "version",
        "status",
        "startup_time",
        "kv_events",
        "launch_command",
        "frontend",
        "max_total_num_tokens",
        "max_req_input_len",
        "scheduler_info",
        "topology",
    }
)
_MOST_GB = 1e6
"""More than any memory has: an underflow shows as 17179869184 GiB."""
_MARKS = ("internal_states", "speculative_algorithm", "mem_fraction_static", "tp_size", "max_total_num_tokens")
_ALIASES = {
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "model": "model_path",
    "speculative_algo": "speculative_algorithm",
    "speculative_draft_model": "speculative_draft_model_path",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
}


def read_server_info(data: Mapping[str, Any]) -> ServerInfoReport | None:
    """None where the object is no server info of SGLang."""
    if sum(mark in data for mark in _MARKS) < 2:
        return None
    shown = cast(Mapping[str, Any], without_secrets({k: v for k, v in data.items() if k not in _NO_ARGUMENTS}))
    states = [state for state in data.get("internal_states") or () if isinstance(state, Mapping)]
    version = data.get("version")
    return ServerInfoReport(
        engine="sglang",
        version=version if isinstance(version, str) else None,
        arguments=shown,
        effective_differs=_differs(data, shown, states),
        speculation=_speculation(shown, states),
        memory=_memory(states),
    )


def _differs(
    data: Mapping[str, Any], shown: Mapping[str, Any], states: list[Mapping[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """What was asked (the launch command, 0.5.20 and later, else the resolved arguments) beside what is in effect."""
    inner = cast(Mapping[str, Any], without_secrets(dict(states[0]))) if states else {}
    asked = _asked(data.get("launch_command")) or shown
    differs: dict[str, tuple[Any, Any]] = {}
    for name, wish in asked.items():
        field = name if name in shown else _ALIASES.get(name, name)
        if field not in shown and field not in inner:
            continue
        effective = inner.get(field, shown.get(field))
        if wish is not None and not _same(wish, effective):
            differs[field] = (wish, effective)
    return differs


def _same(wish: Any, effective: Any) -> bool:
    if wish == effective or str(wish) == str(effective):
        return True
    return isinstance(wish, str) and isinstance(effective, str) and wish.rstrip("/") == effective.rstrip("/")


def _asked(command: Any) -> dict[str, Any]:
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError:
            return {}
    elif isinstance(command, list):
        words = [str(word) for word in command]
    else:
        return {}
    return dict(cast(Mapping[str, Any], without_secrets(arguments_of(words))))


def _speculation(shown: Mapping[str, Any], states: list[Mapping[str, Any]]) -> Speculation:
    config = configured(shown)
    averages = [a for state in states if isinstance(a := state.get("avg_spec_accept_length"), int | float) and a >= 1]
    state: SpeculationState | None = None
    if averages:
        state = "active" if max(averages) > 1.0 else "useless"
    elif config.known:
        state = "configured" if config.algorithm else "off"
        state = "not-applicable" if config.algorithm and config.role == "prefill" else state
    mean = sum(averages) / len(averages) if averages else None
    drafts = drafts_per_step(config)
    rate = AcceptRate(round((mean - 1) / drafts, 6), "strict") if mean and drafts and config.topk in (None, 1) else None
    return Speculation(
        algorithm=config.algorithm or ("none" if config.known else None),
        num_steps=config.num_steps,
        topk=config.topk,
        num_draft_tokens=config.num_draft_tokens,
        state=state,
        samples=len(averages),
        accept_length=AcceptLength(round(mean, 6), min(averages), max(averages), averages[-1]) if mean else None,
        accept_rate=rate,
    )


def _memory(states: list[Mapping[str, Any]]) -> Memory:
    usage = states[0].get("memory_usage") if states else None
    if not isinstance(usage, Mapping):
        return Memory()
    graph = usage.get("graph", usage.get("cuda_graph"))
    by_kind: dict[str, float] = {}
    if isinstance(graph, Mapping):
        by_kind = {str(k): size for k, v in graph.items() if (size := _number(v)) is not None}
    elif (size := _number(graph)) is not None:
        by_kind = {"all": size}
    return Memory(_number(usage.get("weight")), _number(usage.get("kvcache")), by_kind)


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _MOST_GB:
        return None
    return float(value)
