"""Lays the stand-in out below a host's root as an installation of an engine with models (orchestrator's side)."""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tasks.practice.engine.faults import parse_faults
from tasks.practice.engine.settings import parse_settings
from tasks.practice.engine.versions import DEFAULTS, parse_version

EngineName = Literal["sglang", "vllm", "llamacpp"]
_HERE = Path(__file__).parent
_ORCHESTRATOR_ONLY = ("install.py", "memory.py")
GB = 1 << 30
_NO_TENSORS = (2).to_bytes(8, "little") + b"{}"  # a safetensors file with nothing in it
_METADATA = """Metadata-Version: 2.1
Name: {engine}
Version: {version}
Summary: interlock's stand-in for {engine}: simulates its logs and endpoints, serves no model
"""
_PYTHON = """#!/bin/sh
# finds its own installation, wherever the tree was put; -S keeps the start short
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH="$here/../site" PYTHONDONTWRITEBYTECODE=1 exec {interpreter} -S "$@"
"""
_CONSOLE = """#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
exec "$here/python" -m {engine} "$@"
"""
_SERVER = """#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
exec "$here/python" "$here/../site/llama-server" "$@"
"""
_SERVER_SCRIPT = '''"""What `bin/llama-server` runs: the engine itself is a program, not a module of Python."""

import sys

from llamacpp.entry import main

if __name__ == "__main__":
    main(sys.argv[1:], legacy_entry=False, engine="llamacpp")
'''
_API_SERVER = '''"""`python -m vllm.entrypoints.openai.api_server …`, the engine's other entry point."""

import sys

from vllm.entry import main

if __name__ == "__main__":
    main(sys.argv[1:], legacy_entry=True, engine="vllm")
'''


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

    @property
    def gguf(self) -> bool:
        """Whether it is one file, as llama.cpp takes it, rather than a folder."""
        return self.path.endswith(".gguf")


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

QWEN_GGUF = ModelSpec(
    path="/shared/models/Qwen3.5-27B-Q8_0.gguf",
    architecture="qwen35",
    model_type="qwen35",
    total_bytes=29 * 10**9,
    mtp_bytes=int(0.42 * GB),
)
"""A dense model in one file, with its MTP layers."""

QWEN_DRAFT_GGUF = ModelSpec(
    path="/shared/models/Qwen3.5-0.8B-Q8_0.gguf", architecture="qwen35", model_type="qwen35", total_bytes=8 * 10**8
)
"""A small model of the same vocabulary, to draft for it; it has no MTP layers."""


class Writable(Protocol):
    """A practice machine's files."""

    def put(self, path: str, content: bytes | str, *, mode: int = 0o644) -> None: ...


@dataclass(frozen=True, slots=True)
class File:
    content: str | bytes
    mode: int = 0o644


def engine_files(
    *,
    engine: EngineName = "sglang",
    version: str | None = None,
    prefix: str | None = None,
    models: Sequence[ModelSpec] = (QWEN, QWEN_MTP),
    faults: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
    interpreter: str = sys.executable,
) -> dict[str, File]:
    """The installation as files by absolute path.

    `interpreter` is what `<prefix>/bin/python` runs: this Python for a practice host, /usr/bin/python3 for a tree that
    is copied onto another host. Raises ValueError for a version, a fault or a setting that is none.
    """
    version, prefix = version or DEFAULTS[engine], prefix or f"/opt/{engine}"
    parse_version(version)
    python = File(_PYTHON.format(interpreter=shlex.quote(interpreter)), 0o755)
    files = {
        f"{prefix}/bin/python": python,
        f"{prefix}/bin/python3": python,
        **_programs(prefix, engine),
        f"{prefix}/faults.json": File(_checked_faults(faults)),
        f"{prefix}/stand-in.json": File(_checked_settings(settings or {})),
        f"{prefix}/site/{engine}-{version}.dist-info/METADATA": File(_METADATA.format(engine=engine, version=version)),
        f"{prefix}/site/{engine}-{version}.dist-info/INSTALLER": File("interlock\n"),
    }
    for source in sorted(_HERE.glob("*.py")):
        if source.name not in _ORCHESTRATOR_ONLY:
            files[f"{prefix}/site/{engine}/{source.name}"] = File(source.read_bytes())
    for model in models:
        files |= model_files(model)
    return files


