"""Composed evidence of one verification: a journal of JSON records, an arguments line, our own requests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core_samples import NEW_ARGV, target

from state.canonical import sha256_hex
from state.claims import Fact, Verdict
from state.engines.sglang.verification import ENGINE
from state.evidence import Evidence, common_facts
from state.judging import judge
from state.target import Target

INVOCATION = "a" * 32
MAIN, OLD = 14403, 14363
ASKED: dict[str, Any] = {
    "model_path": "/m",
    "tp_size": 4,
    "mem_fraction_static": 0.75,
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 5,
    "speculative_draft_model_path": "/m-mtp",
}
EFFECTIVE: dict[str, Any] = {
    **ASKED,
    "speculative_algorithm": "EAGLE",
    "disable_overlap_schedule": False,
    "mamba_scheduler_strategy": "extra_buffer",
}
STAMP = "[2026-03-09 15:54:20"
SEED = (
    (OLD, '[2026-03-09 15:54:13] INFO:     127.0.0.1:57386 - "POST /v1/chat/completions HTTP/1.1" 200 OK'),
    (
        MAIN,
        "[2026-03-09 15:54:24 TP0] Prefill batch, #new-seq: 1, #new-token: 22, #cached-token: 0, "
        "full token usage: 0.00, mamba usage: 0.01, #running-req: 0, #queue-req: 0, "
        "input throughput (token/s): 1.82, cuda graph: False",
    ),
    (
        MAIN,
        "[2026-03-09 15:54:24 TP0] Decode batch, #running-req: 1, #token: 1, #speculation: 5, #accepted: 5, #draft: 5, "
        "spec_accept: 1.00, new token usage: 0.00, mamba usage: 0.01, #running-req: 1, #queue-req: 0, "
        "input throughput (token/s): 0.09, output throughput (token/s): 0.09, cuda graph: False",
    ),
)
"""What an operator saw: an old process still at work, then the new one's first decode record."""


def asked(**changes: Any) -> Target:
    given: dict[str, Any] = {
        "arguments": ASKED,
        "engine_version": "0.5.12",
        "architectures": ("Qwen3_5MoeForConditionalGeneration",),
        "drivers": {"0000:01:00.0": "nvidia"},
    }
    return target(**(given | changes))


def journal(records: Iterable[tuple[int, str]]) -> bytes:
    lines = (
        json.dumps(
            {
                "_PID": str(pid),
                "MESSAGE": message,
                "_SYSTEMD_INVOCATION_ID": INVOCATION,
                "SYSLOG_IDENTIFIER": "sglang-qwen",
                "__REALTIME_TIMESTAMP": str(1_773_071_653_000_000 + n),
            }
        )
        for n, (pid, message) in enumerate(records)
    )
    return "\n".join(lines).encode()


def booted(
    arguments: Mapping[str, Any] | None = None,
    *,
    drafts: Sequence[float] = (1.91, 1.91, 1.91, 1.91),
    accept: float = 3.2,
) -> list[tuple[int, str]]:
    """A start of four ranks that loads `drafts` (GB by rank) and decodes with this accept length; 0: without one."""
    shown = ", ".join(f"{name}={value!r}" for name, value in (EFFECTIVE if arguments is None else arguments).items())
    lines = [f"{STAMP}] server_args=ServerArgs({shown})"]
    for rank in range(4):
        lines += [
            f"{STAMP} TP{rank}] Load weight begin. avail mem=90.00 GB",
            f"{STAMP} TP{rank}] Load weight end. elapsed=40.00 s, type=Qwen3_5MoeForConditionalGeneration, "
            "avail mem=60.00 GB, mem usage=30.00 GB.",
        ]
    for rank, gb in enumerate(drafts):
        lines += [
            f"{STAMP} TP{rank}] Load weight begin. avail mem=60.00 GB",
            f"{STAMP} TP{rank}] Load weight end. elapsed=3.00 s, type=Qwen3_5ForCausalLMMTP, avail mem=58.00 GB, "
            f"mem usage={gb:.2f} GB.",
        ]
    acceptance = f"accept len: {accept:.2f}, accept rate: {(accept - 1) / 5:.2f}, " if accept else ""
    lines += [
        f"{STAMP}] The server is fired up and ready to roll!",
        *[
            f"{STAMP} TP0] Decode batch, #running-req: 1, #full token: 300, full token usage: 0.00, mamba num: 2, "
            f"mamba usage: 0.01, {acceptance}cuda graph: True, gen throughput (token/s): 151.00, #queue-req: 0"
        ]
        * 3,
    ]
    return [(MAIN, line) for line in lines]


def answers(right: int = 8, count: int = 8, degenerate: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "prompt": f"question {n}",
            "right": n < right,
            "degenerate": n < degenerate,
            "shown": f"answer {n}",
            "status": 200,
        }
        for n in range(count)
    ]


def generations(*lengths: float, degenerate: int = 0) -> list[dict[str, Any]]:
    """One of our long requests for each accept length, 200 verify calls each."""
    return [
        {
            "tokens": round(length * 200) + 1,
            "verify_calls": 200,
            "degenerate": n < degenerate,
            "shown": "text",
            "status": 200,
        }
        for n, length in enumerate(lengths)
    ]


def items(**changes: Any) -> dict[str, bytes]:
    """Evidence of a start that is all that was asked for; a change replaces an item, None takes it out."""
    given: dict[str, Any] = {
        "context": {"invocation": INVOCATION, "main_pid": MAIN, "restarts": 0, "old_pids": [OLD]},
        "unit": f"ActiveState=active\nInvocationID={INVOCATION}\nNRestarts=0\nMainPID={MAIN}\n".encode(),
        "cmdline": b"".join(word.encode() + b"\0" for word in NEW_ARGV),
        "environ": {"PATH": None, "SGLANG_ENABLE_SPEC_V2": "1"},
        "processes": [MAIN, 14410],
        "listeners": [MAIN],
        "drivers": {"0000:01:00.0": "nvidia"},
        "kernel": b"",
        "journal": journal(booted()),
        "server_info": EFFECTIVE,
        "models": {"data": [{"id": "/m"}]},
        "answers": answers(),
        "generations": generations(3.1, 3.2, 3.3, 3.2, 3.1, 3.3),
    }
    given |= changes
    kept = {name.replace("server_info", "server-info"): value for name, value in given.items() if value is not None}
    return {name: v if isinstance(v, bytes) else json.dumps(v).encode() for name, v in kept.items()}


def evidence(**changes: Any) -> Evidence:
    raw = items(**changes)
    return Evidence(raw, {name: sha256_hex(data) for name, data in raw.items()})


def facts(given: Evidence, wanted: Target | None = None) -> dict[str, Fact]:
    wanted = wanted or asked()
    return {fact.metric: fact for fact in (*common_facts(wanted, given), *ENGINE.facts(wanted, given))}


def verdicts(given: Evidence, wanted: Target | None = None) -> dict[str, Verdict]:
    wanted = wanted or asked()
    return {v.claim: v for v in judge(ENGINE.derive(wanted), facts(given, wanted).values())}
