"""llama-server's own failure signatures and what to do about them (builds 4500 to 11000, public logs and source)."""

from state.inspection.runtime_failures import RUNTIME_SIGNATURES
from state.inspection.runtime_failures import remedy as common_remedy
from state.inspection.signatures import Signatures, signature

SIGNATURES = Signatures(
    (
        signature(
            "model-not-found",
            "",
            r"failed to open GGUF file|(?:gguf|GGUF).{0,120}No such file|model file .{0,200}not found",
        ),
        signature(
            "bad-arguments",
            "",
            r"^error: (?:invalid argument|unknown argument|argument has been removed)|^error while handling argument ",
        ),
        signature(
            "weights-mismatch",
            "",
            r"draft (?:model )?vocab.{0,80}(?:not compatible|must match)|unknown model architecture|"
            r"error loading model: (?:missing tensor|check_tensor_dims|.{0,80}wrong (?:shape|number of tensors))",
        ),
        signature("kv-cache-too-small", "", r"failed to (?:allocate|create) .{0,60}(?:KV cache|kv cache|context)"),
        signature("scheduler-exception", "", r"error loading model|failed to load model|GGML_ASSERT"),
    ),
    RUNTIME_SIGNATURES,
)

_REMEDIES = {
    "bad-arguments": "Correct the named argument for this build: its --help lists what it takes, and what was removed.",
    "weights-mismatch": "Use a GGUF file that this build can load, and a draft of the model's own vocabulary; convert"
    " again what lacks tensors.",
    "kv-cache-too-small": "Ask for a smaller --ctx-size or fewer slots (--parallel), a smaller --cache-type-k and -v,"
    " or fewer layers on the GPUs.",
    "cuda-oom": "Free the GPUs of leftover processes, then lower --ctx-size, --parallel, --ubatch-size or"
    " --n-gpu-layers.",
    "scheduler-exception": "Read the first error above it: llama-server names the file that it could not load, or the"
    " check that failed.",
}


def remedy(code: str) -> str:
    """What to do about a failure of llama-server, in one sentence."""
    return _REMEDIES.get(code) or common_remedy(code)
