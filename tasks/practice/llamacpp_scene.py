"""The scene's service as llama-server: the hand-written unit before its first rollout, and the manifest that asks for
a draft model."""

from collections.abc import Mapping
from typing import Any

from tasks.practice.engine.install import QWEN_DRAFT_GGUF, QWEN_GGUF

LLAMACPP_UNIT = "llama-qwen.service"

_UNIT_TEXT = """[Unit]
Description=llama-server Qwen3.5-27B

[Service]
User=sglang
Environment=NCCL_P2P_DISABLE=1
ExecStart=/opt/llamacpp/bin/llama-server -m {model} --host 127.0.0.1 --port {port} -ngl 99 -c 32768 -np 4
KillMode={kill_mode}
TimeoutStopSec={stop_s:g}

[Install]
WantedBy=multi-user.target
"""


def llamacpp_unit(port: int, *, kill_mode: str = "control-group", stop_s: float = 20.0) -> str:
    """No speculation."""
    return _UNIT_TEXT.format(model=QWEN_GGUF.path, port=port, kill_mode=kill_mode, stop_s=stop_s)


def as_llamacpp(seed: Mapping[str, Any], port: int) -> dict[str, Any]:
    """The seed's manifest with another engine and unit: a draft model, four tokens at once."""
    engine = {
        "kind": "llamacpp",
        "command": ["/opt/llamacpp/bin/llama-server"],
        "endpoint": f"http://127.0.0.1:{port}",
        "arguments": {
            "model": QWEN_GGUF.path,
            "host": "127.0.0.1",
            "port": port,
            "n_gpu_layers": 99,
            "ctx_size": 32768,
            "parallel": 4,
            "flash_attn": True,
            "log_verbosity": 4,
            "model_draft": QWEN_DRAFT_GGUF.path,
            "spec_type": "draft-simple",
            "spec_draft_n_max": 4,
        },
    }
    unit = {**seed["unit"], "name": LLAMACPP_UNIT, "description": "llama-server Qwen3.5-27B (draft model)"}
    return {**seed, "unit": unit, "engine": engine}
