"""One start of llama-server as a value: its arguments, and what they are to the machine that the engines share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from .arguments import ParserExit
from .faults import Fault
from .launch import Installation, Launch, Refusal
from .llamacpp_arguments import DEFAULTS, RENAMED, parse_arguments
from .models import Files, Model, ModelMissing
from .resolution import Resolved
from .versions import Version

MAGIC = b"GGUF"
_NEVER = 1 << 60
_LAYERS = 49
_SPECULATIVE = ("spec_", "draft_", "model_draft", "n_gpu_layers_draft")
NO_HEAD = (
    "llama_init_from_model: context type MTP requested but model doesn't contain MTP layers",
    "common_speculative_init: no implementations specified for speculative decoding",
)


def prepare(installation: Installation, argv: Sequence[str], environment: Mapping[str, str], files: Files) -> Launch:
    """Parse, resolve, read the models from `files`. Raises Refusal as the engine would end."""
    try:
        asked = parse_arguments(argv, installation.version)
    except ParserExit as error:
        raise Refusal(error.status, **{"stderr" if error.status else "stdout": error.text}) from error
    try:
        return _resolve(installation, argv, asked, environment, files)
    except ModelMissing as error:
        raise Refusal(1, stderr=_missing(error.path)) from error


def _missing(path: str) -> str:
    return (
        f"gguf_init_from_file: failed to open GGUF file '{path}' (No such file or directory)\n"
        f"llama_model_load: error loading model: llama_model_loader: failed to load model from {path}\n"
        f"srv    load_model: failed to load model, '{path}'\n"
        "srv  llama_server: exiting due to model loading error\n"
    )


def _resolve(
    installation: Installation,
    argv: Sequence[str],
    asked: Mapping[str, object],
    environment: Mapping[str, str],
    files: Files,
) -> Launch:
    model = read_gguf(str(asked["model"]), files)
    heeded = dict(asked)
    if fault := installation.faults.matching(asked, {}).get("flag-ignored"):
        heeded = _ignored(asked, fault)
    resolved = _resolved(heeded, model, installation.version)
    resolved.arguments["api_keys"] = _keys(asked, environment, files)
    path = resolved.text("speculative_draft_model_path")
    draft = (read_gguf(path, files) if path else model) if resolved.speculation else None
    faults = installation.faults.matching(asked, resolved.arguments)
    return Launch(
        installation, heeded, resolved, model, draft, faults, environment, tuple(argv), False, engine="llamacpp"
    )


def _keys(asked: Mapping[str, object], environment: Mapping[str, str], files: Files) -> tuple[str, ...]:
    """Those of `--api-key`, else of its variable, split at commas, and the lines of `--api-key-file`,
    each with all of its characters, a carriage return among them."""
    given = str(asked["api_key"] or environment.get("LLAMA_API_KEY") or "").split(",")
    path = asked["api_key_file"]
    try:
        lines = files.read(str(path)).decode().split("\n") if path else []
    except OSError as error:
        why = f"error: failed to open file '{path}'\n"
        raise Refusal(1, stderr=f'error while handling argument "--api-key-file": {why}') from error
    return tuple(key for key in (*given, *lines) if key)


def _ignored(asked: Mapping[str, object], fault: Fault) -> dict[str, object]:
    """As asked, with what begins like a flag of speculation, or with the fault's `prefix`, at its default."""
    prefix = fault.options.get("prefix")
    fronts = (str(prefix),) if prefix else _SPECULATIVE
    return {name: DEFAULTS.get(name) if name.startswith(fronts) else value for name, value in asked.items()}


def _resolved(asked: Mapping[str, object], model: Model, version: Version) -> Resolved:
    """llama-server's arguments under the names of the machine, beside those that only its own lines need."""
    slots = asked["parallel"] if isinstance(asked["parallel"], int) and asked["parallel"] > 0 else 4
    shared = asked["kv_unified"] if asked["kv_unified"] is not None else asked["parallel"] == -1
    context = min(int(str(asked["ctx_size"])) or model.context_length, model.context_length * (1 if shared else slots))
    method, depth = _speculation(asked, version)
    notes = list(NO_HEAD) if method == "MTP" and not model.mtp_bytes else []
    method = "" if notes else method
    return Resolved(
        {
            **asked,
            "served_model_name": asked["alias"] or asked["model"],
            "slots_at_once": slots,
            "shared_context": bool(shared),
            "slot_context": context if shared else context // slots,
            "gpu_layers": _layers(asked["n_gpu_layers"]),
            "tp_size": 1,
            "dp_size": 1,
            "context_length": context if shared else context // slots,
            "mem_fraction_static": 1.0,
            "max_running_requests": slots,
            "disable_radix_cache": False,
            "disable_cuda_graph": True,
            "decode_log_interval": _NEVER,
            "random_seed": asked["seed"],
            "log_level": "error" if asked["log_disable"] or int(str(asked["log_verbosity"])) < 3 else "info",
            "log_level_http": "error",
            "speculative_algorithm": method or None,
            "speculative_num_steps": depth if method else None,
            "speculative_num_draft_tokens": depth + 1 if method else None,
            "speculative_draft_model_path": asked["model_draft"] if method == "DRAFT_MODEL" else None,
        },
        notes,
    )


def _speculation(asked: Mapping[str, object], version: Version) -> tuple[str, int]:
    """The machine's name for the method, and the tokens of a draft. A draft model alone is enough."""
    if version < RENAMED:
        return ("DRAFT_MODEL" if asked["model_draft"] else "", int(str(asked["draft_max"])))
    kinds, depth = str(asked["spec_type"]).split(","), int(str(asked["spec_draft_n_max"]))
    if asked["model_draft"]:
        return "DRAFT_MODEL", depth
    return ("MTP" if "draft-mtp" in kinds else "NGRAM" if any(k.startswith("ngram") for k in kinds) else ""), depth


def _layers(asked: object) -> int:
    text = str(asked)
    return min(_LAYERS, int(text)) if text.isdigit() else _LAYERS


def read_gguf(path: str, files: Files) -> Model:
    """The stand-in's GGUF files hold an object of JSON behind the magic. Raises ModelMissing."""
    try:
        data = files.read(path)
        found = json.loads(data[len(MAGIC) :]) if data.startswith(MAGIC) else None
    except (OSError, ValueError) as error:
        raise ModelMissing(path) from error
    if not isinstance(found, dict):
        raise ModelMissing(path)
    return Model(
        path=path,
        architecture=str(found.get("architecture", "llama")),
        model_type=str(found.get("architecture", "llama")),
        context_length=int(found.get("context_length", 32768)),
        weight_bytes=int(found.get("total_size", 1 << 30)),
        mtp_bytes=int(found.get("mtp_size", 0)),
        kv_bytes_per_token=98304,
    )
