"""A start of the engine as acts, in the real one's order (captures of 0.5.17; other versions from source)."""

from __future__ import annotations

from collections.abc import Iterator

from . import lines
from .acts import Act, Bind, End, LoseRank, Pause, Ready, Say, WarmUp
from .failures import CRASHES, crash_of, scheduler_crash, warm_up_failure
from .launch import Launch, legacy_warning
from .sizes import Sizes, running_requests, sizes_of

_AUTOTUNE = (
    "Runtime error while autotuning, Ignoring this choice: torch.OutOfMemoryError: CUDA out of memory."
    " Tried to allocate 2.00 GiB."
)
"""An autotuner's word about a variant that did not fit; it takes another one."""

_FIRED_UP = "The server is fired up and ready to roll!"


def boot(launch: Launch, pid: int) -> Iterator[Act]:
    """Every act from the first line to readiness, or to the end where this start fails. `pid` is the main process's."""
    sizes = sizes_of(launch)
    for stage in (_arguments, _distributed, _weights, _draft_weights, _pools, _graphs, _http, _warm_up):
        for act in stage(launch, sizes, pid):
            yield act
            if isinstance(act, End):
                return


def _stage(launch: Launch, name: str, pid: int) -> Iterator[Act]:
    """The time that a stage takes, and the way out where a fault ends the start in it."""
    slow = launch.faults.get("slow-load")
    extra = slow.number("seconds", 10.0) if slow and slow.options.get("stage", "weights") == name else 0.0
    yield Pause(launch.settings.stage_seconds[name] + extra)
    yield from _crash(launch, name, pid)


def _crash(launch: Launch, stage: str, pid: int) -> Iterator[Act]:
    if found := crash_of(launch, stage):
        crash, fault = found
        yield from scheduler_crash(launch, crash, rank=_rank(launch, fault.number("rank", 0)), pid=pid)


def _rank(launch: Launch, number: float) -> int:
    return min(int(number), len(launch.ranks) - 1)


def _every(launch: Launch, text: str) -> Iterator[Act]:
    for rank in range(len(launch.ranks)):
        yield Say(text, rank)


