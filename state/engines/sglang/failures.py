# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""SGLang's own failure signatures and what to do about them (0.4.6 to 0.5.23, from source; rows of public issues)."""

from state.inspection.runtime_failures import RUNTIME_SIGNATURES
from state.inspection.runtime_failures import remedy as common_remedy
from state.inspection.signatures import Signatures, signature

_OWN = (
    signature("graph-capture-failed", "apture", r"Capture (?:\w+ )*(?:cuda|CUDA|npu|cpu) ?graph failed"),
    signature("kv-cache-too-small", "", r"Not enough memory\. Please try to increase --mem-fraction-static"
              r"|alloc_req_slots runs out of memory|Prefill out of memory\. Try to lower"
              r"|Out of memory even after retracting all other requests|max_total_num_tokens=-|#tokens: -\d"
              r"|Loading (?:the )?KV cache failed|KV cache pool size.{0,40}negative"),
    signature("cuda-oom", "memory capacity is unbalanced", r"memory capacity is unbalanced"),
    signature("bad-arguments", "", r"Unknown speculative algorithm name|mamba_track_interval.{0,200}(?:must|should)"
              r"|is greater than the derived context_length|context_length.{0,80}(?:longer|larger|greater) than"),
    signature("unsupported-combination", "", r"is not compatible with radix cache when using --mamba-scheduler-strategy"
              r"|mamba extra_buffer is not compatible with|extra_buffer is not supported for|no_buffer (?:only supports|do not support)"
              r"|extra_buffer requires platform support|backend only supports topk = 1|speculative_eagle_topk ?(?:>|\(\d+\) >) ?1 with page_size"
              r"|[Ss]pec(?:ulative decoding)? v2.{0,80}topk|does not support dp attention"),
    signature("scheduler-exception", "memory leak detected", r"pool(?:_allocator)? memory leak detected|memory leak detected!"),
)  # fmt: skip

SIGNATURES = Signatures(_OWN, RUNTIME_SIGNATURES)

_REMEDIES = {
    "bad-arguments": "Correct the named flag for this SGLang version; speculative steps, topk and draft tokens go together or not at all.",
    "unsupported-combination": "Change one of the two settings: for hybrid models with speculation use "
    "`--mamba-scheduler-strategy extra_buffer` (0.5.14 and later: `--mamba-radix-cache-strategy`), and topk 1.",
    "kv-cache-too-small": "Raise --mem-fraction-static, or leave more room: a smaller draft, a shorter context, more GPUs.",
    "cuda-oom": "Free the GPU of leftover processes, then lower --mem-fraction-static, --max-running-requests or the context.",
    "graph-capture-failed": "Lower --mem-fraction-static or --cuda-graph-max-bs; this is the opposite direction to a KV cache that is too small.",
    "weights-mismatch": "Use a draft that fits the target, and set --speculative-draft-model-quantization unquant for an unquantised MTP head.",
    "watchdog-timeout": "A forward pass hung: check Xid and NCCL errors before it; raise --watchdog-timeout only if it was merely slow.",
    "warm-up-failed": "SGLang's own first request failed: look for the cause above it; SGLANG_WARMUP_TIMEOUT gives a slow compilation more time.",
}  # fmt: skip


def remedy(code: str) -> str:
    """What to do about a failure of SGLang, in one sentence."""
    return _REMEDIES.get(code) or common_remedy(code)
