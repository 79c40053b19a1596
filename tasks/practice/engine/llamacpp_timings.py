"""What llama-server says of a single request in its answer: times, and figures of drafts."""

from __future__ import annotations

from .batch import Job
from .engine import Engine
from .native import speculation_of


def build_info(engine: Engine) -> str:
    return f"b{engine.launch.version.patch}-5ca1ab1e0"


def timings(engine: Engine, job: Job) -> dict[str, object]:
    """Times in milliseconds; figures of drafts only where something was drafted."""
    first, rest = 1000 * (job.first_token - job.arrived), 1000 * max(1e-6, job.finished - job.first_token)
    found: dict[str, object] = {
        "cache_n": job.cached,
        "prompt_n": len(job.prompt) - job.cached,
        "prompt_ms": first,
        "predicted_n": job.done,
        "predicted_ms": rest,
        "predicted_per_second": 1000 * job.done / rest,
    }
    accepted, drafted, _ = speculation_of(engine, job)
    return {**found, "draft_n": drafted, "draft_n_accepted": accepted} if drafted else found
