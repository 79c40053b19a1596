# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Each notice and each adjustment, and the lines that only look like one."""

import pytest

from state.inspection.log import read_log
from state.inspection.report import Boot
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY, VLLM_START

P = "[2026-10-07 10:01:00 TP0] "
M = "[2026-10-07 09:59:59] "
DECODE = "Decode batch, #running-req: 2, #token: 640, token usage: 0.01, accept len: {length}, accept rate: {rate}, cuda graph: {graph}, gen throughput (token/s): 90.00, #queue-req: 0"


def decode(length: str = "2.50", rate: str = "0.50", graph: str = "True") -> str:
    return P + DECODE.format(length=length, rate=rate, graph=graph)


def boot(*lines: str) -> Boot:
    return read_log([f"{line}\n".encode() for text in lines for line in text.split("\n")]).boots[-1]


def codes(of: Boot) -> set[str]:
    return {entry.code for entry in of.notices}


SERVING = (SGLANG_ARGS, SGLANG_READY)

NOTICES = (
    ("not-accepting", "speculation-not-accepting", (*SERVING, *[decode("1.00", "0.00")] * 3)),
    ("nan-length", "nan-acceptance", (*SERVING, decode("nan", "nan"))),
    ("negative-memory", "impossible-value", (SGLANG_ARGS, P + "Load weight end. type=X, avail mem=9.00 GB, mem usage=-3.10 GB.")),
    ("wrapped-memory", "impossible-value", (VLLM_START, "(EngineCore_0 pid=3) INFO 06-23 21:44:10 [gpu_worker.py:1] Available KV cache memory: 17179869184.00 GiB")),
    ("rate-above-one", "impossible-value", (*SERVING, decode("2.00", "1.70"))),
    ("length-below-one", "impossible-value", (*SERVING, decode("0.40", "0.00"))),
    ("server-error", "request-errors", (*SERVING, M + 'INFO:     127.0.0.1:4 - "POST /generate HTTP/1.1" 500 Internal Server Error')),
    ("too-many-requests", "request-errors", (*SERVING, M + 'INFO:     127.0.0.1:4 - "POST /v1/chat/completions HTTP/1.1" 429 Too Many Requests')),
    ("retract", "retractions", (*SERVING, P + "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 22")),
    ("retract-old", "retractions", (*SERVING, P + "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.7")),
    ("retracted-field", "retractions", (*SERVING, P + "Decode batch, #running-req: 2, #token: 640, token usage: 0.01, pre-allocated usage: 0.00, #prealloc-req: 0, #transfer-req: 0, #retracted-req: 2, cuda graph: True, gen throughput (token/s): 9.00, #queue-req: 0")),
    ("vllm-preempted", "retractions", (VLLM_START, "WARNING 06-23 21:44:10 [scheduler.py:1] Sequence group 3 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space.")),
    ("full-pool", "pool-saturated", (*SERVING, P + "Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, full token usage: 0.31, mamba usage: 1.00, #running-req: 9, #queue-req: 4, cuda graph: False, input throughput (token/s): 9.00")),
    ("vllm-full-pool", "pool-saturated", (VLLM_START, "INFO 06-23 21:44:10 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 5.0 tokens/s, Running: 9 reqs, Waiting: 40 reqs, GPU KV cache usage: 99.8%, Prefix cache hit rate: 0.0%")),
    ("autotune", "autotune-oom", (SGLANG_ARGS, P + "[AutoTuner]: OOM detected, falling back to default tactic")),
    ("autotune-torch", "autotune-oom", (SGLANG_ARGS, "Exception CUDA out of memory for benchmark choice TritonTemplateCaller, autotuning goes on")),
    ("graphs-by-argument", "graphs-off", (SGLANG_ARGS.replace("disable_cuda_graph=False", "disable_cuda_graph=True"),)),
    ("graphs-by-config", "graphs-off", (SGLANG_ARGS.replace("disable_cuda_graph=False", "cuda_graph_config={'decode': {'backend': 'disabled'}, 'prefill': {'backend': 'full'}}"),)),
    ("graphs-by-records", "graphs-off", (P + "x", *[decode(graph="False")] * 3)),
    ("vllm-eager", "graphs-off", (VLLM_START.replace("'max_model_len'", "'enforce_eager': True, 'max_model_len'"),)),
    ("workers", "no-workers", ("2026-10-07 10:00:00  WARN sglang_router_rs::routers::http: src/routers/http.rs:7: No available workers (all circuits open or unhealthy)",)),
    ("health", "health-check-failed", (*SERVING, M + "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 10:00:00.")),
    ("fallback", "speculation-fallback", (*SERVING, M + "speculative_adaptive disabled: dp attention. Falling back to static speculative params.")),
    ("simulated", "simulated-acceptance", ("+ export SGLANG_SIMULATE_ACC_LEN=3.5", *SERVING)),
    ("cut-arguments", "log-cut", (SGLANG_ARGS[:150],)),
)  # fmt: skip


