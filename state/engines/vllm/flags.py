"""vLLM's flags: aliases, types, defaults, and what was renamed or removed in which release.

Sources: the help texts of releases 0.8 to 0.30, start-up logs of 0.9 to 0.29, and vLLM's own `SpeculativeConfig`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from state.engines.command_line import FlagTables
from state.engines.versions import Version
from state.engines.vllm.flag_names import LISTS, NEGATABLE, OBJECTS, SINGLES

SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-dpl": "data_parallel_size_local",
    "-dpa": "data_parallel_address",
    "-dpp": "data_parallel_rpc_port",
    "-dpb": "data_parallel_backend",
    "-dpn": "data_parallel_rank",
    "-dpr": "data_parallel_start_rank",
    "-dcp": "decode_context_parallel_size",
    "-pcp": "prefill_context_parallel_size",
    "-ep": "enable_expert_parallel",
    "-q": "quantization",
    "-n": "nnodes",
    "-r": "node_rank",
    "-asc": "api_server_count",
    "-sc": "speculative_config",
    "-cc": "compilation_config",
    "-ac": "attention_config",
    "-O": "optimization_level",
}
"""Flags of one dash; `-O3` is the level 3."""

SPECULATIVE_SHORTHAND = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}
"""Flags of recent releases that are keys of `speculative_config`."""

SECRETS = frozenset({"api_key", "hf_token"})
"""Arguments that hold a secret. vLLM prints `api_key` in clear in its log (0.20), redacted in later releases."""

FILES = frozenset({"config", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "chat_template"})
"""Arguments that name a file which is read at the start; `chat_template` may be the template itself, with its braces.
Plugins are not among them: one that is missing is logged, and passed over."""

INTEGERS = frozenset(
    {"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "port", "max_num_seqs", "block_size"}
    | {"max_num_batched_tokens", "nnodes", "node_rank", "api_server_count", "max_loras", "max_lora_rank"}
)

PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")

TEXT = frozenset(
    {"model", "tokenizer", "served_model_name", "revision", "code_revision", "tokenizer_revision", "host", "api_key"}
    | {"chat_template", "download_dir", "hf_token", "quantization", "config", "uds", "root_path", "hf_config_path"}
)

DEFAULTS: dict[str, object] = {
    "host": None,
    "port": 8000,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "dtype": "auto",
    "kv_cache_dtype": "auto",
    "load_format": "auto",
    "tokenizer_mode": "auto",
    "quantization": None,
    "enforce_eager": False,
    "trust_remote_code": False,
    "max_model_len": None,
    "max_num_seqs": None,
    "max_num_batched_tokens": None,
    "enable_prefix_caching": None,
    "enable_chunked_prefill": None,
    "enable_expert_parallel": False,
    "enable_lora": False,
    "enable_auto_tool_choice": False,
    "disable_log_stats": False,
    "disable_custom_all_reduce": False,
    "max_loras": 1,
    "max_lora_rank": 16,
    "cpu_offload_gb": 0,
    "uvicorn_log_level": "info",
    "generation_config": "auto",
    "speculative_config": None,
    "served_model_name": None,
    "tool_call_parser": None,
    "chat_template": None,
}
"""What is taken when an argument is left out, where that is the same in all releases since 0.9. The log shows only
arguments that differ from these."""

METHODS = frozenset(
    {"ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "draft_model", "eagle", "eagle3", "dflash", "dspark"}
    | {"mtp", "custom_class", "extract_hidden_states"}
)
"""Methods of `speculative_config`; MTP also goes by the model's family (`qwen3_next_mtp`), which becomes `mtp`."""

WITHOUT_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods that guess from the text alone and load no weights."""

NEEDS_MODEL = frozenset({"eagle", "eagle3", "draft_model", "medusa", "mlp_speculator", "dflash"})


class Rename(NamedTuple):
    """A flag of releases from `first` to before `gone` (None: unknown or never), and what people should write."""

    old: str
    instead: str
    first: Version | None
    gone: Version | None
    story: str

    def missing_in(self, version: Version) -> bool:
        return (self.first is not None and version < self.first) or (self.gone is not None and version >= self.gone)


_V0_SPECULATION = "speculation is set by one JSON object since 0.8"
RENAMES = {
    rename.old: rename
    for rename in (
        Rename("speculative_model", "`speculative_config` with `model`", None, (0, 9), _V0_SPECULATION),
        Rename(
            "num_speculative_tokens",
            "`speculative_config` with `num_speculative_tokens`",
            None,
            (0, 9),
            _V0_SPECULATION,
        ),
        Rename("num_scheduler_steps", "it to be left out", None, (0, 11), "it went with the V0 engine"),
        Rename("preemption_mode", "it to be left out", None, (0, 11), "it went with the V0 engine"),
        Rename(
            "per_request_spec_decode_metrics",
            "it to be left out",
            (0, 28),
            None,
            "figures of acceptance for single requests came with 0.28",
        ),
    )
}

TABLES = FlagTables(
    names=NEGATABLE | LISTS | OBJECTS | SINGLES,
    text=TEXT,
    lists=LISTS,
    negatable=NEGATABLE,
    objects=OBJECTS,
    renames={name: rename.story for name, rename in RENAMES.items()},
)


def method_of(config: Mapping[str, Any]) -> str | None:
    """The method in effect of a speculative configuration: a family's MTP is `mtp`; None where only the draft model's
    own configuration tells."""
    named = config.get("method")
    if not isinstance(named, str) or not named:
        return None
    return "mtp" if named.endswith("_mtp") else "ngram" if named == "[ngram]" else named
