"""A start of vLLM's V1 engine as acts, in the order of public logs of 0.20 to 0.29."""

from __future__ import annotations

from collections.abc import Iterator

from . import vllm_lines
from .acts import Act, Bind, End, LoseRank, Pause, Ready, Say
from .launch import Launch
from .sizes import Sizes, sizes_of
from .vllm_arguments import DEFAULTS
from .vllm_failures import CRASHES, core_crash, crash_of


def boot(launch: Launch, pid: int) -> Iterator[Act]:
    """Every act from the first line to readiness, or to the end where this start fails."""
    sizes = sizes_of(launch)
    for stage in (_arguments, _distributed, _weights, _draft_weights, _caches, _graphs, _http):
        for act in stage(launch, sizes, pid):
            yield act
            if isinstance(act, End):
                return


def _stage(launch: Launch, name: str) -> Iterator[Act]:
    slow = launch.faults.get("slow-load")
    extra = slow.number("seconds", 10.0) if slow and slow.options.get("stage", "weights") == name else 0.0
    yield Pause(launch.settings.stage_seconds[name] + extra)
    if found := crash_of(launch, name):
        yield from core_crash(launch, found[0])


def _workers(launch: Launch) -> tuple[int, ...]:
    """The processes that hold weights: the core itself, or its workers."""
    return tuple(range(1, len(launch.ranks))) or (0,)


def _arguments(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    yield Say(f"[utils.py:299] vLLM API server version {launch.version}")
    yield Say(vllm_lines.non_default(launch.asked, DEFAULTS, serves=not launch.legacy_entry))
    yield from _stage(launch, "arguments")
    yield Say(f"[model.py:555] Resolved architecture: {launch.model.architecture}")
    context = launch.resolved.integer("context_length") or launch.model.context_length
    yield Say(f"[model.py:1680] Using max model len {context}")
    if launch.resolved.speculation and launch.draft is not None:
        yield Say(f"[model.py:555] Resolved architecture: {launch.draft.draft_class}")
        if launch.resolved.speculation == "MTP" and launch.resolved.drafts_per_step > 1:
            yield Say(
                "[speculative.py:602] Enabling num_speculative_tokens > 1 will run multiple times of forward on same"
                " MTP layer,which may result in lower acceptance rate",
                level="WARNING",
            )
    yield Say("[scheduler.py:239] Chunked prefill is enabled with max_num_batched_tokens=8192.")
    yield Say("[vllm.py:840] Asynchronous scheduling is enabled.")
    yield Say(vllm_lines.configuration(launch), 0)


def _distributed(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    yield from _stage(launch, "distributed")
    size = launch.resolved.integer("tp_size")
    for rank, process in enumerate(_workers(launch)):
        yield Say(
            f"[parallel_state.py:1715] rank {rank} in world size {size} is assigned as DP rank 0, PP rank 0,"
            f" PCP rank 0, TP rank {rank}, EP rank {rank}, EPLB rank N/A",
            process,
        )


def _weights(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    for process in _workers(launch):
        yield Say(f"[gpu_model_runner.py:4777] Starting to load model {launch.model.path}...", process)
    if fault := launch.faults.get("host-oom"):
        yield LoseRank(min(int(fault.number("rank", 0)), len(launch.ranks) - 1))
    yield from _stage(launch, "weights")
    if sizes.after_weights < 0:
        yield from core_crash(launch, CRASHES["cuda-oom"])
    seconds = launch.settings.stage_seconds["weights"]
    yield Say(f"[default_loader.py:384] Loading weights took {seconds:.2f} seconds", _workers(launch)[0])


def _draft_weights(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    first = _workers(launch)[0]
    if launch.draft is not None:
        yield Say("[gpu_model_runner.py:4801] Loading drafter model...", first)
        yield from _stage(launch, "draft-weights")
        seconds = launch.settings.stage_seconds["draft-weights"]
        yield Say(f"[default_loader.py:384] Loading weights took {seconds:.2f} seconds", first)
        if launch.resolved.speculation == "MTP":
            for what in ("embedding", "lm_head"):
                shared = f"Detected MTP model. Sharing target model {what} weights with the draft model."
                yield Say(f"[llm_base_proposer.py:1445] {shared}", first)
    took = launch.settings.stage_seconds["weights"]
    for process in _workers(launch):
        used = sizes.weights + sizes.draft
        yield Say(
            f"[gpu_model_runner.py:4879] Model loading took {used:.2f} GiB memory and {took:.6f} seconds", process
        )


def _caches(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    yield from _stage(launch, "kv-cache")
    if not sizes.fits:
        yield from core_crash(launch, CRASHES["kv-too-small"])
    for process in _workers(launch):
        yield Say(f"[gpu_worker.py:515] Available KV cache memory: {sizes.kv:.2f} GiB", process)
    yield Say(f"[kv_cache_utils.py:2146] GPU KV cache size: {sizes.tokens:,} tokens", 0)
    context = launch.resolved.integer("context_length") or launch.model.context_length
    times = sizes.tokens / max(1, context)
    yield Say(f"[kv_cache_utils.py:2147] Maximum concurrency for {context:,} tokens per request: {times:.2f}x", 0)


def _graphs(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    if sizes.graphs:
        first = _workers(launch)[0]
        yield Say(
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 13/13", first, stamped=False
        )
        if not sizes.graphs_fit:
            yield from core_crash(launch, CRASHES["cuda-oom"])
        yield from _stage(launch, "graphs")
        seconds, used = launch.settings.stage_seconds["graphs"], sum(sizes.graphs.values())
        yield Say(
            f"[gpu_model_runner.py:6656] Graph capturing finished in {seconds:.0f} secs, took {used:.2f} GiB", first
        )
    yield from _stage(launch, "warm-up")
    whole = sum(launch.settings.stage_seconds.values())
    yield Say(f"[core.py:337] init engine (profile, create kv cache, warmup model) took {whole:.2f} s", 0)


def _http(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    host, port = launch.resolved.text("host"), launch.resolved.integer("port")
    yield Say("[api_server.py:619] Supported tasks: ['generate']")
    yield Say(f"[api_server.py:623] Starting vLLM server on http://{host}:{port}")
    yield Say(f"INFO:     Started server process [{pid}]")
    yield Say("INFO:     Waiting for application startup.")
    yield from _stage(launch, "http")
    yield Bind()
    yield Say("INFO:     Application startup complete.")
    yield Ready()


def taken_port(launch: Launch, host: str, port: int, pid: int) -> Iterator[Act]:
    """The real one binds its socket before it loads anything; this one notices at the end."""
    site = launch.installation.site
    yield Say(
        "Traceback (most recent call last):\n"
        f'  File "{site}/vllm/entrypoints/openai/api_server.py", line 455, in create_server_socket\n'
        "    sock.bind(addr)\n"
        "OSError: [Errno 98] Address already in use",
        stamped=False,
        severe=True,
    )