def _arguments(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    if warning := legacy_warning(launch):
        yield Say(warning.rstrip("\n"), stamped=False)
    if launch.resolved.arguments.get("disable_cuda_graph") and launch.version >= (0, 5, 16):
        yield Say(
            "\x1b[1;33m'--disable-cuda-graph' is deprecated and will be removed in a future release."
            " Use '--cuda-graph-backend-{decode,prefill}=disabled' instead.\x1b[0m",
            stamped=False,
        )
    for note in launch.resolved.notes:
        yield Say(note)
    yield Say(lines.server_args(launch.resolved.arguments, launch.version))
    yield from _stage(launch, "arguments", pid)
    yield from _noise(launch)
    yield Say("Using default HuggingFace chat template with detected content format: openai")


def _noise(launch: Launch) -> Iterator[Act]:
    """Harmless lines that sound like trouble; every real start of a multimodal model has them."""
    if launch.model.multimodal and launch.version >= (0, 5, 14):
        yield Say("Ignore import error when loading sglang.srt.multimodal.processors.inkling: No module named 'helion'")
        yield Say("torchcodec is not installed; audio inputs will fail at request time")
        yield Say(
            "[transformers] The `use_fast` parameter is deprecated and will be removed in a future version.",
            stamped=False,
        )


def _distributed(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    yield from _every(launch, "Init torch distributed begin.")
    yield from _stage(launch, "distributed", pid)
    elapsed = launch.settings.stage_seconds["distributed"]
    yield from _every(launch, f"Init torch distributed ends. elapsed={elapsed:.2f} s, mem usage=0.62 GB")


def _weights(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    yield from _every(launch, f"Load weight begin. avail mem={sizes.available:.2f} GB")
    if fault := launch.faults.get("host-oom"):
        yield LoseRank(_rank(launch, fault.number("rank", 0)))
    yield from _stage(launch, "weights", pid)
    if sizes.after_weights < 0:
        yield from scheduler_crash(launch, CRASHES["cuda-oom"], rank=0, pid=pid)
    yield Say("Multi-thread loading shards: 100% Completed | 4/4 [00:00<00:00, 11.31it/s]", 0, stamped=False)
    elapsed = launch.settings.stage_seconds["weights"]
    yield from _every(
        launch,
        lines.weights_end(
            launch.version,
            kind=launch.model.architecture,
            elapsed=elapsed,
            available=sizes.available - sizes.weights,
            used=sizes.weights,
        ),
    )


def _draft_weights(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    if launch.draft is None:
        return
    free = sizes.available - sizes.weights
    yield from _every(launch, f"Load weight begin. avail mem={free:.2f} GB")
    yield from _stage(launch, "draft-weights", pid)
    whole = launch.draft_bytes == launch.draft.weight_bytes and not launch.draft.mtp_bytes
    kind = launch.draft.architecture if whole else launch.draft.draft_class
    elapsed = launch.settings.stage_seconds["draft-weights"]
    fewer = launch.faults.get("fewer-drafts-on-one-rank")
    for rank in range(len(launch.ranks)):
        used = sizes.draft
        if fewer and rank == _rank(launch, fewer.number("rank", len(launch.ranks) - 1)):
            if fewer.options.get("gb") is None:
                continue
            used = fewer.number("gb", 0.0)
        yield Say(lines.weights_end(launch.version, kind=kind, elapsed=elapsed, available=free - used, used=used), rank)


def _pools(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    if launch.faults.has("autotune-noise"):
        yield from _every(launch, _AUTOTUNE)
    yield from _every(launch, "Using KV cache dtype: torch.bfloat16")
    yield from _stage(launch, "kv-cache", pid)
    if not sizes.fits:
        yield from scheduler_crash(launch, CRASHES["kv-too-small"], rank=0, pid=pid)
    if launch.model.hybrid:
        text = (
            f"Mamba Cache is allocated. max_mamba_cache_size: {sizes.mamba_slots},"
            f" conv_state size: {sizes.mamba * 0.02:.2f}GB,"
            f" ssm_state size: {sizes.mamba * 0.98 - sizes.intermediate:.2f}GB "
        )
        if launch.resolved.speculation:
            text += (
                f"intermediate_ssm_state_cache size: {sizes.intermediate:.2f}GB"
                f" intermediate_conv_window_cache size: {sizes.intermediate * 0.03:.2f}GB "
            )
        yield from _every(launch, text)
    dtype = "dtype: torch.bfloat16, " if launch.version >= (0, 5, 14) else ""
    yield from _cache(launch, dtype, sizes.tokens, sizes.kv / 2, sizes.after_pools)
    yield from _crash(launch, "pools", pid)
    if launch.draft is not None:
        yield from _cache(launch, dtype, sizes.tokens, sizes.kv / 48, sizes.after_pools)


def _cache(launch: Launch, dtype: str, tokens: int, half: float, left: float) -> Iterator[Act]:
    yield from _every(
        launch, f"KV Cache is allocated. {dtype}#tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB"
    )
    yield from _every(launch, f"Memory pool end. avail mem={left:.2f} GB")


def graph_sizes(launch: Launch) -> list[int]:
    most = launch.resolved.integer("cuda_graph_max_bs")
    return [size for size in (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 256) if size <= most]


def _graphs(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    free, batches = sizes.after_pools - 0.24, graph_sizes(launch)
    if not sizes.graphs and not launch.faults.has("graph-capture-failed"):
        yield Say("Disable CUDA graph because --disable-cuda-graph is set.", 0)
    per_graph = launch.settings.stage_seconds["graphs"] / max(1, len(sizes.graphs))
    drafts = launch.resolved.integer("speculative_num_draft_tokens") or 1
    for name, used in sizes.graphs.items():
        tokens = drafts if name in ("target verify", "draft extend") else 1
        yield from _every(launch, lines.graph_begin(launch.version, name, tokens=tokens, sizes=batches, available=free))
        if name.startswith("target"):
            if not launch.version.new_graph_lines:
                yield Say(f"Capture cuda graph bs {batches}", 0)
            if not sizes.graphs_fit:
                yield from scheduler_crash(launch, CRASHES["cuda-oom"], rank=0, pid=pid)
            yield from _crash(launch, "graphs", pid)
        yield Pause(per_graph)
        free -= used
        end = lines.graph_end(launch.version, name, elapsed=per_graph, used=used, available=free, sizes=batches)
        yield from _every(launch, end)
    yield Say(
        f"max_total_num_tokens={sizes.tokens}, chunked_prefill_size={launch.resolved.integer('chunked_prefill_size')},"
        f" max_prefill_tokens={launch.resolved.integer('max_prefill_tokens')},"
        f" max_running_requests={running_requests(launch, sizes)}, context_len={context_length(launch)},"
        f" available_gpu_mem={free:.2f} GB",
        0,
    )


def context_length(launch: Launch) -> int:
    return launch.resolved.integer("context_length") or launch.model.context_length


def _http(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    yield Say(f"INFO:     Started server process [{pid}]")
    yield Say("INFO:     Waiting for application startup.")
    yield from _stage(launch, "http", pid)
    yield Say("INFO:     Application startup complete.")
    yield Bind()


def taken_port(launch: Launch, host: str, port: int, pid: int) -> Iterator[Act]:
    """The port belongs to somebody else, whose answer to the warm-up request is taken for this server's own."""
    yield Say(
        f"ERROR:    [Errno 98] error while attempting to bind on address ('{host}', {port}): address already in use",
        severe=True,
    )
    yield Say("INFO:     Waiting for application shutdown.")
    yield Pause(launch.settings.stage_seconds["warm-up"])
    yield Say(_FIRED_UP)
    yield Say("INFO:     Application shutdown complete.")
    if launch.version >= (0, 5, 14):
        yield Say(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")


def _warm_up(launch: Launch, sizes: Sizes, pid: int) -> Iterator[Act]:
    if not launch.resolved.arguments["skip_server_warmup"]:
        yield from _stage(launch, "warm-up", pid)
        if launch.faults.has("warm-up-failed"):
            yield from warm_up_failure(launch, pid)
            return
        yield WarmUp()
    yield Ready()
    yield Say(_FIRED_UP)
