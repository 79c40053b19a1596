"""The scene's service as vLLM: the hand-written unit before its first rollout, and the manifest that asks for MTP."""

from collections.abc import Mapping
from typing import Any

from tasks.practice.engine.install import QWEN

VLLM_UNIT = "vllm-qwen.service"

_UNIT_TEXT = """[Unit]
Description=vLLM Qwen3.5-122B-A10B

[Service]
User=sglang
Environment=NCCL_P2P_DISABLE=1
ExecStart=/opt/vllm/bin/vllm serve {model} --host 127.0.0.1 --port {port} \\
    --tensor-parallel-size 4 --gpu-memory-utilization 0.85
KillMode={kill_mode}
TimeoutStopSec={stop_s:g}

[Install]
WantedBy=multi-user.target
"""


def vllm_unit(port: int, *, kill_mode: str = "control-group", stop_s: float = 20.0) -> str:
    """No speculation."""
    return _UNIT_TEXT.format(model=QWEN.path, port=port, kill_mode=kill_mode, stop_s=stop_s)


def as_vllm(seed: Mapping[str, Any], port: int) -> dict[str, Any]:
    """The seed's manifest with another engine and unit: MTP with three tokens, from the model's own weights."""
    engine = {
        "kind": "vllm",
        "command": ["/opt/vllm/bin/vllm", "serve"],
        "endpoint": f"http://127.0.0.1:{port}",
        "arguments": {
            "model": QWEN.path,
            "host": "127.0.0.1",
            "port": port,
            "tensor_parallel_size": 4,
            "gpu_memory_utilization": 0.8,
            "speculative_config": {"method": "mtp", "num_speculative_tokens": 3},
        },
    }
    unit = {**seed["unit"], "name": VLLM_UNIT, "description": "vLLM Qwen3.5-122B-A10B (MTP)"}
    return {**seed, "unit": unit, "engine": engine}
