"""What the engine reads from a model folder: `config.json` and `model.safetensors.index.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

GIB = 1 << 30

HYBRID = ("Qwen3_5", "Qwen3Next", "NemotronH")
"""Architectures with Mamba-like layers beside attention."""


class Files(Protocol):
    """Where the engine reads from: a disk, or a practice machine's memory. Both raise OSError."""

    def read(self, path: str) -> bytes: ...

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        ...


class ModelMissing(Exception):
    """No such folder, or no usable configuration in it; `path` as the command line gave it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True)
class Model:
    """`weight_bytes` is the whole checkpoint's size; `mtp_bytes` that of its MTP tensors, 0 where it has none."""

    path: str
    architecture: str
    model_type: str
    context_length: int
    weight_bytes: int
    mtp_bytes: int
    kv_bytes_per_token: int

    @property
    def hybrid(self) -> bool:
        return self.architecture.startswith(HYBRID)

    @property
    def multimodal(self) -> bool:
        return self.architecture.endswith("ForConditionalGeneration")

    @property
    def draft_class(self) -> str:
        """The class that loads this checkpoint's MTP layers (`_config_draft_model` of 0.5.9 and later)."""
        if self.architecture.startswith("Qwen3_5"):
            return "Qwen3_5ForCausalLMMTP"
        if self.architecture.startswith("Qwen3Next"):
            return "Qwen3NextForCausalLMMTP"
        if self.architecture.startswith("DeepseekV3"):
            return "DeepseekV3ForCausalLMNextN"
        return (
            self.architecture
            if self.architecture.endswith(("MTP", "NextN", "Eagle", "Eagle3"))
            else f"{self.architecture}MTP"
        )


def read_model(path: str, files: Files) -> Model:
    """Raises ModelMissing."""
    try:
        config = json.loads(files.read(f"{path}/config.json"))
        index = _read_index(path, files)
    except (OSError, ValueError) as error:
        raise ModelMissing(path) from error
    text = config.get("text_config", config)
    layers = int(text.get("num_hidden_layers", 32))
    full = layers // int(text.get("full_attention_interval", 1))
    heads, width = int(text.get("num_key_value_heads", 8)), int(text.get("head_dim", 128))
    return Model(
        path=path,
        architecture=str(config["architectures"][0]) if config.get("architectures") else "LlamaForCausalLM",
        model_type=str(config.get("model_type", "")),
        context_length=int(text.get("max_position_embeddings", 32768)),
        weight_bytes=int(str(index.get("metadata", {}).get("total_size", 16 * GIB))),
        mtp_bytes=_mtp_bytes(index),
        kv_bytes_per_token=full * heads * width * 4,
    )


def _read_index(path: str, files: Files) -> dict[str, dict[str, object]]:
    """The index; of a checkpoint in one file, one that names nothing. ValueError for a folder without weights."""
    names = files.names(path)
    if not any(name.endswith(".safetensors") for name in names):
        raise ValueError("no weight files")
    if "model.safetensors.index.json" not in names:
        return {"metadata": {}, "weight_map": {}}
    return dict(json.loads(files.read(f"{path}/model.safetensors.index.json")))


def _mtp_bytes(index: dict[str, dict[str, object]]) -> int:
    """`metadata.mtp_size` where the index gives it; else 3 % of the checkpoint if it has `mtp.` tensors."""
    if not any(name.startswith(("mtp.", "model.mtp.")) for name in index.get("weight_map", {})):
        return 0
    metadata = index.get("metadata", {})
    total = int(str(metadata.get("total_size", 0)))
    return int(str(metadata.get("mtp_size", total * 3 // 100)))
