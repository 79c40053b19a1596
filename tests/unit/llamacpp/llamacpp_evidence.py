# ruff: noqa: E501  # lines of logs are shown whole
"""Composed evidence of one start of llama-server: a journal, /props, and our own requests."""

import json
from collections.abc import Sequence
from typing import Any

from state.canonical import sha256_hex
from state.claims import Fact, Verdict
from state.engines.llamacpp.verification import ENGINE
from state.evidence import Evidence
from state.judging import judge
from state.target import Target

MAIN = 14403
ASKED: dict[str, Any] = {
    "cache_type_k": "q8_0",
    "ctx_size": 32768,
    "log_verbosity": 4,
    "model": "/m.gguf",
    "model_draft": "/d.gguf",
    "n_gpu_layers": 99,
    "parallel": 2,
    "spec_draft_n_max": 8,
    "spec_type": "draft-simple",
}
PLAIN = {"model_draft": None, "spec_draft_n_max": None, "spec_type": None}
HEAD = {"model_draft": None, "spec_type": "draft-mtp"}
PROPS: dict[str, Any] = {
    "default_generation_settings": {"n_ctx": 16384, "params": {"speculative.types": "none"}},
    "total_slots": 2,
    "model_path": "/m.gguf",
    "build_info": "b9849-799fcc04a",
}
DRAFT = "srv    load_model: loading draft model '/d.gguf'"
MTP = "srv    load_model: creating MTP draft context against the target model '/m.gguf'"
READY = "srv  llama_server: listening on http://127.0.0.1:9931"
SLOTS = "srv    load_model: initializing, n_slots = 2, n_ctx_slot = 16384, kv_unified = 'false'"


def target(arguments: dict[str, Any] | None = None, **changes: Any) -> Target:
    given: dict[str, Any] = {
        "engine": "llamacpp",
        "unit": "llama.service",
        "unit_host": "serving",
        "endpoint": "http://127.0.0.1:9931",
        "argv": ("/opt/llamacpp/bin/llama-server", "-m", "/m.gguf"),
        "arguments": {**ASKED, **(arguments or {})},
        "engine_version": "b9849",
    }
    kept = {name: value for name, value in given["arguments"].items() if value is not None}
    return Target(**{**given, "arguments": kept, **changes})


def log(
    *,
    draft: Sequence[str] = (DRAFT,),
    requests: Sequence[tuple[int, int]] = ((150, 300),) * 4,
    depth: int = 8,
    slots: str = SLOTS,
    layers: str = "29/29",
    extra: Sequence[str] = (),
    ready: bool = True,
) -> list[str]:
    """A start in the words of build 9849 at verbosity 4; `requests` are (accepted, drafted), 0 drafted for none."""
    built = (
        f"spec common_specu: adding speculative implementation '{'draft-mtp' if MTP in draft else 'draft-simple'}'",
        f"spec common_specu: - n_max={depth}, n_min=0, p_min=0.00",
        "srv    load_model: speculative decoding context initialized",
    )
    start = [
        "srv    load_model: loading model '/m.gguf'",
        f"load_tensors: offloaded {layers} layers to GPU",
        "llama_context: n_ctx         = 32768",
        "llama_context: flash_attn    = enabled",
        "llama_kv_cache: size =  476.00 MiB ( 16384 cells,  28 layers,  2/2 seqs), K (q8_0):  238.00 MiB, V (f16):  448.00 MiB",
        *draft,
        *(("llama_kv_cache: size =   12.00 MiB ( 16384 cells,   4 layers,  2/2 seqs), K (f16):    6.00 MiB, V (f16): 6 MiB",) if draft else ()),
        slots,
        *(built if draft else ()),
        *extra,
        *((READY,) if ready else ()),
    ]  # fmt: skip
    lines = [f"0.01.{number:03}.100 I {text}" for number, text in enumerate(start)]
    return [*lines, *(line for place, one in enumerate(requests) for line in served(place, *one, depth=depth))]


def served(place: int, accepted: int, drafted: int, *, depth: int = 8) -> list[str]:
    """What is printed when a request has ended."""
    front = f"0.{20 + place:02}.760.136 I slot print_timing: id  1 | task {place} | "
    lines = [
        f"{front}prompt eval time =      34.89 ms /    12 tokens (    2.90 ms per token,   343.93 tokens per second)",
        f"{front}       eval time =    2911.41 ms /   256 tokens (   11.37 ms per token,    87.93 tokens per second)",
    ]
    if drafted:
        lines.append(
            f"{front}draft acceptance = {accepted / drafted:.5f} ({accepted:5} accepted / {drafted:5} generated), mean len =  2.35"
        )
        drafts = drafted // depth * (place + 1)
        lines.append(
            f"0.{20 + place:02}.760.161 I spec common_specu: statistics     draft-simple: #calls(b,g,a) = 1 {drafts} {drafts}, "
            f"#gen drafts = {drafts:6}, #acc drafts = 9, #gen tokens = {drafts * depth:6}, #acc tokens = 9, dur(b,g,a) = 0.003, 1.2, 0.5 ms"
        )
    return lines


def own(*pairs: tuple[int | None, int | None]) -> list[dict[str, Any]]:
    """Our own generations of 256 tokens with (accepted, drafted) of each."""
    common = {"status": 200, "tokens": 256, "degenerate": False, "shown": "text", "verify_calls": None}
    return [{**common, "accepted": accepted, "drafted": drafted} for accepted, drafted in pairs]


def evidence(**changes: Any) -> Evidence:
    """Of a start that is all that was asked for; a change replaces an item, None takes it out."""
    answers = [{"status": 200, "right": True, "degenerate": False, "shown": f"answer {n}"} for n in range(8)]
    given: dict[str, Any] = {
        "context": {"main_pid": MAIN, "old_pids": []},
        "journal": log(),
        "answers": answers,
        "generations": own(*(((150, 300),) * 4)),
        "models": {"data": [{"id": "/m.gguf"}]},
        "props": PROPS,
        "cmdline": b"/opt/llamacpp/bin/llama-server\0-m\0/m.gguf\0",
        "environ": {"PATH": "/usr/bin"},
        **changes,
    }
    items = {name: _bytes(name, value) for name, value in given.items() if value is not None}
    return Evidence(items, {name: sha256_hex(data) for name, data in items.items()})


def _bytes(name: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if name != "journal":
        return json.dumps(value).encode()
    return "\n".join(json.dumps({"_PID": str(MAIN), "MESSAGE": text}) for text in value).encode()


def facts(wanted: Target, found: Evidence) -> dict[str, Fact]:
    return {fact.metric: fact for fact in ENGINE.facts(wanted, found)}


def verdicts(wanted: Target, found: Evidence) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in judge(ENGINE.derive(wanted), ENGINE.facts(wanted, found))}
