"""Composed evidence of one vLLM start: a journal, counters before and after our own requests."""

import json
from collections.abc import Sequence
from typing import Any

from state.canonical import sha256_hex
from state.claims import Fact, Verdict
from state.engines.vllm.verification import ENGINE
from state.evidence import Evidence
from state.judging import judge
from state.target import Target

MAIN, CORE = 14403, 14450
MTP = {"method": "mtp", "num_speculative_tokens": 3}
ASKED: dict[str, Any] = {
    "gpu_memory_utilization": 0.8,
    "max_model_len": 32768,
    "model": "/m",
    "speculative_config": MTP,
    "tensor_parallel_size": 2,
}
SHOWN = {"model_tag": "/m", **ASKED}
CONFIG = {
    "model": "'/m'",
    "speculative_config": "SpeculativeConfig(method='mtp', model='/m', num_spec_tokens=3)",
    "max_seq_len": "32768",
    "dtype": "torch.bfloat16",
    "tensor_parallel_size": "2",
    "quantization": "None",
    "enforce_eager": "False",
    "kv_cache_dtype": "auto",
    "enable_prefix_caching": "True",
    "enable_chunked_prefill": "True",
}


def target(arguments: dict[str, Any] | None = None, **changes: Any) -> Target:
    given: dict[str, Any] = {
        "engine": "vllm",
        "unit": "vllm.service",
        "unit_host": "serving",
        "endpoint": "http://127.0.0.1:8000",
        "argv": ("/opt/vllm/bin/vllm", "serve", "/m"),
        "arguments": {**ASKED, **(arguments or {})},
        "engine_version": "0.20.2",
        "architectures": ("Qwen3ForCausalLM",),
    }
    kept = {name: value for name, value in given["arguments"].items() if value is not None}
    return Target(**{**given, "arguments": kept, **changes})


def log(
    shown: dict[str, Any] | None = None,
    config: dict[str, str] | None = None,
    *,
    windows: Sequence[tuple[int, ...]] = ((603, 1000),),
    drafter: bool = True,
    extra: Sequence[str] = (),
) -> list[tuple[int, str]]:
    """A start, and a window for each pair of tokens accepted and drafted (and, third, drafted for each step)."""
    server, core = f"(APIServer pid={MAIN}) INFO 10-03 11:20:41 ", f"(EngineCore pid={CORE}) INFO 10-03 11:20:42 "
    line = ", ".join(f"{name}={value}" for name, value in (CONFIG if config is None else config).items())
    records = [(MAIN, f"{server}[utils.py:299] vLLM API server version 0.20.2")]
    if shown is not None or config is None:
        records.append((MAIN, f"{server}[utils.py:233] non-default args: {(SHOWN if shown is None else shown)!r}"))
    records += [
        (CORE, f"{core}[core.py:109] Initializing a V1 LLM engine (v0.20.2) with config: {line}"),
        (CORE, f"{core}[gpu_model_runner.py:4777] Starting to load model /m..."),
        *([(CORE, f"{core}[gpu_model_runner.py:4801] Loading drafter model...")] if drafter else []),
        *((CORE, f"{core}{text}") for text in extra),
        (CORE, f"{core}[gpu_model_runner.py:4879] Model loading took 21.42 GiB memory and 276.698589 seconds"),
        (MAIN, f"(APIServer pid={MAIN}) INFO:     Application startup complete."),
        (
            MAIN,
            f"{server}[loggers.py:273] Engine 000: Avg prompt throughput: 2.3 tokens/s, Avg generation "
            "throughput: 81.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%",
        ),
    ]
    return [*records, *((MAIN, f"{server}{window(*pair)}") for pair in windows)]


def window(accepted: int, drafted: int, depth: int = 3) -> str:
    drafts = drafted / depth
    rate = 100 * accepted / drafted
    return (
        f"[metrics.py:101] SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted "
        f"throughput: 60.30 tokens/s, Drafted throughput: 100.00 tokens/s, Accepted: {accepted} tokens, Drafted: "
        f"{drafted} tokens, Per-position acceptance rate: 0.820, 0.590, 0.400, Avg Draft acceptance rate: {rate:.1f}%"
    )


def metrics(drafts: int, accepted: int, depth: int = 3) -> bytes:
    """V1's counters; none of speculation for `drafts` below 0."""
    lines = ['vllm:num_requests_running{engine="0",model_name="/m"} 0.0']
    if drafts >= 0:
        lines += [
            f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}',
            f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafts * depth}',
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}',
        ]
    return "\n".join(lines).encode()


def pairs(*lengths: float) -> list[dict[str, Any]]:
    """Generations two at a time, the first of each pair with what was counted meanwhile."""
    counted = [{"drafts": 100, "accepted": round(100 * (length - 1))} for length in lengths]
    common = {"status": 200, "tokens": 256, "degenerate": False, "shown": "text", "verify_calls": None}
    return [one for each in counted for one in ({**common, "counted": each}, dict(common))]


def evidence(**changes: Any) -> Evidence:
    """Of a start that is all that was asked for; a change replaces an item, None takes it out."""
    answers = [{"status": 200, "right": True, "degenerate": False, "shown": f"answer {n}"} for n in range(8)]
    given: dict[str, Any] = {
        "context": {"main_pid": MAIN, "old_pids": []},
        "journal": log(),
        "answers": answers,
        "generations": pairs(2.8, 2.9, 2.7, 2.8),
        "models": {"data": [{"id": "/m"}]},
        "metrics-before": metrics(10, 12),
        "metrics": metrics(410, 12 + 720),
        **changes,
    }
    items = {name: _bytes(name, value) for name, value in given.items() if value is not None}
    return Evidence(items, {name: sha256_hex(data) for name, data in items.items()})


def _bytes(name: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if name != "journal":
        return json.dumps(value).encode()
    return "\n".join(json.dumps({"_PID": str(pid), "MESSAGE": text}) for pid, text in value).encode()


def facts(wanted: Target, found: Evidence) -> dict[str, Fact]:
    return {fact.metric: fact for fact in ENGINE.facts(wanted, found)}


def verdicts(wanted: Target, found: Evidence) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in judge(ENGINE.derive(wanted), ENGINE.facts(wanted, found))}