@pytest.mark.parametrize(("code", "lines"), [pytest.param(c, x, id=i) for i, c, x in NOTICES if i != "simulated"])
def test_a_notice_is_given(code: str, lines: tuple[str, ...]) -> None:
    assert code in codes(boot(*lines))


def test_simulated_acceptance_is_said_wherever_it_shows() -> None:
    assert "simulated-acceptance" in codes(boot(*SERVING, "environment: SGLANG_SIMULATE_ACC_LEN='3.5'"))
    assert "simulated-acceptance" not in codes(boot(*SERVING, "environment: SGLANG_SIMULATE_ACC_LEN=-1"))


QUIET = (
    ("client-error", (*SERVING, M + 'INFO:     127.0.0.1:4 - "POST /generate HTTP/1.1" 400 Bad Request')),
    ("health-503", (*SERVING, M + 'INFO:     127.0.0.1:4 - "GET /health HTTP/1.1" 503 Service Unavailable')),
    ("optional-import", (*SERVING, M + "Ignore import error when loading sglang.srt.models.x: No module named 'helion'")),
    ("optional-codec", (*SERVING, M + "torchcodec is not installed; audio inputs will fail at request time")),
    ("c10d", (*SERVING, "[W1129 22:05:26.1 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3")),
    ("destroy", (*SERVING, "[rank0]:[W1129 22:01:07.9 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.")),
    ("prompt", (*SERVING, M + "Receive: obj=GenerateReqInput(text='CUDA out of memory. Tried to allocate; illegal memory access')")),
    ("harmony", (*SERVING, M + "OpenAI Responses API (/v1/responses) disabled: OpenAIServingResponses init failed (ModuleNotFoundError: No module named 'openai_harmony')")),
    ("soft-watchdog", (*SERVING, P + "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)")),
    ("prefill-graphs", (*SERVING, P + "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' (e.g. via --cuda-graph-backend-prefill=disabled or auto-disable rules).")),
    ("state-deleted", (*SERVING, M + "Received output for rid='x' but the state was deleted in TokenizerManager.")),
    ("endpoint", (*SERVING, M + "Endpoint '/get_server_info' is deprecated and will be removed in a future version. Please use '/server_info' instead.")),
)  # fmt: skip


@pytest.mark.parametrize("lines", [pytest.param(x, id=i) for i, x in QUIET])
def test_what_only_looks_like_trouble_is_none(lines: tuple[str, ...]) -> None:
    seen = boot(*lines)
    assert (seen.outcome, seen.failures, codes(seen), seen.adjustments) == ("ready", (), set(), ())


