"""Names of vLLM's flags by how they take their words, as releases 0.8 to 0.30 list them (`vllm serve --help=all`).

They serve abbreviations and suggestions. Which flags are accepted, the installed engine says, never this list.
"""

_NEGATABLE = """
    allow_credentials allow_deprecated_quantization async_scheduling calculate_kv_scales cudagraph_metrics
    data_parallel_external_lb data_parallel_hybrid_lb disable_access_log_for_endpoints disable_cascade_attn
    disable_chunked_mm_input disable_custom_all_reduce disable_fastapi_docs disable_frontend_multiprocessing
    disable_hybrid_kv_cache_manager disable_log_requests disable_log_stats disable_nccl_for_dp_synchronization
    disable_sliding_window disable_uvicorn_access_log disable_uvicorn_metrics_access_log enable_auto_tool_choice
    enable_chunked_prefill enable_dbo enable_elastic_ep enable_eplb enable_expert_parallel
    enable_flashinfer_autotune enable_force_include_usage enable_layerwise_nvtx_tracing enable_log_deltas
    enable_log_outputs enable_log_requests enable_logging_iteration_details enable_lora enable_lora_bias
    enable_mfu_metrics enable_mm_embeds enable_prefix_caching enable_prompt_embeds enable_prompt_tokens_details
    enable_request_id_headers enable_return_routed_experts enable_server_load_tracking enable_sleep_mode
    enable_ssl_refresh enable_tokenizer_info_endpoint enforce_eager exclude_tools_when_tool_choice_none
    fully_sharded_loras headless interleave_mm_strings kv_cache_metrics kv_sharing_fast_prefill
    language_model_only log_config_file_content log_error_stack moe_expert_parallel multi_step_stream_outputs
    ray_workers_use_nsight return_tokens_as_token_ids scheduler_reserve_full_isl skip_mm_profiling
    skip_tokenizer_init tokens_only trust_remote_code trust_request_chat_template use_fp64_gumbel
    use_tqdm_on_load
"""
NEGATABLE = frozenset(_NEGATABLE.split())
"""Switches, with a `--no-` form beside the plain one (argparse's BooleanOptionalAction, 0.8.5 and later)."""

_LISTS = """
    allowed_headers allowed_methods allowed_origins api_key cudagraph_capture_sizes ignore_patterns
    kv_cache_dtype_skip_layers logits_processors lora_modules middleware prompt_adapters served_model_name
"""
LISTS = frozenset(_LISTS.split())
"""Flags that take several words (or, as `middleware`, may be repeated)."""

_OBJECTS = """
    additional_config attention_config chat_template_kwargs compilation_config default_chat_template_kwargs
    diffusion_config ec_transfer_config eplb_config generation_tokens hf_overrides kernel_config
    kv_events_config kv_transfer_config limit_mm_per_prompt mamba_config media_io_kwargs mm_processor_kwargs
    model_loader_extra_config offload_config override_generation_config override_pooler_config pooler_config
    profiler_config reasoning_config rope_scaling speculative_config structured_outputs_config
    weight_transfer_config
"""
OBJECTS = frozenset(_OBJECTS.split())
"""Flags that take a JSON object; `--speculative-config.method mtp` sets one key of it."""

_SINGLES = """
    aggregate_engine_logging all2all_backend allowed_local_media_path allowed_media_domains api_server_count
    attention_backend block_size chat_template chat_template_content_format code_revision
    collect_detailed_traces config config_format convert cp_kv_cache_interleave_size cpu_offload_gb
    data_parallel_address data_parallel_backend data_parallel_rank data_parallel_rpc_port data_parallel_size
    data_parallel_size_local data_parallel_start_rank dbo_decode_token_threshold dbo_prefill_token_threshold
    dcp_comm_backend decode_context_parallel_size device distributed_executor_backend distributed_timeout_seconds
    download_dir dtype expert_placement_strategy generation_config gpu_memory_utilization guided_decoding_backend
    h11_max_header_count h11_max_incomplete_event_size hf_config_path hf_token host io_processor_plugin
    kv_cache_dtype kv_cache_memory_bytes kv_offloading_backend kv_offloading_size load_format
    logits_processor_pattern logprobs_mode long_prefill_token_threshold lora_dtype lora_extra_vocab_size
    mamba_block_size mamba_cache_dtype mamba_cache_mode mamba_ssm_cache_dtype master_addr master_port
    max_cpu_loras max_cudagraph_capture_size max_log_len max_logprobs max_long_partial_prefills max_lora_rank
    max_loras max_model_len max_num_batched_tokens max_num_partial_prefills max_num_seqs
    max_parallel_loading_workers max_seq_len_to_capture mm_encoder_attn_backend mm_encoder_tp_mode
    mm_processor_cache_gb mm_processor_cache_type mm_shm_cache_max_object_size_mb model model_impl moe_backend
    nnodes node_rank num_gpu_blocks_override num_lookahead_slots num_scheduler_steps num_speculative_tokens
    optimization_level otlp_traces_endpoint performance_mode per_request_spec_decode_metrics
    pipeline_parallel_size port preemption_mode prefetch_num_threads prefill_context_parallel_size
    prefix_caching_hash_algo pt_load_map_location quantization reasoning_parser reasoning_parser_plugin
    response_role revision rope_theta root_path runner safetensors_load_strategy scheduler_cls
    scheduler_delay_factor scheduling_policy seed show_hidden_metrics_for_version shutdown_timeout
    speculative_disable_by_batch_size speculative_draft_tensor_parallel_size speculative_max_model_len
    speculative_model speculative_model_quantization spec_method spec_model spec_tokens ssl_ca_certs
    ssl_cert_reqs ssl_certfile ssl_keyfile stream_interval swap_space task tensor_parallel_size tokenizer
    tokenizer_mode tokenizer_revision tool_call_parser tool_parser_plugin tool_server uds uvicorn_log_level
    video_pruning_rate worker_cls worker_extension_cls
"""
SINGLES = frozenset(_SINGLES.split())
"""Flags that take one word."""
