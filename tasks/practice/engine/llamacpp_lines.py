"""llama-server's log lines, as text (builds 8000 to 11000, from public logs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .acts import Say

if TYPE_CHECKING:
    from .batch import Job
    from .engine import Engine
    from .launch import Launch

_TIMED = (0, 0, 9000)
_DETAILED = (0, 0, 9500)
_NEW_READY = (0, 0, 10500)


def stamped(engine: Engine, act: Say) -> str:
    """Elapsed time and level in front since spring 2026, nothing before."""
    if engine.launch.version < _TIMED:
        return act.text
    level = "E" if act.severe and act.level == "INFO" else act.level[0]
    passed = max(0, round((engine.world.now() - engine.started) * 1e6))
    minutes, rest = divmod(passed, 60_000_000)
    seconds, micros = divmod(rest, 1_000_000)
    front = f"{minutes}.{seconds:02}.{micros // 1000:03}.{micros % 1000:03} {level} "
    return "\n".join(f"{front}{line}" for line in act.text.split("\n"))


def detailed(launch: Launch) -> bool:
    """Whether layers, caches and implementations are told: at level 4 in newer builds, always before."""
    return launch.version < _DETAILED or launch.resolved.integer("log_verbosity") >= 4


def slots(launch: Launch) -> str:
    resolved = launch.resolved
    count, context = resolved.integer("slots_at_once"), resolved.integer("slot_context")
    if launch.version < _DETAILED:
        return f"srv    load_model: initializing slots, n_slots = {count}"
    shared = str(bool(resolved.arguments["shared_context"])).lower()
    return f"srv    load_model: initializing, n_slots = {count}, n_ctx_slot = {context}, kv_unified = '{shared}'"


def listening(launch: Launch) -> str:
    url = f"http://{launch.resolved.text('host')}:{launch.resolved.integer('port')}"
    if launch.version < _NEW_READY:
        return f"srv          main: server is listening on {url}"
    return f"srv  llama_server: listening on {url}"


def implementation(launch: Launch) -> str:
    return {"DRAFT_MODEL": "draft-simple", "MTP": "draft-mtp"}.get(launch.resolved.speculation, "ngram-mod")


def finished(engine: Engine, job: Job) -> Iterator[str]:
    """What is printed when a request has ended: times, acceptance if anything was drafted, totals since the start."""
    number = engine.totals.requests
    front = f"slot print_timing: id  0 | task {number} | "
    prompt, decoded = len(job.prompt) - job.cached, max(1, job.done)
    first, rest = 1000 * (job.first_token - job.arrived), 1000 * max(1e-6, job.finished - job.first_token)
    yield stamped(engine, Say(f"{front}prompt eval time = {first:10.2f} ms / {prompt:5} tokens"))
    speed = f"({rest / decoded:8.2f} ms per token, {1000 * decoded / rest:8.2f} tokens per second)"
    yield stamped(engine, Say(f"{front}       eval time = {rest:10.2f} ms / {decoded:5} tokens {speed}"))
    depth = engine.batch.acceptance.steps
    if depth and job.verify_calls:
        yield from _acceptance(engine, job, front, depth)
    yield stamped(engine, Say(f"slot      release: id  0 | task {number} | stop processing: n_tokens = {job.tokens}"))


def _acceptance(engine: Engine, job: Job, front: str, depth: int) -> Iterator[str]:
    drafted, counts = job.verify_calls * depth, engine.batch.counts
    rate, length = job.accepted / drafted, 1 + job.accepted / job.verify_calls
    yield stamped(
        engine,
        Say(
            f"{front}draft acceptance = {rate:.5f} ({job.accepted:5} accepted / {drafted:5} generated),"
            f" mean len = {length:5.2f}"
        ),
    )
    calls = counts.verify_calls
    yield stamped(
        engine,
        Say(
            f"spec common_specu: statistics {implementation(engine.launch):>16}:"
            f" #calls(b,g,a) = {1:4} {calls:6} {calls:6},"
            f" #gen drafts = {calls:6}, #acc drafts = {calls:5}, #gen tokens = {calls * depth:6},"
            f" #acc tokens = {counts.accepted:5}, #mean acc len = {1 + counts.accepted / calls:.2f},"
            " dur(b,g,a) = 0.003, 1119.274, 0.543 ms"
        ),
    )