ADJUSTMENTS = (
    ("Overlap scheduler is disabled because of using eagle speculative decoding.", "overlap-off"),
    ("Overlap scheduler is disabled when spec v2 is off or using unsupported speculative algorithm. You can set env SGLANG_ENABLE_SPEC_V2=True", "overlap-off"),
    ("Spec v1 is used for eagle/eagle3/standalone speculative decoding because topk is 4.", "overlap-off"),
    ("Non-overlap (synchronous) spec v2 is used for eagle/eagle3/standalone speculative decoding.", "overlap-off"),
    ("Overlap schedule is not implemented for speculative decoding on CPU.", "overlap-off"),
    ("Disabling overlap schedule since mamba no_buffer is not compatible with overlap schedule, try to use extra_buffer", "overlap-off"),
    ("Pipeline parallelism is incompatible with overlap schedule.", "overlap-off"),
    ("Beta spec is enabled for eagle speculative decoding and overlap schedule is turned on.", "overlap-on"),
    ("Spec v2 is enabled by default for eagle/eagle3/standalone speculative decoding.", "overlap-on"),
    ("Disabling radix cache since trtllm_mha does not support page_size = 1, which is required by MambaRadixCache.", "radix-cache-off"),
    ("Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting --max-running-requests.", "max-running-requests"),
    ("max_running_requests is capped to 1258 by the mamba state cache (max_mamba_cache_size=6292, 5 state slots per request).", "max-running-requests"),
    ("speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1", "draft-tokens"),
    ("speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding.", "draft-tokens"),
    ("speculative_eagle_topk is adjusted to 1 when page_size > 1", "topk"),
    ("Mixed chunked prefill is disabled because of using eagle speculative decoding.", "mixed-chunk-off"),
    ("DP attention is enabled. The chunked prefill size is adjusted to 4096 to avoid MoE kernel issues. ", "chunked-prefill"),
    ("Automatically turn off --chunked-prefill-size for multimodal model.", "chunked-prefill"),
    ("Automatically reduce --mem-fraction-static to 0.788 because this is a multimodal model.", "mem-fraction"),
    ("mem_fraction_static is adjusted to 0.75", "mem-fraction"),
    ("Attention backend not set. Use fa3 backend by default.", "attention-backend"),
    ("Attention backend not explicitly specified. Use flashinfer backend by default.", "attention-backend"),
    ("Setting KV cache dtype to fp8_e4m3 for DeepSeek DSA on SM10 device.", "kv-dtype"),
    ("DeepEP MoE is enabled. The expert parallel size is adjusted to be the same as the tensor parallel size[4].", "parallel-size"),
    ("ep_size is adjusted to 8", "parallel-size"),
    ("mamba_scheduler_strategy is set to extra_buffer", "scheduler-strategy"),
    ("The argument --enable-ep-moe is deprecated. Please set --ep-size to the same value as --tp-size instead.", "deprecated-flag"),
    ("SGLANG_ENABLE_SPEC_V2 has been removed: speculative decoding always runs the V2 worker.", "deprecated-flag"),
    ("Detected Gemma4AssistantForCausalLM draft; promoting EAGLE to FROZEN_KV_MTP", "algorithm-alias"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "code"), [pytest.param(t, c, id=f"{c}-{n}") for n, (t, c) in enumerate(ADJUSTMENTS)])
def test_what_the_engine_changes_by_itself_is_listed(text: str, code: str) -> None:
    assert [a.code for a in boot(M + text, SGLANG_ARGS).adjustments] == [code]


def test_an_alias_shows_where_both_names_do() -> None:
    seen = boot("+ python -m sglang.launch_server --speculative-algorithm NEXTN --port 1", SGLANG_ARGS)
    assert [a.code for a in seen.adjustments] == ["algorithm-alias"]
    assert boot(SGLANG_ARGS).adjustments == ()


def test_an_import_that_the_engine_ignores_is_no_failure_whoever_reads_it() -> None:
    line = b"[2026-10-07 10:00:00] Ignore import error when loading sglang.srt.models.x: No module named 'y'\n"
    assert [boot.failures for boot in read_log([line]).boots] in ([], [()])


@pytest.mark.parametrize(
    ("line", "set_"),
    [
        pytest.param("+ export SGLANG_SIMULATE_ACC_LEN=3.5", True, id="exported"),
        pytest.param("SGLANG_SIMULATE_ACC_LEN is set to 2.5", True, id="said"),
        pytest.param("unset SGLANG_SIMULATE_ACC_LEN", False, id="unset"),
        pytest.param("SGLANG_SIMULATE_ACC_LEN=0", False, id="zero"),
    ],
)
def test_what_a_script_sets_before_the_start_is_told_of_the_boot(line: str, set_: bool) -> None:
    plain = [line, SGLANG_ARGS]
    short = [f"Oct 07 10:00:00 gpu-a start.sh[6]: {line}", f"Oct 07 10:00:00 gpu-a python3[7]: {SGLANG_ARGS}"]
    for lines in (plain, short):
        (boot,) = read_log([text.encode() + b"\n" for text in lines]).boots
        assert ("simulated-acceptance" in {notice.code for notice in boot.notices}) is set_