def _programs(prefix: str, engine: EngineName) -> dict[str, File]:
    """What starts the engine."""
    if engine == "llamacpp":
        return {
            f"{prefix}/bin/llama-server": File(_SERVER, 0o755),
            f"{prefix}/site/llama-server": File(_SERVER_SCRIPT),
        }
    console = {f"{prefix}/bin/{engine}": File(_CONSOLE.format(engine=engine), 0o755)}
    if engine == "sglang":
        return console
    server = f"{prefix}/site/vllm/entrypoints/openai"
    folders = {f"{folder}/__init__.py": File("") for folder in (server.rpartition("/")[0], server)}
    return {**console, **folders, f"{server}/api_server.py": File(_API_SERVER)}


def install_engine(
    root: Path,
    *,
    engine: EngineName = "sglang",
    version: str | None = None,
    prefix: str | None = None,
    models: Sequence[ModelSpec] = (QWEN, QWEN_MTP),
    faults: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
    interpreter: str = sys.executable,
) -> None:
    """Write `engine_files` below `root`; an installation already there is replaced, models are added."""
    prefix = prefix or f"/opt/{engine}"
    site = root / prefix.lstrip("/") / "site"
    if site.exists():
        shutil.rmtree(site)
    files = engine_files(
        engine=engine,
        version=version,
        prefix=prefix,
        models=models,
        faults=faults,
        settings=settings,
        interpreter=interpreter,
    )
    for path, file in files.items():
        _write(root / path.lstrip("/"), file)


def install_in(files: Writable, installation: Mapping[str, File]) -> None:
    """Put `engine_files` or `model_files` into a practice machine's files, in memory or on disk."""
    for path, file in installation.items():
        files.put(path, file.content, mode=file.mode)


def write_faults(root: Path, faults: Sequence[Mapping[str, object]], *, prefix: str = "/opt/sglang") -> None:
    """Script the faults of the engine's next start."""
    _write(root / prefix.lstrip("/") / "faults.json", File(_checked_faults(faults)))


def _checked_faults(faults: Sequence[Mapping[str, object]]) -> str:
    text = json.dumps(list(faults), indent=2) + "\n"
    parse_faults(text)
    return text


def _checked_settings(settings: Mapping[str, object]) -> str:
    text = json.dumps(dict(settings), indent=2) + "\n"
    parse_settings(text)
    return text


def _write(path: Path, file: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content.encode() if isinstance(file.content, str) else file.content)
    path.chmod(file.mode)


def model_files(model: ModelSpec) -> dict[str, File]:
    if model.gguf:
        return {model.path: File(_gguf(model))}
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
    files = {
        f"{model.path}/config.json": File(json.dumps(config, indent=2) + "\n"),
        f"{model.path}/model.safetensors.index.json": File(json.dumps(_index(model), indent=2) + "\n"),
    }
    shards = (f"{model.path}/{_shard(model, number)}" for number in range(1, model.shards + 1))
    return files | dict.fromkeys(shards, File(_NO_TENSORS))


def _gguf(model: ModelSpec) -> bytes:
    """The magic of a GGUF file with the stand-in's own description behind it: there are no tensors here."""
    told = {
        "architecture": model.architecture,
        "context_length": model.context_length,
        "total_size": model.total_bytes,
        "mtp_size": model.mtp_bytes,
    }
    return b"GGUF" + json.dumps(told).encode()


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
        names |= {
            f"mtp.{name}.weight": last for name in ("fc", "norm", "layers.0.mlp.gate", "layers.0.self_attn.o_proj")
        }
    metadata = {"total_size": model.total_bytes, **({"mtp_size": model.mtp_bytes} if model.mtp_bytes else {})}
    return {"metadata": metadata, "weight_map": names}


def _shard(model: ModelSpec, number: int) -> str:
    return f"model-{number:05}-of-{model.shards:05}.safetensors"
