"""vLLM starts that end badly: what is printed, by whom, and how the process ends (V1, from public logs)."""

from __future__ import annotations

from collections.abc import Iterator

from .acts import Act, End, Say
from .failures import Crash
from .faults import Fault
from .launch import Launch

CRASHES: dict[str, Crash] = {
    "nccl-failed": Crash(
        "distributed",
        (("v1/worker/gpu_worker.py", 212, "init_device", "init_worker_distributed_environment("),),
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    "crash-loading-draft": Crash(
        "draft-weights",
        (
            ("v1/worker/gpu_model_runner.py", 4803, "load_model", "self.drafter.load_model(self.model)"),
            ("model_executor/models/qwen3_5_mtp.py", 312, "load_weights", "param = params_dict[name]"),
        ),
        "KeyError: 'layers.0.mlp.experts.w2_weight'",
    ),
    "kv-too-small": Crash(
        "kv-cache",
        (("v1/core/kv_cache_utils.py", 709, "_check_enough_kv_cache_memory", "raise ValueError("),),
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when"
        " initializing the engine.",
    ),
    "cuda-oom": Crash(
        "kv-cache",
        (("v1/worker/gpu_worker.py", 298, "determine_available_memory", "self.model_runner.profile_run()"),),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 410.00 MiB. GPU 0 has a total capacity of"
        " {gpu_gb:.2f} GiB of which 142.31 MiB is free.",
    ),
    "graph-capture-failed": Crash(
        "graphs",
        (("v1/worker/gpu_model_runner.py", 6602, "capture_model", "self._capture_cudagraphs("),),
        "RuntimeError: CUDA graph capture failed: operation not permitted when stream is capturing",
    ),
    "warm-up-failed": Crash(
        "warm-up",
        (("v1/worker/gpu_worker.py", 655, "compile_or_warm_up_model", "kernel_warmup(self)"),),
        "RuntimeError: Worker failed during warm-up: kernel `_fwd_kernel` does not compile for this device",
    ),
}
"""Faults that end the start with an exception in the engine core; `error` is a template."""

_FOLLOWS = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {core}"


def crash_of(launch: Launch, stage: str) -> tuple[Crash, Fault] | None:
    for name, crash in CRASHES.items():
        fault = launch.faults.get(name)
        if fault is not None and crash.stage == stage:
            return crash, fault
    return None


def core_crash(launch: Launch, crash: Crash) -> Iterator[Act]:
    """The core's traceback, each line behind the prefix, then the server's own, without one."""
    site = launch.installation.site
    frames = (
        ("v1/engine/core.py", 1110, "run_engine_core", "engine_core = EngineCoreProc(*args, **kwargs)"),
        *crash.frames,
    )
    traced = "".join(
        f'[core.py:1136]   File "{site}/vllm/{file}", line {line}, in {where}\n[core.py:1136]     {source}\n'
        for file, line, where, source in frames
    )
    error = crash.error.format(gpu_gb=launch.settings.gpu_gb)
    head = "[core.py:1136] EngineCore failed to start.\n[core.py:1136] Traceback (most recent call last):\n"
    yield Say(f"{head}{traced}[core.py:1136] {error}", 0, severe=True)
    yield from _given_up(launch, "{'EngineCore': 1}")


def _given_up(launch: Launch, core: str) -> Iterator[Act]:
    site = launch.installation.site
    yield Say(
        "Traceback (most recent call last):\n"
        f'  File "{site}/vllm/v1/engine/utils.py", line 970, in wait_for_engine_startup\n'
        "    raise RuntimeError(\n"
        f"{_FOLLOWS.format(core=core)}",
        stamped=False,
        severe=True,
    )
    yield End(1)


def lost_while_loading(launch: Launch, *, rank: int, pid: int) -> Iterator[Act]:
    """Somebody, mostly the kernel, killed the core: only its exit code is known."""
    yield from _given_up(launch, "{'EngineCore': -9}")


def lost_while_serving(launch: Launch, *, rank: int, child: int, pid: int) -> Iterator[Act]:
    yield Say("[core_client.py:667] Engine core proc EngineCore died unexpectedly, shutting down client.", severe=True)
    yield Say("INFO:     Shutting down")
    yield Say("INFO:     Waiting for application shutdown.")
    yield Say("INFO:     Application shutdown complete.")
    yield Say(f"INFO:     Finished server process [{pid}]")
    yield End(0)
