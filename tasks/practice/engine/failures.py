"""Starts that end badly: what is printed, by whom, and how the process ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .acts import Act, End, Say
from .faults import Fault
from .launch import Launch

_SIGQUIT = "Received sigquit from a child process. It usually means the child failed."


@dataclass(frozen=True)
class Crash:
    """A scheduler exception in `stage`: one of the settings' stages, or "pools", which is after the caches.

    `frames` are (file below `sglang/srt`, line, function, source).
    """

    stage: str
    frames: tuple[tuple[str, int, str, str], ...]
    error: str


CRASHES: dict[str, Crash] = {
    "nccl-failed": Crash(
        "distributed",
        (
            (
                "distributed/parallel_state.py",
                1553,
                "init_distributed_environment",
                "torch.distributed.init_process_group(",
            ),
        ),
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error"
        " (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5",
    ),
    "driver-mismatch": Crash(
        "distributed",
        (("model_executor/model_runner.py", 912, "init_torch_distributed", "torch.get_device_module().set_device("),),
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12080)."
        " Please update your GPU driver by downloading and installing a new version.",
    ),
    "crash-loading-draft": Crash(
        "draft-weights",
        (
            ("speculative/eagle_worker_v2.py", 148, "__init__", "self.draft_worker = TpModelWorker("),
            ("models/qwen3_5_mtp.py", 392, "load_weights", "param = params_dict[name]"),
        ),
        "KeyError: 'model.layers.0.mlp.experts.w2_weight'",
    ),
    "kv-too-small": Crash(
        "kv-cache",
        (("model_executor/model_runner.py", 1893, "init_memory_pool", "raise RuntimeError("),),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
        " Current value: mem_fraction_static={mem_fraction_static}",
    ),
    "cuda-oom": Crash(
        "pools",
        (
            ("managers/scheduler.py", 949, "init_target_memory_pool", "self.tp_worker.alloc_memory_pool()"),
            ("mem_cache/allocator/token.py", 44, "clear", "self.free_pages = torch.arange("),
        ),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 410.00 MiB. GPU {rank} has a total capacity of"
        " {gpu_gb:.2f} GiB of which 142.31 MiB is free. Including non-PyTorch memory, this process has"
        " {used_gb:.2f} GiB memory in use.",
    ),
    "graph-capture-failed": Crash(
        "graphs",
        (("model_executor/cuda_graph_runner.py", 628, "__init__", "raise Exception("),),
        "Exception: Capture cuda graph failed: operation not permitted when stream is capturing\nPossible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
        "3. disable torch compile by not using --enable-torch-compile\n"
        "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\n"
        "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose ",
    ),
}
"""Faults that end the start with an exception in a scheduler; `error` is a template."""


def scheduler_crash(launch: Launch, crash: Crash, *, rank: int, pid: int) -> Iterator[Act]:
    """The traceback in the scheduler's words, then the main process's, which kills its tree and itself."""
    site = launch.installation.site
    gpu_gb = launch.settings.gpu_gb
    error = crash.error.format(
        rank=rank,
        gpu_gb=gpu_gb,
        used_gb=gpu_gb - 0.14,
        mem_fraction_static=launch.resolved.arguments["mem_fraction_static"],
    )
    frames = (("managers/scheduler.py", 4931, "run_scheduler_process", "scheduler = Scheduler("), *crash.frames)
    traced = "".join(
        f'  File "{site}/sglang/srt/{file}", line {line}, in {where}\n    {source}\n'
        for file, line, where, source in frames
    )
    yield Say(f"Scheduler hit an exception: Traceback (most recent call last):\n{traced}{error}\n", rank, severe=True)
    yield Say(_SIGQUIT, severe=True)
    yield from killed_tree(launch, pid)


def killed_tree(launch: Launch, pid: int) -> Iterator[Act]:
    if launch.version >= (0, 5, 14):
        yield Say(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
    yield End(-9)


def lost_while_loading(launch: Launch, *, rank: int, pid: int) -> Iterator[Act]:
    """Somebody, mostly the kernel, killed a scheduler: only the exit code is known."""
    if launch.version >= (0, 5, 10):
        text = (
            f"Rank {rank} scheduler died during initialization (exit code: -9)."
            " If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
        )
    else:
        text = f"Rank {rank} scheduler is dead. Please check if there are relevant logs."
    yield Say(text, severe=True)
    yield from killed_tree(launch, pid)


def lost_while_serving(launch: Launch, *, rank: int, child: int, pid: int) -> Iterator[Act]:
    """A scheduler died under way. Before 0.5.10 nobody noticed; the stand-in ends all the same."""
    if launch.version >= (0, 5, 10):
        yield Say(
            f"Subprocess scheduler_{rank} (pid={child}) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
            severe=True,
        )
    yield Say(
        "SIGQUIT received. signum=<Signals.SIGQUIT: 3>, frame=None. It usually means one child failed.", severe=True
    )
    yield from killed_tree(launch, pid)


def warm_up_failure(launch: Launch, pid: int) -> Iterator[Act]:
    site, port = launch.installation.site, launch.resolved.integer("port")
    yield Say(
        "Initialization failed. warmup error: Traceback (most recent call last):\n"
        f'  File "{site}/sglang/srt/entrypoints/http_server.py", line 1971, in _execute_server_warmup\n'
        "    res = requests.post(\n"
        f"requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port={port}): Read timed out."
        " (read timeout=600)\n",
        severe=True,
    )
    yield from killed_tree(launch, pid)


def crash_of(launch: Launch, stage: str) -> tuple[Crash, Fault] | None:
    """The crash that a fault of this start has in `stage`, if any."""
    for name, crash in CRASHES.items():
        fault = launch.faults.get(name)
        if fault is not None and crash.stage == stage:
            return crash, fault
    return None
