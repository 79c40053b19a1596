# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Failure signatures that are not an engine's own: Python, argparse, torch, CUDA, NCCL, Hugging Face, compilers.

Texts of torch 2.5-2.9, NCCL 2.2x, transformers 4.5x-5; most specific first.
"""

from state.inspection.signatures import signature

RUNTIME_SIGNATURES = (
    signature("jit-build-failed", "inja", r"Ninja build failed|ninja: build stopped|ninja.*(?:not found|is required)"),
    signature("jit-build-failed", "nvcc", r"Could not find nvcc|nvcc fatal|nvcc: not found|nvcc'? (?:is )?not found|No such file or directory: '[^']*nvcc'|NVCC compilation failed"),
    signature("jit-build-failed", "CUDA_HOME", r"CUDA_HOME environment variable is not set|CUDA_HOME.{0,40}(?:not (?:set|found)|does not exist)"),
    signature("jit-build-failed", "", r"Error building extension '|Failed to find C compiler|CompilationError: at \d|triton\.compiler\.errors\.|NVRTC_ERROR|Could not find CUDA installation|Command '?\[?'(?:[\w./-]*/)?(?:ninja|nvcc|c\+\+|g\+\+|gcc|cc|clang)'|No such file or directory: '(?:[^']*/)?(?:ninja|c\+\+|g\+\+|gcc|cc|clang)'"),
    signature("graph-capture-failed", "stream is capturing", r"operation not permitted when stream is capturing"),
    signature("graph-capture-failed", "", r"cudaErrorStreamCapture|CUDA graph capture failed|StreamCaptureInvalidated|operation failed due to a previous error during capture"),
    signature("driver-mismatch", "", r"Driver/library version mismatch|LibRmVersionMismatch|CUDA unknown error|No CUDA GPUs are available|CUDA driver version is insufficient|Found no NVIDIA driver|NVIDIA driver on your system is too old|couldn't communicate with the NVIDIA driver|PTX was compiled with an unsupported toolchain|unsupported PTX version|forward compatibility was attempted on non supported|system not yet initialized|Driver Not Loaded|NVMLError_DriverNotLoaded|no CUDA-capable device is detected|No accelerator \(.{1,120}\) is available|Failed to infer device type"),
    signature("broken-install", "", r"no kernel image is available|(?:CUDA|HIP) error: (?:invalid device function|named symbol not found)|Could not load any common_ops library"),
    signature("illegal-memory-access", "", r"illegal memory access|unspecified launch failure|device-side assert triggered|misaligned address|illegal instruction was encountered|ERROR_ILLEGAL_ADDRESS|ErrorIllegalAddress|Invalid __(?:global|shared|local)__"),
    signature("kv-cache-too-small", "negative dimension", r"Trying to create tensor with negative dimension"),
    signature("host-oom", "", r"DefaultCPUAllocator: can't allocate memory|^MemoryError\b|Cannot allocate memory|not enough memory: you tried to allocate"),
    signature("cuda-oom", "", r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|cudaMalloc failed: out of memory|HIP out of memory|Triton Error \[\w+\]: out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
    signature("too-few-gpus", "", r"invalid device ordinal|larger than the number of available GPUs|exceeds the (?:total )?number of available GPUs|number of (?:required )?GPUs exceeds"),
    signature("port-in-use", "", r"\[Errno 98\](?!.*(?:trying|retry))|EADDRINUSE|[Aa]ddress already in use|is used by a process already|couldn't bind (?:HTTP server socket|to)|[Pp]ort \d+ is (?:already )?in use(?!, trying)|not available in \d+ seconds"),
    signature("peer-lost", "", r"ncclRemoteError|remote process exited or there was a network error|[Cc]onnection (?:was )?(?:closed|reset) by (?:remote )?peer|WorkNCCL\(|collective operation timeout|process group watchdog thread terminated|failed to recv, got 0 bytes|recvValue failed|NCCL communicator was aborted"),
    signature("nccl-init", "", r"NCCL error|nccl\w*Error\b|ncclInvalidUsage|Duplicate GPU detected|unhandled (?:system|cuda) error|No space left on device|creating shared memory segment|DistStoreError|DistNetworkError|waiting for clients|torch\.distributed\.\w*Error|NCCL WARN .*(?:failed|error)|Connect(?:ion)? timed? ?out.*TCPStore|TCPStore.*timed? ?out"),
    signature("segfault", "", r"Segmentation fault|SIGSEGV|Segfault encountered|exit ?code:? -11\b|signal 11\b|exited with code 139\b|status=11/SEGV"),
    signature("bad-arguments", "error: ", r"^(?:[\w./ -]{1,120}: )?error: (?:unrecognized arguments|argument [-\w/, ]+:|the following arguments are required|ambiguous option|one of the arguments|unknown argument|invalid (?:choice|int|float))"),
    signature("quantization-mismatch", "", r"[Qq]uantization method (?:specified in|.{1,60}(?:not supported|does not match))|does not match the quantization|not divisible by.{0,40}(?:quantiz|group.?size|block_[nk])|(?:quantiz|group.?size|block_[nk]).{0,80}not divisible by|Unknown quantization|Invalid quantization|Cannot find the config file for (?:awq|gptq)|[Qq]uantization.{0,60}is not supported for the current GPU"),
    signature("model-not-found", "", r"Incorrect path_or_model_id|is not a local folder and is not a valid model identifier|Repo id must (?:be in the form|use alphanumeric)|RepositoryNotFoundError|Repository Not Found|HFValidationError|LocalEntryNotFoundError|does not appear to have a file named|Cannot find any model weights|[Nn]o (?:model )?(?:safetensors|weight|weights) files? (?:found|were found)|Can't load (?:the )?(?:configuration|config|tokenizer|model)|Unrecognized model in|Invalid repository ID or local directory|couldn't connect to 'https?://[^']*' to load|Cannot find model weights|Error no file named|not a valid (?:git identifier|model path|local path)|(?:model|draft)[ _]?(?:path|folder|directory).{0,200}(?:does not exist|not found|is empty)|FileNotFoundError.{0,300}(?:config\.json|\.safetensors|\.gguf|model_index|tokenizer)|PermissionError.{0,300}(?:config\.json|\.safetensors|\.gguf|tokenizer|model)|GatedRepoError|gated repo\b|401 Client Error|403 (?:Client Error|Forbidden).{0,200}huggingface"),
    signature("weights-mismatch", "", r"size mismatch for|[Ww]eights were not initialized from checkpoint|There is no module or parameter named|Attempted to load weight|Tried to load weights of size|loaded_weight\.shape|param(?:eter)?(?:_data)?\.(?:size|shape).*loaded|vocab(?:ulary)?[ _]?(?:sizes?)?.{0,120}(?:mismatch|must (?:be the same|match)|does not match|should match|different|not the same)|(?:must|should) (?:have|use) the same vocab|checkpoint.{0,60}(?:does not (?:fit|match)|incompatible)|SafetensorError\b"),
    signature("broken-install", "", r"undefined symbol|cannot open shared object file|version `?GLIBC|circular import|partially initialized module|cannot import name|DLL load failed|^(?:\w+\.)*PackageNotFoundError|has no attribute '__version__'", exception=True),
    signature("broken-install", "undefined symbol"),
    signature("missing-dependency", "", r"^(?:ImportError|ModuleNotFoundError): .*\w", exception=True),
    signature("missing-dependency", "", r"^\S*python[\d.]*: No module named ['\w][\w.']*$|^\S*python[\d.]*: Error while finding module specification for|but Transformers does not recognize this architecture"),
    signature("missing-dependency", "", r"is not installed, to use|which is less than the minimum required version|with minimum required version .{1,40} is not installed|^(?:Exception|RuntimeError|ValueError|AssertionError): .{0,200}(?:is not installed|[Pp]lease install|pip install)"),
    signature("unsupported-combination", "", r"^(?:ValueError|AssertionError|NotImplementedError|RuntimeError|TypeError|Exception|pydantic\S*|\s*Value error).{0,300}(?:not compatible with|incompatible with|(?:is|are|do|does|be) not (?:yet |currently )?support|only supports?\b|only supported|not supported (?:with|for|by|on|when|together)|cannot be (?:used|enabled|combined|set) (?:with|together|when)|can ?not be used|mutually exclusive|is unstable and produces|requires? platform support|not (?:been )?implemented|unsupported|doesn't support|requires .{1,60}(?:to be (?:enabled|disabled|set)))", exception=True),
    signature("unsupported-combination", "NotImplementedError", r"^NotImplementedError\b", exception=True),
)  # fmt: skip

REMEDIES = {
    "bad-arguments": "Correct the named argument, using the help of the engine version that is installed on the host.",
    "unsupported-combination": "Drop or change one of the two settings that the message names; this version cannot combine them.",
    "model-not-found": "Check that the model and draft paths exist on the host, hold weight files, and can be read by the service's user.",
    "weights-mismatch": "Use weights that fit the model class and the target's vocabulary; check the draft's own quantization; fetch files again that are cut off.",
    "quantization-mismatch": "Remove the quantization flag or set it to the checkpoint's own method.",
    "missing-dependency": "Install the named package, in the required version, into the engine's own environment.",
    "broken-install": "Reinstall the engine with builds that match this Python, CUDA and GPU architecture.",
    "jit-build-failed": "Give the service a compiler: set CUDA_HOME and PATH in the unit, or use prebuilt kernels.",
    "cuda-oom": "Free the GPU of leftover processes, then lower the memory fraction, the batch limits or the context length.",
    "host-oom": "Give the host or the unit more memory, or load with fewer parallel workers.",
    "kv-cache-too-small": "Raise the memory fraction, shorten the context, use a smaller draft or more GPUs.",
    "port-in-use": "Stop the process that holds the port, usually the previous server, or use another port.",
    "too-few-gpus": "Make as many GPUs visible as there are ranks, or lower the parallel sizes.",
    "nccl-init": "Check /dev/shm, the network interface and P2P between the GPUs; NCCL_DEBUG=INFO names the step that fails.",
    "peer-lost": "Find the rank that died first; this one only noticed it.",
    "driver-mismatch": "Load the driver that matches the user-space libraries: reload the module or reboot after an update.",
    "illegal-memory-access": "Check the kernel log for Xid errors, then try without graphs or overlap, or another engine version.",
    "segfault": "Check the kernel log and the core dump, and reinstall native extensions that do not match.",
    "scheduler-exception": "Read the last line of the traceback; it is an error of the engine that has no name of its own here.",
    "watchdog-timeout": "Look for a hung GPU or collective (Xid, NCCL) before the time-out; raise the limit only if it was merely slow.",
    "warm-up-failed": "Find out why the engine's own first request failed; for a slow first compilation raise the warm-up time-out.",
    "graph-capture-failed": "Lower the memory fraction or the largest captured batch, or start without graphs.",
    "killed": "Find out who sent SIGKILL: the kernel's OOM killer, a container limit, a stop time-out, or a person.",
    "exec-failed": "Correct the path, the execute bit, the user or the working directory that systemd names.",
    "start-limit-hit": "Remove the cause of the earlier failures, then `systemctl reset-failed` and start again.",
    "stop-timeout": "Raise TimeoutStopSec above the longest request, or drain before stopping.",
    "exited": "Look at what the process printed before the excerpt, or run its command by hand.",
}  # fmt: skip
"""One sentence for each failure code; an engine may know better."""


def remedy(code: str) -> str:
    """What to do about a failure code, in one sentence; empty for a code that is no failure."""
    return REMEDIES.get(code, "")
