"""SGLang's server arguments: names, types, defaults, choices, and the versions that know them.

A realistic subset of the engine's several hundred, in the engine's order, which is also the order of the
`server_args=` line.
"""

from __future__ import annotations

from dataclasses import dataclass

from .versions import Version

_FIRST, _LAST = (0, 0, 0), (99, 0, 0)


@dataclass(frozen=True)
class Flag:
    """`dest` names the argument; its option is `--dest-with-dashes`. `kind` bool means a switch without a value."""

    dest: str
    kind: type
    default: object = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    since: tuple[int, int, int] = _FIRST
    until: tuple[int, int, int] = _LAST  # the first version without it
    required: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        return (f"--{self.dest.replace('_', '-')}", *self.aliases)

    def known_to(self, version: Version) -> bool:
        return self.since <= version < self.until


_STRATEGIES = ("auto", "no_buffer", "extra_buffer")
_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_KV_DTYPES = ("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1")
_QUANTIZATIONS = (
    "awq", "fp8", "gptq", "marlin", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf", "modelopt",
    "modelopt_fp8", "modelopt_fp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8", "mxfp4",
    "compressed-tensors", "unquant",
)  # fmt: skip

FLAGS: tuple[Flag, ...] = (
    Flag("model_path", str, aliases=("--model",), required=True),
    Flag("tokenizer_path", str),
    Flag("tokenizer_mode", str, "auto", choices=("auto", "slow")),
    Flag("tokenizer_worker_num", int, 1),
    Flag("skip_tokenizer_init", bool, False),
    Flag("load_format", str, "auto"),
    Flag("model_loader_extra_config", str, "{}"),
    Flag("trust_remote_code", bool, False),
    Flag("context_length", int),
    Flag("is_embedding", bool, False),
    Flag("enable_multimodal", bool),
    Flag("revision", str),
    Flag("model_impl", str, "auto"),
    Flag("json_model_override_args", str, "{}"),
    Flag("dtype", str, "auto", choices=_DTYPES),
    Flag("quantization", str, choices=_QUANTIZATIONS),
    Flag("kv_cache_dtype", str, "auto", choices=_KV_DTYPES),
    Flag("mem_fraction_static", float),
    Flag("max_running_requests", int),
    Flag("max_queued_requests", int),
    Flag("max_total_tokens", int),
    Flag("chunked_prefill_size", int),
    Flag("max_prefill_tokens", int, 16384),
    Flag("schedule_policy", str, "fcfs", choices=("lpm", "random", "fcfs", "dfs-weight", "lof", "priority")),
    Flag("schedule_conservativeness", float, 1.0),
    Flag("page_size", int),
    Flag("swa_full_tokens_ratio", float, 0.8),
    Flag("radix_eviction_policy", str, "lru", choices=("lru", "lfu")),
    Flag("disable_radix_cache", bool, False),
    Flag("disable_chunked_prefix_cache", bool, False),
    Flag("disable_overlap_schedule", bool, False),
    Flag("num_continuous_decode_steps", int, 1),
    Flag("enable_mixed_chunk", bool, False),
    Flag("nccl_port", int),
    Flag("dist_timeout", int),
    Flag("dist_init_addr", str, aliases=("--nccl-init-addr",)),
    Flag("nnodes", int, 1),
    Flag("node_rank", int, 0),
    Flag("tp_size", int, 1, aliases=("--tensor-parallel-size", "--tp")),
    Flag("pp_size", int, 1, aliases=("--pipeline-parallel-size", "--pp")),
    Flag("dp_size", int, 1, aliases=("--data-parallel-size", "--dp")),
    Flag("load_balance_method", str, "round_robin"),
    Flag("enable_dp_attention", bool, False),
    Flag("device", str, "cuda"),
    Flag("base_gpu_id", int, 0),
    Flag("gpu_id_step", int, 1),
    Flag("random_seed", int),
    Flag("watchdog_timeout", float, 300),
    Flag("soft_watchdog_timeout", float),
    Flag("sleep_on_idle", bool, False),
    Flag("host", str, "127.0.0.1"),
    Flag("port", int, 30000),
    Flag("skip_server_warmup", bool, False),
    Flag("warmups", str),
    Flag("api_key", str),
    Flag("admin_api_key", str, since=(0, 5, 9)),
    Flag("served_model_name", str),
    Flag("weight_version", str, "default"),
    Flag("chat_template", str),
    Flag("completion_template", str),
    Flag("file_storage_path", str, "sglang_storage"),
    Flag("enable_cache_report", bool, False),
    Flag("reasoning_parser", str),
    Flag("tool_call_parser", str),
    Flag("sampling_defaults", str, "model", choices=("openai", "model")),
    Flag("stream_interval", int, 1),
    Flag("log_level", str, "info"),
    Flag("log_level_http", str),
    Flag("log_requests", bool, False),
    Flag("log_requests_level", int, 2),
    Flag("crash_dump_folder", str),
    Flag("show_time_cost", bool, False),
    Flag("enable_metrics", bool, False),
    Flag("enable_metrics_for_all_schedulers", bool, False),
    Flag("gc_warning_threshold_secs", float, 0.0),
    Flag("decode_log_interval", int, 40),
    Flag("attention_backend", str),
    Flag("decode_attention_backend", str),
    Flag("prefill_attention_backend", str),
    Flag("sampling_backend", str, choices=("flashinfer", "pytorch", "ascend")),
    Flag("grammar_backend", str, choices=("xgrammar", "outlines", "llguidance", "none")),
    Flag("mm_attention_backend", str),
    Flag("mamba_backend", str, "triton"),
    Flag("cuda_graph_max_bs", int),
    Flag("disable_cuda_graph", bool, False),
    Flag("disable_cuda_graph_padding", bool, False),
    Flag("enable_nccl_nvls", bool, False),
    Flag("enable_symm_mem", bool, False),
    Flag("disable_custom_all_reduce", bool, False),
    Flag("enable_torch_compile", bool, False),
    Flag("torchao_config", str, ""),
    Flag("speculative_algorithm", str),
    Flag("speculative_draft_model_path", str, aliases=("--speculative-draft-model",)),
    Flag("speculative_draft_model_revision", str),
    Flag("speculative_draft_load_format", str),
    Flag("speculative_num_steps", int),
    Flag("speculative_eagle_topk", int),
    Flag("speculative_num_draft_tokens", int),
    Flag("speculative_accept_threshold_single", float, 1.0),
    Flag("speculative_accept_threshold_acc", float, 1.0),
    Flag("speculative_token_map", str),
    Flag("speculative_attention_mode", str, "prefill", choices=("prefill", "decode")),
    Flag("speculative_draft_attention_backend", str),
    Flag("speculative_draft_window_size", int, since=(0, 5, 12)),
    Flag("speculative_moe_runner_backend", str),
    Flag("speculative_draft_model_quantization", str),
    Flag("speculative_adaptive", bool, False, since=(0, 5, 11)),
    Flag("speculative_ngram_match_type", str, "BFS", choices=("BFS", "PROB")),
    Flag("speculative_ngram_capacity", int, 10_000_000),
    Flag("enable_multi_layer_eagle", bool, False),
    Flag("ep_size", int, 1, aliases=("--expert-parallel-size", "--ep")),
    Flag("moe_a2a_backend", str, "none"),
    Flag("moe_runner_backend", str, "auto"),
    Flag("max_mamba_cache_size", int),
    Flag("mamba_ssm_dtype", str, choices=("float32", "bfloat16")),
    Flag("mamba_full_memory_ratio", float, 0.9),
    Flag("mamba_scheduler_strategy", str, "auto", choices=_STRATEGIES, since=(0, 5, 7), until=(0, 5, 14)),
    Flag("mamba_radix_cache_strategy", str, "auto", choices=_STRATEGIES, since=(0, 5, 14)),
    Flag("mamba_track_interval", int, 256, since=(0, 5, 7)),
    Flag("enable_hierarchical_cache", bool, False),
    Flag("hicache_ratio", float, 2.0),
    Flag("enable_lora", bool),
    Flag("cpu_offload_gb", int, 0),
    Flag("disaggregation_mode", str, "null", choices=("null", "prefill", "decode")),
    Flag("disaggregation_bootstrap_port", int, 8998),
    Flag("custom_weight_loader", str),
    Flag("weight_loader_disable_mmap", bool, False),
    Flag("download_dir", str),
    Flag("enable_memory_saver", bool, False),
    Flag("enable_deterministic_inference", bool, False),
)


def flags_of(version: Version) -> tuple[Flag, ...]:
    return tuple(flag for flag in FLAGS if flag.known_to(version))


def extra_options(flag: Flag, version: Version) -> tuple[str, ...]:
    """Old names that a version still takes: the Mamba strategy's, from 0.5.14 to 0.5.19."""
    kept = flag.dest == "mamba_radix_cache_strategy" and version < (0, 5, 20)
    return ("--mamba-scheduler-strategy",) if kept else ()


def choices_of(flag: Flag, version: Version) -> tuple[str, ...]:
    """Before 0.5.12 argparse itself judged the speculative algorithm."""
    if flag.dest != "speculative_algorithm" or version >= (0, 5, 12):
        return flag.choices
    return (*_ALGORITHMS, "DFLASH") if version >= (0, 5, 11) else _ALGORITHMS
