"""Start and end of llama-server as acts: the port opens first, the model is loaded behind it, all in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import llamacpp_lines
from .acts import Act, Bind, End, Pause, Ready, Say
from .ending import leave_behind
from .launch import Launch
from .sizes import Sizes, sizes_of

if TYPE_CHECKING:
    from .engine import Engine

_CRASHES: dict[str, tuple[str, tuple[str, ...]]] = {
    "crash-loading-draft": (
        "draft-weights",
        (
            "llama_model_load: error loading model: missing tensor 'blk.40.attn_norm.weight'",
            "llama_model_load_from_file_impl: failed to load model",
            "srv    load_model: failed to load draft model, '{draft}'",
        ),
    ),
    "cuda-oom": (
        "kv-cache",
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of"
            " memory",
            "alloc_tensor_range: failed to allocate CUDA0 buffer of size 9663676416",
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
            "srv    load_model: failed to load model, '{model}'",
        ),
    ),
    "kv-too-small": (
        "kv-cache",
        (
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
            "srv    load_model: failed to load model, '{model}'",
        ),
    ),
}
"""Faults that end the start, by the stage in which they do it."""


def boot(launch: Launch, pid: int) -> Iterator[Act]:
    """Every act from the first line to readiness, or to the end where this start fails."""
    sizes = sizes_of(launch)
    for stage in (_arguments, _weights, _caches, _draft, _slots):
        for act in stage(launch, sizes):
            yield act
            if isinstance(act, End):
                return


def _stage(launch: Launch, name: str) -> Iterator[Act]:
    slow = launch.faults.get("slow-load")
    extra = slow.number("seconds", 10.0) if slow and slow.options.get("stage", "weights") == name else 0.0
    yield Pause(launch.settings.stage_seconds[name] + extra)
    for fault, (stage, texts) in _CRASHES.items():
        if stage == name and launch.faults.has(fault):
            yield from _failed(launch, texts)
            return


def _failed(launch: Launch, texts: tuple[str, ...]) -> Iterator[Act]:
    names = {"model": launch.model.path, "draft": launch.draft.path if launch.draft else ""}
    for text in texts:
        yield Say(text.format(**names), severe=True)
    yield Say("srv    operator(): operator(): cleaning up before exit...")
    yield Say("srv  llama_server: exiting due to model loading error", severe=True)
    yield End(1)


def _arguments(launch: Launch, sizes: Sizes) -> Iterator[Act]:
    if not llamacpp_lines.detailed(launch) or launch.version >= (0, 0, 9000):
        level = launch.resolved.integer("log_verbosity")
        yield Say(f"cmn  common_param: common_params_print_info: verbosity = {level} (adjust with the `-lv N` CLI arg)")
    else:
        yield Say(f"build: {launch.version.patch} (5ca1ab1e0) with cc (Debian 12.2.0) for x86_64-linux-gnu")
    yield Say("system_info: n_threads = 16 (n_threads_batch = 16) / 32 | CUDA : ARCHS = 900 | CPU : AVX2 = 1 |")
    yield from _stage(launch, "arguments")
    yield Say("srv          init: using 31 threads for HTTP server")
    yield Bind()
    yield Say("srv  llama_server: loading model")


def _weights(launch: Launch, sizes: Sizes) -> Iterator[Act]:
    yield Say(f"srv    load_model: loading model '{launch.model.path}'")
    if launch.faults.has("host-oom"):
        yield End(-9)
    yield from _stage(launch, "weights")
    layers = launch.resolved.integer("gpu_layers")
    if llamacpp_lines.detailed(launch):
        yield Say("load_tensors: loading model tensors, this can take a while... (mmap = true, direct_io = false)")
        yield Say(f"load_tensors: offloaded {layers}/49 layers to GPU")
        yield Say(f"load_tensors:        CUDA0 model buffer size = {sizes.weights * 1024:8.2f} MiB")


def _caches(launch: Launch, sizes: Sizes) -> Iterator[Act]:
    yield from _stage(launch, "kv-cache")
    yield from _context(launch)
    yield Say("cmn  common_init_: warming up the model with an empty run - please wait ... (--no-warmup to disable)")
    yield from _stage(launch, "warm-up")


def _context(launch: Launch) -> Iterator[Act]:
    if not llamacpp_lines.detailed(launch):
        return
    resolved, asked = launch.resolved, launch.asked
    slots, context = resolved.integer("slots_at_once"), resolved.integer("slot_context")
    shared = bool(resolved.arguments["shared_context"])
    yield Say(f"llama_context: n_ctx         = {context if shared else context * slots}")
    attention = "disabled" if asked["flash_attn"] == "off" else "enabled"
    yield Say(f"llama_context: flash_attn    = {attention}")
    k, v = asked["cache_type_k"], asked["cache_type_v"]
    yield Say(
        f"llama_kv_cache: size =  952.00 MiB ({context:6} cells,  48 layers,  {slots}/1 seqs), K ({k}):  476.00 MiB,"
        f" V ({v}):  476.00 MiB"
    )


def _draft(launch: Launch, sizes: Sizes) -> Iterator[Act]:
    for note in launch.resolved.notes:
        yield Say(note, level="WARNING")
    if launch.resolved.speculation == "MTP":
        yield Say(f"srv    load_model: creating MTP draft context against the target model '{launch.model.path}'")
    elif launch.draft is not None and launch.resolved.speculation != "NGRAM":
        yield Say(f"srv    load_model: loading draft model '{launch.draft.path}'")
    if launch.resolved.speculation:
        yield from _stage(launch, "draft-weights")


def _slots(launch: Launch, sizes: Sizes) -> Iterator[Act]:
    yield Say(llamacpp_lines.slots(launch))
    if launch.resolved.speculation:
        yield from _built(launch)
    for slot in range(launch.resolved.integer("slots_at_once")):
        yield Say(
            f"slot   load_model: id  {slot} | task -1 | new slot, n_ctx = {launch.resolved.integer('slot_context')}"
        )
    yield from _stage(launch, "http")
    yield Say("srv  llama_server: model loaded")
    yield Ready()
    yield Say(llamacpp_lines.listening(launch))
    yield Say("srv  update_slots: all slots are idle")


def _built(launch: Launch) -> Iterator[Act]:
    kind, depth = llamacpp_lines.implementation(launch), launch.resolved.drafts_per_step
    if llamacpp_lines.detailed(launch):
        yield Say(f"spec common_specu: adding speculative implementation '{kind}'")
        yield Say(f"spec common_specu: - n_max={depth}, n_min=0, p_min=0.00, n_embd=5120, backend_sampling=1")
    yield Say("srv    load_model: speculative decoding context initialized")


def taken_port(launch: Launch, host: str, port: int, pid: int) -> Iterator[Act]:
    yield Say(f"srv         start: couldn't bind HTTP server socket, hostname: {host}, port: {port}", severe=True)
    yield Say("srv    operator(): operator(): cleaning up before exit...")
    yield Say("srv  llama_server: exiting due to HTTP server error", severe=True)


def lost_while_loading(launch: Launch, *, rank: int, pid: int) -> Iterator[Act]:
    """There is but the one process: it is gone."""
    yield End(-9)


def lost_while_serving(launch: Launch, *, rank: int, child: int, pid: int) -> Iterator[Act]:
    yield Say("ggml_cuda_compute_forward: MUL_MAT failed", severe=True)
    yield Say("CUDA error: an illegal memory access was encountered", severe=True)
    yield Say("  current device: 0, in function ggml_cuda_compute_forward at ggml-cuda.cu:2671", severe=True)
    yield End(-6)


async def shut_down(engine: Engine) -> int:
    """SIGTERM and SIGINT: requests under way are cut off, exit status 0."""
    engine.state = "draining"
    await engine.say(Say("srv    operator(): operator(): cleaning up before exit..."))
    engine.world.close()
    slow = engine.launch.faults.get("slow-stop-leftover")
    await asyncio.sleep(engine.launch.settings.exit_seconds + (slow.number("seconds", 3.0) if slow else 0.0))
    leave_behind(engine, _old_lines(engine))
    return 0


def _old_lines(engine: Engine) -> Iterator[str]:
    """What a server that outlived its stop goes on to print."""
    while True:
        job = engine.new_job(["old"], ["."] * 64, "length")
        job.done, job.finished = 64, job.arrived + 1.0
        yield from llamacpp_lines.finished(engine, job)
