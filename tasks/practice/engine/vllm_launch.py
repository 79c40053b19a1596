"""One start of vLLM as a value: its arguments, and what they are to the machine that both engines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .arguments import ParserExit
from .config_file import merged
from .faults import ignore_flags
from .launch import Installation, Launch, Refusal
from .models import Files, Model, ModelMissing, read_model
from .resolution import ResolutionFailed, Resolved
from .vllm_arguments import DEFAULTS, parse_arguments

METHODS = ("ngram", "eagle", "eagle3", "medusa", "mlp_speculator", "draft_model", "suffix", "mtp")
_NEVER = 1 << 60


def prepare(
    installation: Installation, argv: Sequence[str], environment: Mapping[str, str], files: Files, *, serves: bool
) -> Launch:
    """Parse, resolve, read the models from `files`. Raises Refusal as the engine would end."""
    try:
        asked = parse_arguments(merged(argv, files), installation.version, serves=serves)
    except ParserExit as error:
        raise Refusal(error.status, **{"stderr" if error.status else "stdout": error.text}) from error
    try:
        return _resolve(installation, argv, asked, environment, files, serves=serves)
    except ModelMissing as error:
        text = f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{error.path}'."
        raise Refusal(1, stderr=_traceback(installation, "OSError", text)) from error
    except ResolutionFailed as error:
        raise Refusal(1, stderr=_traceback(installation, error.kind, error.text)) from error


def _resolve(
    installation: Installation,
    argv: Sequence[str],
    asked: Mapping[str, object],
    environment: Mapping[str, str],
    files: Files,
    *,
    serves: bool,
) -> Launch:
    model = read_model(str(asked["model"]), files)
    heeded = dict(asked)
    if fault := installation.faults.matching(asked, {}).get("flag-ignored"):
        heeded = ignore_flags(asked, DEFAULTS, fault)
    resolved = _resolved(heeded, model)
    faults = installation.faults.matching(asked, resolved.arguments)
    if fault := faults.get("wrong-mem-fraction"):
        heeded["gpu_memory_utilization"] = fault.number("value", 0.88)
        resolved.arguments["mem_fraction_static"] = heeded["gpu_memory_utilization"]
    draft = None
    if resolved.speculation and resolved.speculation not in ("NGRAM", "SUFFIX"):
        path = resolved.text("speculative_draft_model_path")
        draft = read_model(path, files) if path else model
    return Launch(
        installation, heeded, resolved, model, draft, faults, environment, tuple(argv), not serves, engine="vllm"
    )


def _resolved(asked: Mapping[str, object], model: Model) -> Resolved:
    """vLLM's arguments under the names of the machine, beside those that only its own lines and endpoints need."""
    config = asked.get("speculative_config")
    method, tokens, path = _speculation(config) if isinstance(config, Mapping) else (None, 0, None)
    names = asked.get("served_model_name")
    context = asked.get("max_model_len")
    if isinstance(context, int) and context > model.context_length:
        raise ResolutionFailed(
            "ValueError",
            f"User-specified max_model_len ({context}) is greater than the derived max_model_len"
            f" (max_position_embeddings={model.context_length} or model_max_length=None in model's config.json).",
        )
    return Resolved(
        {
            **asked,
            "served_model_name": names[0] if isinstance(names, list) and names else asked["model"],
            "host": asked.get("host") or "0.0.0.0",
            "tp_size": asked["tensor_parallel_size"],
            "dp_size": 1,
            "context_length": context,
            "mem_fraction_static": asked["gpu_memory_utilization"],
            "max_running_requests": asked.get("max_num_seqs") or 256,
            "disable_radix_cache": asked.get("enable_prefix_caching") is False,
            "disable_cuda_graph": bool(asked.get("enforce_eager")),
            "decode_log_interval": _NEVER,
            "random_seed": asked.get("seed"),
            "log_level": "info",
            "log_level_http": asked.get("uvicorn_log_level"),
            "speculative_algorithm": method.upper() if method else None,
            "speculative_num_steps": tokens,
            "speculative_num_draft_tokens": tokens + 1 if tokens else None,
            "speculative_draft_model_path": path,
        }
    )


def _speculation(config: Mapping[str, object]) -> tuple[str, int, str | None]:
    """Method, tokens drafted for each step, and the draft's folder. Raises ResolutionFailed where vLLM refuses."""
    given, path = config.get("method"), config.get("model")
    method = "mtp" if isinstance(given, str) and given.endswith("_mtp") else given or ("eagle" if path else None)
    if method not in METHODS:
        raise ResolutionFailed(
            "pydantic_core._pydantic_core.ValidationError",
            f"1 validation error for SpeculativeConfig\nmethod\n  Unknown speculative method: {given}",
        )
    if method in ("eagle", "eagle3", "draft_model", "medusa", "mlp_speculator") and not path:
        raise ResolutionFailed("ValueError", "num_speculative_tokens was provided but without speculative model.")
    tokens = config.get("num_speculative_tokens")
    if tokens is None and method != "mtp":
        raise ResolutionFailed("ValueError", "num_speculative_tokens must be provided with speculative model.")
    return str(method), int(str(tokens or 1)), str(path) if path else None


def _traceback(installation: Installation, kind: str, text: str) -> str:
    site = installation.site
    return (
        "Traceback (most recent call last):\n"
        f'  File "{site}/vllm/entrypoints/cli/serve.py", line 60, in cmd\n'
        "    uvloop.run(run_server(args))\n"
        f'  File "{site}/vllm/engine/arg_utils.py", line 1412, in create_engine_config\n'
        "    model_config = self.create_model_config()\n"
        f"{kind}: {text}\n"
    )
