"""llama-server's flags under one name each: its longest spelling that the builds share, with underscores.

Sources: the help texts in `tools/server/README.md` of builds 5000 to 11000 (newest read: commit 00dc8057).
"""

VALUED = frozenset(
    {"model", "model_url", "alias", "tags", "hf_repo", "hf_file", "hf_token", "mmproj", "mmproj_url", "mmproj_device"}
    | {"ctx_size", "predict", "batch_size", "ubatch_size", "keep", "threads", "threads_batch", "parallel", "seed"}
    | {"n_gpu_layers", "device", "split_mode", "tensor_split", "main_gpu", "fit_target", "fit_ctx", "load_mode"}
    | {"n_cpu_moe", "n_cpu_ffn", "moe_cache_mib", "numa", "rpc", "cache_type_k", "cache_type_v", "cache_ram"}
    | {"cache_reuse", "ctx_checkpoints", "defrag_thold", "override_tensor", "override_kv", "lora", "lora_scaled"}
    | {"control_vector", "control_vector_scaled", "control_vector_layer_range", "rope_scaling", "rope_scale"}
    | {"rope_freq_base", "rope_freq_scale", "yarn_orig_ctx", "yarn_ext_factor", "yarn_attn_factor"}
    | {"yarn_beta_slow", "yarn_beta_fast", "cpu_mask", "cpu_range", "cpu_strict", "prio", "poll", "pooling"}
    | {"samplers", "sampler_seq", "temp", "top_k", "top_p", "min_p", "top_n_sigma", "typical", "repeat_last_n"}
    | {"repeat_penalty", "presence_penalty", "frequency_penalty", "dry_multiplier", "dry_base", "logit_bias"}
    | {"grammar", "grammar_file", "json_schema", "json_schema_file", "reverse_prompt", "host", "port", "path"}
    | {"api_prefix", "api_key", "api_key_file", "ssl_key_file", "ssl_cert_file", "timeout", "threads_http"}
    | {"chat_template", "chat_template_file", "chat_template_kwargs", "reasoning_format", "reasoning_budget"}
    | {"reasoning_effort", "slot_save_path", "slot_prompt_similarity", "sleep_idle_seconds", "media_path"}
    | {"models_dir", "models_preset", "models_max", "log_file", "log_verbosity", "kv_unified_per_slot"}
    | {"flash_attn", "fit", "log_colors", "reasoning"}
    | {"model_draft", "hf_repo_draft", "ctx_size_draft", "n_gpu_layers_draft", "device_draft", "threads_draft"}
    | {"threads_batch_draft", "cache_type_k_draft", "cache_type_v_draft", "override_tensor_draft", "n_cpu_moe_draft"}
    | {"draft_max", "draft_min", "draft_p_min", "draft_p_split", "spec_type", "spec_draft_n_max", "spec_draft_n_min"}
    | {"spec_draft_sampling", "spec_synth_len", "spec_synth_rates", "spec_replace", "lookup_cache_static"}
    | {"lookup_cache_dynamic", "spec_ngram_mod_n_min", "spec_ngram_mod_n_max", "spec_ngram_mod_n_match"}
)
"""What takes the next word, whatever that looks like; `control_vector_layer_range` takes two."""

NEGATABLE = frozenset(
    {"mmap", "kv_offload", "repack", "perf", "escape", "op_offload", "warmup", "cont_batching", "context_shift"}
    | {"kv_unified", "cache_prompt", "cache_idle_slots", "slots", "jinja", "webui", "ui", "prefill_assistant"}
    | {"mmproj_auto", "mmproj_offload", "log_prefix", "log_timestamps", "models_autoload", "reasoning_preserve"}
    | {"spec_draft_backend_sampling", "skip_chat_parsing", "cors_credentials", "log_jsonl", "agent"}
)
"""Switches with a `--no-` form."""

BARE = frozenset(
    {"metrics", "props", "mlock", "swa_full", "check_tensors", "cpu_moe", "cpu_moe_draft", "embedding", "reranking"}
    | {"special", "spm_infill", "offline", "verbose", "log_disable", "no_host", "ignore_eos", "backend_sampling"}
    | {"reuse_port", "lora_init_without_apply", "spec_default", "list_devices", "version", "help"}
)

ALIASES = {
    "gpu_layers": "n_gpu_layers",
    "n_predict": "predict",
    "temperature": "temp",
    "typical_p": "typical",
    "top_nsigma": "top_n_sigma",
    "verbosity": "log_verbosity",
    "log_verbose": "verbose",
    "usage": "help",
    "embeddings": "embedding",
    "rerank": "reranking",
    "swa_checkpoints": "ctx_checkpoints",
    "sampling_seq": "sampler_seq",
    "hf_repo_d": "hf_repo_draft",
    "no_mmproj": "no_mmproj_auto",
    "draft": "draft_max",
    "draft_n": "draft_max",
    "draft_n_min": "draft_min",
    "gpu_layers_draft": "n_gpu_layers_draft",
    "spec_draft_ngl": "n_gpu_layers_draft",
    "spec_draft_model": "model_draft",
    "spec_draft_hf": "hf_repo_draft",
    "spec_draft_device": "device_draft",
    "spec_draft_threads": "threads_draft",
    "spec_draft_threads_batch": "threads_batch_draft",
    "spec_draft_type_k": "cache_type_k_draft",
    "spec_draft_type_v": "cache_type_v_draft",
    "spec_draft_override_tensor": "override_tensor_draft",
    "spec_draft_cpu_moe": "cpu_moe_draft",
    "spec_draft_n_cpu_moe": "n_cpu_moe_draft",
    "spec_draft_ncmoe": "n_cpu_moe_draft",
    "spec_draft_p_min": "draft_p_min",
    "spec_draft_p_split": "draft_p_split",
}
"""Other long spellings. The draft's are called as the older builds do it, which the newer ones take as well; only
`draft_max` and `draft_min` were removed, for `spec_draft_n_max` and `spec_draft_n_min`."""

