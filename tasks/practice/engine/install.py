"""Lays the stand-in out below a host's root as an SGLang installation with its models (runs on the orchestrator's side)."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.practice.engine.versions import parse_version

_HERE = Path(__file__).parent
_ORCHESTRATOR_ONLY = ("install.py", "memory.py")
GB = 1 << 30


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model folder. Sizes in bytes; `mtp_bytes` of them are in `mtp.` tensors, none of those where it is 0."""

    path: str
    architecture: str
    model_type: str
    total_bytes: int
    mtp_bytes: int = 0
    layers: int = 48
    full_attention_interval: int = 4
    kv_heads: int = 2
    head_dim: int = 256
    context_length: int = 262_144
    shards: int = 4


QWEN = ModelSpec(
    path="/shared/models/Qwen3.5-122B-A10B",
    architecture="Qwen3_5MoeForConditionalGeneration",
    model_type="qwen3_5_moe",
    total_bytes=244 * 10**9,
    mtp_bytes=int(7.64 * GB),
)
"""Qwen3.5-122B-A10B in bfloat16: hybrid linear and full attention, native MTP; 57 GB on each of 4 ranks."""

QWEN_MTP = ModelSpec(
    path="/shared/models/Qwen3.5-122B-A10B-MTP",
    architecture="Qwen3_5MoeForConditionalGeneration",
    model_type="qwen3_5_moe",
    total_bytes=int(7.64 * GB),
    mtp_bytes=int(7.64 * GB),
    shards=1,
)
"""Its MTP layers as a folder of their own: 1.91 GB on each of 4 ranks."""

QWEN_WITHOUT_MTP = ModelSpec(
    path="/shared/models/Qwen3.5-122B-A10B-stripped",
    architecture="Qwen3_5MoeForConditionalGeneration",
    model_type="qwen3_5_moe",
    total_bytes=236 * 10**9,
)
"""The same with its MTP tensors taken out: speculation starts without a word and accepts nothing."""


def install_engine(
    root: Path,
    *,
    version: str = "0.5.20",
    prefix: str = "/opt/sglang",
    models: Sequence[ModelSpec] = (QWEN, QWEN_MTP),
    faults: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
    interpreter: str = sys.executable,
) -> None:
    """Write an installation below `root`; an existing one of any version is replaced, models are added.

    `interpreter` is what `<prefix>/bin/python` runs: this Python for a practice host, /usr/bin/python3 for a tree that
    is copied onto another host. Raises ValueError for a version that is none.
    """
    parse_version(version)
    base = root / prefix.lstrip("/")
    site = base / "site"
    if site.exists():
        shutil.rmtree(site)
    _modules(site)
    _metadata(site, version)
    _programs(base / "bin", interpreter)
    write_faults(root, faults, prefix=prefix)
    (base / "stand-in.json").write_text(json.dumps(settings or {}, indent=2) + "\n", encoding="utf-8")
    for model in models:
        install_model(root, model)


def write_faults(root: Path, faults: Sequence[Mapping[str, object]], *, prefix: str = "/opt/sglang") -> None:
    """Script the faults of the engine's next start."""
    (root / prefix.lstrip("/") / "faults.json").write_text(json.dumps(list(faults), indent=2) + "\n", encoding="utf-8")


def install_model(root: Path, model: ModelSpec) -> None:
    folder = root / model.path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": [model.architecture],
        "model_type": model.model_type,
        "text_config": {
            "num_hidden_layers": model.layers,
            "full_attention_interval": model.full_attention_interval,
            "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "max_position_embeddings": model.context_length,
            "torch_dtype": "bfloat16",
        },
    }
    _write_json(folder / "config.json", config)
    _write_json(folder / "model.safetensors.index.json", _index(model))
    for number in range(1, model.shards + 1):
        (folder / _shard(model, number)).write_bytes((2).to_bytes(8, "little") + b"{}")


def _index(model: ModelSpec) -> dict[str, object]:
    """A small weight map; the sizes stand in its metadata, since the shards here are empty."""
    last = _shard(model, model.shards)
    names: dict[str, str] = {}
    if model.total_bytes > model.mtp_bytes:
        for layer in range(model.layers):
            part = 1 + layer * model.shards // model.layers
            names[f"model.language_model.layers.{layer}.mlp.gate.weight"] = _shard(model, part)
        names["lm_head.weight"] = last
    if model.mtp_bytes:
        names |= {f"mtp.{name}.weight": last for name in ("fc", "norm", "layers.0.mlp.gate", "layers.0.self_attn.o_proj")}
    metadata = {"total_size": model.total_bytes, **({"mtp_size": model.mtp_bytes} if model.mtp_bytes else {})}
    return {"metadata": metadata, "weight_map": names}


def _shard(model: ModelSpec, number: int) -> str:
    return f"model-{number:05}-of-{model.shards:05}.safetensors"


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _modules(site: Path) -> None:
    package = site / "sglang"
    package.mkdir(parents=True)
    for source in sorted(_HERE.glob("*.py")):
        if source.name not in _ORCHESTRATOR_ONLY:
            shutil.copyfile(source, package / source.name)


def _metadata(site: Path, version: str) -> None:
    info = site / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n"
        "Summary: interlock's stand-in for SGLang: simulates its logs and endpoints, serves no model\n",
        encoding="utf-8",
    )
    (info / "INSTALLER").write_text("interlock\n", encoding="utf-8")


def _programs(folder: Path, interpreter: str) -> None:
    """`bin/python` finds its own installation, wherever the tree was put; -S -E keep the start short."""
    folder.mkdir(parents=True, exist_ok=True)
    find = 'here=$(dirname -- "$(readlink -f -- "$0")")\n'
    run = f'PYTHONPATH="$here/../site" PYTHONDONTWRITEBYTECODE=1 exec {shlex.quote(interpreter)} -S "$@"\n'
    _program(folder / "python", f"#!/bin/sh\n{find}{run}")
    _program(folder / "sglang", f'#!/bin/sh\n{find}exec "$here/python" -m sglang "$@"\n')


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    os.chmod(path, 0o755)
