"""What the OpenAI-compatible answers of the engines do not have in common: identifiers and further fields."""

from __future__ import annotations

from .batch import Job
from .engine import Engine
from .llamacpp_timings import build_info, timings
from .native import speculation_of


def answer_id(engine: Engine, job: Job, kind: str) -> str:
    if engine.launch.engine == "sglang":
        return job.rid
    return f"{'chatcmpl' if kind.startswith('chat') else 'cmpl'}-{job.rid}"


def choice_end(engine: Engine) -> dict[str, object]:
    """The last field of a choice."""
    if engine.launch.engine == "llamacpp":
        return {}
    return {"matched_stop": None} if engine.launch.engine == "sglang" else {"stop_reason": None}


def answer_end(engine: Engine, job: Job) -> dict[str, object]:
    """The last fields of a whole answer; vLLM's have the request's acceptance where it was started to tell it."""
    if engine.launch.engine == "sglang":
        return {"metadata": {"weight_version": engine.launch.resolved.text("weight_version")}}
    if engine.launch.engine == "llamacpp":
        return {"system_fingerprint": build_info(engine), "timings": timings(engine, job)}
    found: dict[str, object] = {"service_tier": None, "prompt_logprobs": None, "kv_transfer_params": None}
    told = engine.launch.asked.get("per_request_spec_decode_metrics") in ("summary", "detailed")
    if told and job.verify_calls:
        found["metrics"] = {"speculative_decoding": _drafting(engine, job)}
    return found


def _drafting(engine: Engine, job: Job) -> dict[str, object]:
    """`metrics.speculative_decoding` of 0.28 and later."""
    steps = engine.batch.acceptance.steps
    accepted, drafted, histogram = speculation_of(engine, job)
    return {
        "mean_acceptance_length": 1 + accepted / job.verify_calls,
        "draft_acceptance_rate": accepted / drafted,
        "acceptance_histogram": histogram + [0] * (steps + 1 - len(histogram)),
        "num_spec_steps": job.verify_calls,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": steps,
    }
