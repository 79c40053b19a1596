# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Composed failures: engine, code, and the lines that a server prints when it fails so."""

SGLANG_ARGS = (
    "[2026-10-07 10:00:00] server_args=ServerArgs(model_path='/m', tokenizer_path='/m', tp_size=2, api_key=None, "
    "speculative_algorithm='EAGLE', speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4, "
    "disable_cuda_graph=False, disaggregation_mode='null')"
)
SGLANG_READY = "[2026-10-07 10:00:09] The server is fired up and ready to roll!"


def scheduler(*lines: str, rank: str = " TP0") -> str:
    """A scheduler exception as SGLang prints it: the traceback goes on without prefixes."""
    frame = '  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 40, in run_scheduler_process'
    head = f"[2026-10-07 10:00:05{rank}] Scheduler hit an exception: Traceback (most recent call last):"
    tail = "\n[2026-10-07 10:00:06] Received sigquit from a child process. It usually means the child failed."
    return "\n".join((SGLANG_ARGS, head, frame, "    scheduler = Scheduler(", *lines, tail))


def main_process(*lines: str, frame: str = "sglang/srt/server_args.py") -> str:
    """An exception of SGLang's main process before the arguments are shown."""
    return "\n".join(
        (
            "Traceback (most recent call last):",
            f'  File "/opt/venv/lib/python3.12/site-packages/{frame}", line 9, in f',
            "    g()",
            *lines,
        )
    )


def load_frames(*lines: str) -> str:
    return scheduler(
        '  File "/opt/venv/sglang/srt/model_loader/loader.py", line 5, in load_model',
        "    model.load_weights(w)",
        *lines,
    )


def systemd(*lines: str) -> str:
    return "\n".join(
        (
            f"Oct 07 10:00:00 gpu-a python3[700]: {SGLANG_ARGS}",
            *(f"Oct 07 10:00:05 gpu-a systemd[1]: sglang.service: {x}" for x in lines),
        )
    )


