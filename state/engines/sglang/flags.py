"""SGLang's flags: aliases, types, defaults, and what was renamed or removed in which release.

Sources: the argument tables of releases 0.4.6 to 0.5.23, and 0.5.23's own parsing of them.
"""

from typing import NamedTuple

from state.engines.command_line import FlagTables
from state.engines.sglang.flag_names import LISTS, NEGATABLE, SINGLES, SWITCHES
from state.engines.versions import Version

ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "nccl_init_addr": "dist_init_addr",
    "speculative_draft_model": "speculative_draft_model_path",
}

SECRETS = frozenset({"api_key", "admin_api_key", "ssl_keyfile_password"})
"""Arguments that hold a secret. SGLang prints the first two in clear in its log as well (0.5.23 too)."""

FILES = frozenset(
    {"config", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "chat_template", "completion_template"}
    | {"quantization_param_path", "speculative_token_map"}
)
"""Arguments that name a file which is read at the start. Both templates may be names of SGLang's own instead."""

INTEGERS = frozenset(
    {"tp_size", "pp_size", "dp_size", "ep_size", "port", "context_length", "max_running_requests", "max_total_tokens"}
    | {"chunked_prefill_size", "page_size", "decode_log_interval", "nnodes", "node_rank", "mamba_track_interval"}
    | {"speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"}
)

TEXT = frozenset(
    {"model_path", "tokenizer_path", "served_model_name", "revision", "weight_version", "host", "chat_template"}
    | {"speculative_draft_model_path", "speculative_draft_model_revision", "download_dir", "dist_init_addr"}
    | {"api_key", "admin_api_key", "ssl_keyfile_password", "fastapi_root_path", "quantization", "config", "device"}
)

DEFAULTS: dict[str, object] = {
    "host": "127.0.0.1",
    "port": 30000,
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "ep_size": 1,
    "log_level": "info",
    "decode_log_interval": 40,
    "speculative_algorithm": None,
    "speculative_draft_model_path": None,
    "speculative_accept_threshold_single": 1.0,
    "speculative_accept_threshold_acc": 1.0,
    "speculative_attention_mode": "prefill",
}
"""What 0.5.23 takes when an argument is left out. Steps, topk and draft tokens depend on the model (mostly 3, 1, 4)."""

SPECULATIVE_TRIPLE = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
"""All three or none: 0.5.23 dies with a bare TypeError or AssertionError on a part of them."""

NEEDS_DRAFT_PATH = frozenset({"EAGLE3", "STANDALONE", "DFLASH"})
"""Algorithms without a draft of their own in the checkpoint."""


class Rename(NamedTuple):
    """A flag of releases from `first` to before `gone` (None: unknown or never); `new` is its name elsewhere."""

    old: str
    new: str | None
    first: Version | None
    gone: Version | None
    story: str

    def missing_in(self, version: Version) -> bool:
        """Whether a release does not accept the flag."""
        return (self.first is not None and version < self.first) or (self.gone is not None and version >= self.gone)


RENAMES = {
    rename.old: rename
    for rename in (
        Rename(
            "mamba_scheduler_strategy",
            "mamba_radix_cache_strategy",
            (0, 5, 7),
            (0, 5, 20),
            "it is `--mamba-radix-cache-strategy` since 0.5.14, and the old name is gone since 0.5.20",
        ),
        Rename(
            "mamba_radix_cache_strategy",
            "mamba_scheduler_strategy",
            (0, 5, 14),
            None,
            "it is `--mamba-scheduler-strategy` from 0.5.7 to 0.5.13",
        ),
        Rename(
            "speculative_dflash_draft_window_size",
            "speculative_draft_window_size",
            None,
            (0, 5, 12),
            "it is `--speculative-draft-window-size` since 0.5.12",
        ),
        Rename(
            "enable_beta_spec",
            None,
            (0, 5, 3),
            (0, 5, 4),
            "it was in 0.5.3 only; the variable SGLANG_ENABLE_SPEC_V2 stands for it from 0.5.4 to 0.5.13",
        ),
    )
}

TABLES = FlagTables(
    names=SWITCHES | NEGATABLE | LISTS | SINGLES,
    aliases=ALIASES,
    text=TEXT,
    lists=LISTS,
    negatable=NEGATABLE,
    bare=SWITCHES,
    renames={name: rename.story for name, rename in RENAMES.items()},
)