SHORT = {
    "-h": "help", "-m": "model", "-mu": "model_url", "-a": "alias", "-hf": "hf_repo", "-hfr": "hf_repo",
    "-hff": "hf_file", "-hft": "hf_token", "-mm": "mmproj", "-mmu": "mmproj_url", "-c": "ctx_size", "-n": "predict",
    "-b": "batch_size", "-ub": "ubatch_size", "-t": "threads", "-tb": "threads_batch", "-np": "parallel",
    "-s": "seed", "-ngl": "n_gpu_layers", "-dev": "device", "-sm": "split_mode", "-ts": "tensor_split",
    "-mg": "main_gpu", "-fit": "fit", "-fitt": "fit_target", "-fitc": "fit_ctx", "-lm": "load_mode",
    "-cmoe": "cpu_moe", "-ncmoe": "n_cpu_moe", "-ctk": "cache_type_k", "-ctv": "cache_type_v", "-cram": "cache_ram",
    "-ctxcp": "ctx_checkpoints", "-dt": "defrag_thold", "-ot": "override_tensor", "-C": "cpu_mask",
    "-Cr": "cpu_range", "-e": "escape", "-fa": "flash_attn", "-kvo": "kv_offload", "-nkvo": "no_kv_offload",
    "-nr": "no_repack", "-kvu": "kv_unified", "-no-kvu": "no_kv_unified", "-cb": "cont_batching",
    "-nocb": "no_cont_batching", "-to": "timeout", "-l": "logit_bias", "-j": "json_schema", "-jf": "json_schema_file",
    "-r": "reverse_prompt", "-sp": "special", "-sps": "slot_prompt_similarity", "-lv": "log_verbosity",
    "-v": "verbose", "-bs": "backend_sampling", "-rea": "reasoning", "-ag": "agent", "-no-ag": "no_agent",
    "-lcs": "lookup_cache_static", "-lcd": "lookup_cache_dynamic", "-md": "model_draft", "-hfd": "hf_repo_draft",
    "-hfrd": "hf_repo_draft", "-cd": "ctx_size_draft", "-ngld": "n_gpu_layers_draft", "-devd": "device_draft",
    "-td": "threads_draft", "-tbd": "threads_batch_draft", "-ctkd": "cache_type_k_draft",
    "-ctvd": "cache_type_v_draft", "-otd": "override_tensor_draft", "-cmoed": "cpu_moe_draft",
    "-ncmoed": "n_cpu_moe_draft",
}  # fmt: skip

ON_OFF = frozenset({"flash_attn", "fit", "log_colors", "reasoning"})
"""Words on, off and auto; YAML reads a plain `on` as true. Before build 6325 (August 2025) `-fa` took no word."""

REPEATED = frozenset({"lora", "lora_scaled", "control_vector", "control_vector_scaled", "override_tensor"} | {
    "override_tensor_draft", "override_kv", "logit_bias", "grammar_trigger"
})  # fmt: skip
"""What may stand several times, and adds up."""

OBJECTS = frozenset({"chat_template_kwargs", "json_schema"})

TEXT = frozenset(
    {"model", "model_url", "model_draft", "alias", "hf_repo", "hf_file", "hf_repo_draft", "hf_token", "mmproj", "host"}
    | {"api_key", "chat_template", "chat_template_file", "grammar", "path", "reverse_prompt", "log_file", "tags"}
    | {"cpu_mask", "tensor_split", "device", "device_draft"}
)
"""Never numbers."""

PAIRS = frozenset({"control_vector_layer_range"})
SECRETS = frozenset({"api_key", "hf_token"})

FILES = frozenset(
    {"api_key_file", "ssl_key_file", "ssl_cert_file", "chat_template_file", "grammar_file", "json_schema_file", "lora"}
    | {"control_vector"}
)
"""Arguments that name a file without which llama-server does not start (`common/arg.cpp`: "failed to open file")."""

NAMES = VALUED | NEGATABLE | BARE


def canonical(name: str) -> str:
    """The one name of an argument, by any long spelling of it."""
    return ALIASES.get(name.replace("-", "_"), name.replace("-", "_"))


def spelled(name: str) -> str:
    """The flag as it is written. `mmproj_auto` is switched off by `--no-mmproj` in every build."""
    return "--no-mmproj" if name == "no_mmproj_auto" else "--" + name.replace("_", "-")