SGLANG: tuple[tuple[str, str, str], ...] = (
    ("invalid-choice", "bad-arguments", "launch_server.py: error: argument --speculative-algorithm: invalid choice: 'MTP' (choose from 'EAGLE', 'EAGLE3', 'NEXTN')"),
    ("invalid-int", "bad-arguments", "usage: sglang serve [-h]\nsglang serve: error: argument --speculative-num-steps: invalid int value: 'three'"),
    ("required", "bad-arguments", "sglang serve: error: the following arguments are required: --model-path/--model"),
    ("expected-one", "bad-arguments", "sglang serve: error: argument --tp-size/--tensor-parallel-size: expected one argument"),
    ("ambiguous", "bad-arguments", "sglang serve: error: ambiguous option: --speculative could match --speculative-algorithm, --speculative-num-steps"),
    ("unknown-algorithm", "bad-arguments", main_process("ValueError: Unknown speculative algorithm name: MTP")),
    ("partial-triple-type-error", "bad-arguments", main_process("TypeError: '>' not supported between instances of 'NoneType' and 'int'", frame="sglang/srt/arg_groups/speculative_hook.py")),
    ("partial-triple-assertion", "bad-arguments", main_process("AssertionError", frame="sglang/srt/arg_groups/speculative_hook.py")),
    ("track-interval", "bad-arguments", main_process("AssertionError: mamba_track_interval (2) must be greater than or equal to speculative_num_draft_tokens (4)", frame="sglang/srt/arg_groups/mamba_hook.py")),
    ("context-too-long", "bad-arguments", scheduler("ValueError: User-specified context_length (262144) is greater than the derived context_length (32768). This may lead to incorrect model outputs or CUDA errors.")),
    ("no-buffer-radix", "unsupported-combination", main_process("ValueError: Speculative decoding for Qwen3NextForCausalLM is not compatible with radix cache when using --mamba-scheduler-strategy no_buffer.To use radix cache with speculative decoding, please use --mamba-scheduler-strategy extra_buffer and set SGLANG_ENABLE_SPEC_V2=1.")),
    ("extra-buffer-no-radix", "unsupported-combination", main_process("AssertionError: mamba extra_buffer is not compatible with --disable-radix-cache since it needs the cache")),
    ("extra-buffer-arch", "unsupported-combination", main_process("AssertionError: extra_buffer is not supported for NemotronHForCausalLM; use no_buffer.")),
    ("no-buffer-page", "unsupported-combination", main_process("AssertionError: no_buffer only supports page_size=1.")),
    ("trtllm-topk", "unsupported-combination", main_process("ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding.")),
    ("topk-page", "unsupported-combination", main_process("ValueError: speculative_eagle_topk > 1 with page_size > 1 is only supported on (flashinfer, fa3)")),
    ("topk-page-old", "unsupported-combination", main_process("ValueError: speculative_eagle_topk(4) > 1 with page_size(64) > 1 is unstable and produces incorrect results for paged attention backends.")),
    ("standalone-dp", "unsupported-combination", main_process("ValueError: Currently standalone speculative decoding does not support dp attention.")),
    ("spec-v2-topk", "unsupported-combination", main_process("ValueError: Spec v2 currently only supports topk = 1.")),
    ("platform", "unsupported-combination", main_process("AssertionError: extra_buffer requires platform support for Mamba cache state snapshots.")),
    ("not-implemented", "unsupported-combination", scheduler("NotImplementedError: EAGLE with this backend")),
    ("model-path", "model-not-found", main_process("OSError: Incorrect path_or_model_id: '/srv/m'. Please provide either the path to a local folder or the repo_id of a model on the Hub.", frame="sglang/srt/utils/hf.py")),
    ("repo-id", "model-not-found", main_process("huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/srv/m'. Use `repo_type` argument if needed.", "", "The above exception was the direct cause of the following exception:", "", "Traceback (most recent call last):", '  File "/x.py", line 1, in f', "OSError: Can't load the configuration of '/srv/m'.")),
    ("no-weights", "model-not-found", scheduler("RuntimeError: Cannot find any model weights with `/srv/m`")),
    ("no-config", "model-not-found", main_process("OSError: /srv/m does not appear to have a file named config.json. Checkout 'https://huggingface.co//srv/m/tree/None' for available files.", frame="sglang/srt/utils/hf.py")),
    ("offline", "model-not-found", main_process("OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.", frame="sglang/srt/utils/hf.py")),
    ("draft-empty", "model-not-found", scheduler("ValueError: The draft model path /srv/draft does not exist or is empty")),
    ("unrecognized-model", "model-not-found", main_process("ValueError: Unrecognized model in /srv/draft. Should have a `model_type` key in its config.json, or contain one of the following strings in its name", frame="transformers/models/auto.py")),
    ("size-mismatch", "weights-mismatch", scheduler("RuntimeError: Error(s) in loading state_dict for Eagle:", "\tsize mismatch for fc.weight: copying a param with shape torch.Size([4096, 8192]) from checkpoint")),
    ("key-error-while-loading", "weights-mismatch", load_frames("KeyError: 'model.layers.0.mlp.experts.w13_weight_scale'")),
    ("vocab", "weights-mismatch", scheduler("ValueError: The vocab size of the draft model (32000) does not match that of the target model (151936)")),
    ("quantization", "quantization-mismatch", main_process("ValueError: Quantization method specified in the model config (gptq) does not match the quantization method specified in the `quantization` argument (awq_marlin).")),
    ("quant-capability", "quantization-mismatch", scheduler("ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. Minimum capability: 100. Current capability: 90.")),
    ("quant-block", "quantization-mismatch", load_frames("ValueError: Weight output_partition_size = 24 is not divisible by weight quantization block_n = 128.")),
    ("missing-module", "missing-dependency", main_process("ModuleNotFoundError: No module named 'sgl_kernel'")),
    ("missing-import", "missing-dependency", scheduler("ImportError: vllm is not installed, to use CompressedTensorsWNA16, please install vllm")),
    ("too-old", "missing-dependency", main_process("Exception: flashinfer_python is installed with version 0.5.1, which is less than the minimum required version 0.7.2. Please reinstall the latest version", frame="sglang/srt/entrypoints/engine.py")),
    ("not-there", "missing-dependency", main_process("Exception: sglang-kernel with minimum required version 0.4.9 is not installed. Please install it", frame="sglang/srt/entrypoints/engine.py")),
    ("undefined-symbol", "broken-install", main_process("ImportError: /opt/venv/lib/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi", frame="sgl_kernel/__init__.py")),
    ("shared-object", "broken-install", main_process("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", frame="torch/__init__.py")),
    ("import-name", "broken-install", main_process("ImportError: cannot import name 'fa3' from 'sgl_kernel' (/opt/venv/sgl_kernel/__init__.py)", frame="sglang/x.py")),
    ("kernel-image", "broken-install", scheduler("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device")),
    ("ninja", "jit-build-failed", scheduler("RuntimeError: Ninja build failed. Ninja output:", "ninja: build stopped: subcommand failed.")),
    ("nvcc", "jit-build-failed", scheduler("RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist")),
    ("cuda-home", "jit-build-failed", scheduler("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.")),
    ("oom", "cuda-oom", scheduler("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 640.00 MiB. GPU 0 has a total capacity of 79.19 GiB")),
    ("oom-old", "cuda-oom", scheduler("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")),
    ("oom-error", "cuda-oom", scheduler("RuntimeError: CUDA error: out of memory")),
    ("unbalanced", "cuda-oom", scheduler("ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=10.1")),
    ("pool", "kv-cache-too-small", scheduler("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.6")),
    ("negative-pool", "kv-cache-too-small", scheduler("RuntimeError: Trying to create tensor with negative dimension -3412: [-3412, 8, 128]")),
    ("prefill-oom", "kv-cache-too-small", scheduler("RuntimeError: Prefill out of memory. Try to lower your batch size.")),
    ("retracted-all", "kv-cache-too-small", scheduler("RuntimeError: Out of memory even after retracting all other requests in the decode batch.")),
    ("bind", "port-in-use", f"{SGLANG_ARGS}\n[2026-10-07 10:00:05] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use"),
    ("internal-port", "port-in-use", main_process("ValueError: Port 30100 is not available in 30 seconds. It is used by a process already. process.name()='python'", frame="sglang/srt/utils/network.py")),
    ("ordinal", "too-few-gpus", scheduler("torch.AcceleratorError: CUDA error: invalid device ordinal")),
    ("nccl", "nccl-init", scheduler("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5")),
    ("shm", "nccl-init", scheduler("RuntimeError: Error: No space left on device while creating shared memory segment /dev/shm/nccl-X (size 9637888)")),
    ("store", "nccl-init", scheduler("torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.")),
    ("collective", "peer-lost", f"{SGLANG_ARGS}\n{SGLANG_READY}\n[rank1]:[E1007 10:00:44.1 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE) ran for 600000 milliseconds"),
    ("gloo", "peer-lost", scheduler("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]:25123")),
    ("nvml", "driver-mismatch", scheduler("pynvml.NVMLError_LibRmVersionMismatch: Driver/library version mismatch")),
    ("no-gpus", "driver-mismatch", scheduler("RuntimeError: No CUDA GPUs are available")),
    ("driver-old", "driver-mismatch", scheduler("RuntimeError: The NVIDIA driver on your system is too old (found version 12040).")),
    ("unknown-error", "driver-mismatch", scheduler("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment")),
    ("illegal", "illegal-memory-access", scheduler("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")),
    ("launch-failure", "illegal-memory-access", scheduler("RuntimeError: CUDA error: unspecified launch failure")),
    ("assert-device", "illegal-memory-access", scheduler("torch.AcceleratorError: CUDA error: device-side assert triggered")),
    ("misaligned", "illegal-memory-access", scheduler("RuntimeError: CUDA error: misaligned address")),
    ("segfault", "segfault", f"{SGLANG_ARGS}\nFatal Python error: Segmentation fault"),
    ("segfault-exit", "segfault", f"{SGLANG_ARGS}\n[2026-10-07 10:00:05] Rank 0 scheduler died during initialization (exit code: -11). If exit code is -9, it may be killed"),
    ("attribute-error", "scheduler-exception", scheduler("AttributeError: 'RowParallelLinear' object has no attribute 'weight_packed'")),
    ("leak", "scheduler-exception", scheduler("ValueError: token_to_kv_pool_allocator memory leak detected! available_size=9, protected_size=0")),
    ("watchdog-old", "watchdog-timeout", f"{SGLANG_ARGS}\n{SGLANG_READY}\n[2026-10-07 10:10:05 TP0] Watchdog timeout (self.watchdog_timeout=300)"),
    ("watchdog", "watchdog-timeout", f"{SGLANG_ARGS}\n{SGLANG_READY}\n[2026-10-07 10:10:05 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"),
    ("warm-up", "warm-up-failed", f"{SGLANG_ARGS}\n[2026-10-07 10:10:02] Initialization failed. warmup error: Traceback (most recent call last):\n  File \"/x/http_server.py\", line 7, in _execute_server_warmup\nrequests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out.\n"),
    ("capture", "graph-capture-failed", scheduler("Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.", "Possible solutions:", "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)")),
    ("capture-new", "graph-capture-failed", scheduler("Exception: Capture CUDA graph failed: cudaErrorStreamCaptureInvalidated")),
    ("capture-prefill", "graph-capture-failed", scheduler("RuntimeError: Capture prefill CUDA graph failed: x")),
    ("killed-rank", "killed", f"{SGLANG_ARGS}\n[2026-10-07 10:00:05] Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9"),
    ("killed-subprocess", "killed", f"{SGLANG_ARGS}\n{SGLANG_READY}\n[2026-10-07 10:00:55] Subprocess scheduler_0 (pid=44) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ("killed-unit", "killed", systemd("Main process exited, code=killed, status=9/KILL", "Failed with result 'signal'.")),
    ("exec", "exec-failed", systemd("Failed at step EXEC spawning /srv/run.sh: Permission denied", "Main process exited, code=exited, status=203/EXEC")),
    ("chdir", "exec-failed", systemd("Main process exited, code=exited, status=200/CHDIR", "Failed with result 'exit-code'.")),
    ("limit", "start-limit-hit", systemd("Start request repeated too quickly.")),
    ("stop", "stop-timeout", systemd("State 'stop-sigterm' timed out. Killing.", "Main process exited, code=killed, status=9/KILL")),
    ("exited", "exited", systemd("Main process exited, code=exited, status=1/FAILURE", "Failed with result 'exit-code'.")),
    ("dead-rank", "exited", f"{SGLANG_ARGS}\n[2026-10-07 10:00:05] Rank 0 scheduler is dead. Please check if there are relevant logs."),
    ("tracker", "exited", f"{SGLANG_ARGS}\n/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown"),
    ("host-oom-unit", "host-oom", systemd("A process of this unit has been killed by the OOM killer.", "Main process exited, code=killed, status=9/KILL", "Failed with result 'oom-kill'.")),
    ("host-oom-late", "host-oom", systemd("Main process exited, code=killed, status=9/KILL", "Failed with result 'oom-kill'.")),
    ("gated", "model-not-found", main_process("OSError: You are trying to access a gated repo.", "Make sure to have access to it at https://huggingface.co/x/y.", frame="sglang/srt/utils/hf.py")),
    ("config-not-readable", "model-not-found", scheduler("PermissionError: [Errno 13] Permission denied: '/srv/m/config.json'")),
    ("file-cut-off", "weights-mismatch", load_frames("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer")),
    ("scheme-capability", "quantization-mismatch", scheduler("ValueError: Quantization scheme is not supported for the current GPU. Min capability: 80. Current capability: 75.")),
    ("module-of-python", "missing-dependency", "/usr/bin/python3: No module named sglang.launch_server"),
    ("module-specification", "missing-dependency", "/opt/venv/bin/python: Error while finding module specification for 'sglang.launch_server' (ModuleNotFoundError: No module named 'sglang')"),
    ("transformers-too-old", "missing-dependency", main_process("ValueError: The checkpoint you are trying to load has model type `x` but Transformers does not recognize this architecture. This could be because of an issue with the checkpoint", frame="sglang/srt/utils/hf.py")),
    ("kernel-library", "broken-install", main_process("ImportError: ", "[sgl_kernel] CRITICAL: Could not load any common_ops library!", "", "Attempted locations:", frame="sgl_kernel/__init__.py")),
    ("hip-function", "broken-install", scheduler("RuntimeError: HIP error: invalid device function")),
    ("ninja-command", "jit-build-failed", scheduler("subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/root/.cache/x']' returned non-zero exit status 1.")),
    ("ninja-not-there", "jit-build-failed", scheduler("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'")),
    ("triton-oom", "cuda-oom", scheduler("RuntimeError: Triton Error [CUDA]: out of memory")),
    ("no-accelerator", "driver-mismatch", main_process("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) is available.", frame="sglang/srt/utils/common.py")),
    ("nccl-watchdog-of-september", "illegal-memory-access", f"{SGLANG_ARGS}\n{SGLANG_READY}\n[rank0]:[E907 10:00:44.1 ProcessGroupNCCL.cpp:1895] [PG ID 2 Rank 0] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\nFatal Python error: Aborted"),
    ("uncaught-in-cpp", "illegal-memory-access", f"{SGLANG_ARGS}\n{SGLANG_READY}\nterminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was encountered"),
    ("shell-killed", "killed", f"{SGLANG_ARGS}\n/start.sh: line 3:   123 Killed                  python -m sglang.launch_server --model-path /m"),
)  # fmt: skip

V = "(EngineCore_0 pid=290) ERROR 06-23 21:44:10 [core.py:700] "
VLLM_START = "(APIServer pid=128) INFO 06-23 21:44:01 [api_server.py:1899] vLLM API server version 0.11.0\n(APIServer pid=128) INFO 06-23 21:44:02 [utils.py:233] non-default args: {'model': '/m', 'max_model_len': 8192}"


def core(*lines: str) -> str:
    return "\n".join((
        VLLM_START, f"{V}EngineCore failed to start.", f"{V}Traceback (most recent call last):",
        f'{V}  File "/opt/venv/vllm/v1/engine/core.py", line 6, in run_engine_core', f"{V}    engine_core = EngineCoreProc(*args)",
        *(V + line for line in lines),
        "(APIServer pid=128) Traceback (most recent call last):", '(APIServer pid=128)   File "/opt/venv/bin/vllm", line 8, in <module>',
        "(APIServer pid=128) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ))  # fmt: skip


VLLM: tuple[tuple[str, str, str], ...] = (
    ("vllm-usage", "bad-arguments", "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --speculative-model x"),
    ("vllm-json", "bad-arguments", "vllm serve: error: argument --speculative-config/-sc: Value {method:mtp} cannot be converted to <function loads at 0x7f>."),
    ("vllm-max-len", "bad-arguments", "(APIServer pid=128) Traceback (most recent call last):\n(APIServer pid=128)   File \"/opt/venv/vllm/engine/arg_utils.py\", line 3, in create_model_config\n(APIServer pid=128) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n(APIServer pid=128)   Value error, User-specified max_model_len (262144) is greater than the derived max_model_len (max_position_embeddings=32768.0)"),
    ("vllm-quantization", "quantization-mismatch", "(APIServer pid=128) Traceback (most recent call last):\n(APIServer pid=128)   File \"/opt/venv/vllm/engine/arg_utils.py\", line 3, in create_model_config\n(APIServer pid=128) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n(APIServer pid=128)   Value error, Quantization method specified in the model config (gptq) does not match the quantization method specified in the `quantization` argument (awq)."),
    ("vllm-kv", "kv-cache-too-small", core("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")),
    ("vllm-kv-length", "kv-cache-too-small", core("ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.07 GiB).")),
    ("vllm-free-memory", "cuda-oom", core("ValueError: Free memory on device (3.2/79.2 GiB) on startup is less than desired GPU memory utilization (0.9, 71.28 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.")),
    ("vllm-oom", "cuda-oom", core("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.")),
    ("vllm-world", "too-few-gpus", core("ValueError: World size (4) is larger than the number of available GPUs (2) in this node.")),
    ("vllm-port", "port-in-use", f"{VLLM_START}\n(APIServer pid=128) Traceback (most recent call last):\n(APIServer pid=128)   File \"/opt/venv/vllm/utils.py\", line 1, in create_server_socket\n(APIServer pid=128) OSError: [Errno 98] Address already in use"),
    ("vllm-exception", "scheduler-exception", core("AttributeError: 'NoneType' object has no attribute 'shape'")),
    ("vllm-illegal", "illegal-memory-access", f"{VLLM_START}\n(APIServer pid=128) INFO:     Application startup complete.\n{V}EngineCore encountered a fatal error.\n{V}Traceback (most recent call last):\n{V}  File \"/x.py\", line 1, in run_busy_loop\n{V}torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("vllm-rpc", "watchdog-timeout", f"{VLLM_START}\n(APIServer pid=128) INFO:     Application startup complete.\n{V}EngineCore encountered a fatal error.\n{V}Traceback (most recent call last):\n{V}  File \"/x.py\", line 1, in run_busy_loop\n{V}TimeoutError: RPC call to sample_tokens timed out."),
    ("vllm-nccl", "nccl-init", core("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error")),
    ("vllm-worker-first", "scheduler-exception", f"{VLLM_START}\n(Worker_TP0 pid=210) ERROR 06-23 21:44:09 [multiproc_executor.py:597] WorkerProc failed to start.\n(Worker_TP0 pid=210) ERROR 06-23 21:44:09 [multiproc_executor.py:597] Traceback (most recent call last):\n(Worker_TP0 pid=210) ERROR 06-23 21:44:09 [multiproc_executor.py:597]   File \"/x.py\", line 1, in worker_main\n(Worker_TP0 pid=210) ERROR 06-23 21:44:09 [multiproc_executor.py:597] AttributeError: x\n{V}EngineCore failed to start.\n{V}Traceback (most recent call last):\n{V}  File \"/x.py\", line 1, in run_engine_core\n{V}Exception: WorkerProc initialization failed due to an exception in a background process."),
    ("vllm-core-killed", "killed", f"{VLLM_START}\n(APIServer pid=128) Traceback (most recent call last):\n(APIServer pid=128)   File \"/opt/venv/bin/vllm\", line 8, in <module>\n(APIServer pid=128) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{'EngineCore_DP0': -9}}"),
    ("vllm-device-type", "driver-mismatch", "Traceback (most recent call last):\n  File \"/opt/venv/vllm/engine/arg_utils.py\", line 8, in create_engine_config\nRuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`"),
)  # fmt: skip
