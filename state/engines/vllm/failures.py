# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""vLLM's own failure signatures and what to do about them (V0 and V1, 0.6 to 0.29, public logs and source)."""

from state.inspection.runtime_failures import RUNTIME_SIGNATURES
from state.inspection.runtime_failures import remedy as common_remedy
from state.inspection.signatures import Signatures, signature

_OWN = (
    signature("graph-capture-failed", "apture", r"[Cc]apture.{0,40}(?:CUDA|cuda) ?graphs?.{0,40}failed|[Ff]ailed to capture"),
    signature("kv-cache-too-small", "", r"No available memory for the cache blocks|(?:max seq len|max_model_len|maximum model length|serve at least one request).{0,300}KV cache"
              r"|larger than the (?:maximum number of tokens that can be stored in|available) KV cache"),
    signature("cuda-oom", "less than desired GPU memory utilization"),
    signature("bad-arguments", "", r"User-specified max_model_len.{0,200}greater than|is greater than the derived max_model_len"
              r"|[Uu]nknown speculative method|cannot be converted to <function"),
    signature("too-few-gpus", "", r"World size \(\d+\) is larger than|[Nn]ot enough GPUs"),
    signature("watchdog-timeout", "timed out", r"(?:RPC call to|execute_model|sample_tokens).{0,60}timed out"),
)  # fmt: skip

SIGNATURES = Signatures(_OWN, RUNTIME_SIGNATURES)

_REMEDIES = {
    "bad-arguments": "Correct the named flag for this vLLM version; check the JSON quoting of --speculative-config in the unit.",
    "kv-cache-too-small": "Raise --gpu-memory-utilization, shorten --max-model-len, or use more GPUs.",
    "cuda-oom": "Free the GPU of leftover processes, then lower --gpu-memory-utilization or --max-num-seqs.",
    "graph-capture-failed": "Capture fewer or smaller batches (cudagraph_capture_sizes), or start with --enforce-eager.",
    "warm-up-failed": "Find the first error above it; vLLM profiles and compiles before it opens its port.",
}  # fmt: skip


def remedy(code: str) -> str:
    """What to do about a failure of vLLM, in one sentence."""
    return _REMEDIES.get(code) or common_remedy(code)
