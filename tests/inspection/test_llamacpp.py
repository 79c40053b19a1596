# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""llama-server's artefacts, read by a folder of its own and one line of registration."""

import pytest

from state.inspection.answer import read_answer
from state.inspection.log import read_log
from state.inspection.metrics import read_metrics
from state.inspection.report import Boot
from state.inspection.unit import read_unit

START = (
    "0.00.010.100 I build: 7312 (00dc8057) with cc (Debian 12.2.0) for x86_64-linux-gnu",
    "0.00.020.100 I srv    load_model: loading model '/m/model.gguf'",
    "0.01.020.100 I llama_kv_cache: size = 512.00 MiB",
)
LISTENING = "0.09.020.100 I main: server is listening on http://127.0.0.1:9931 - starting the main loop"


def boot(*lines: str) -> Boot:
    report = read_log([f"{line}\n".encode() for line in lines])
    assert report.engine == "llamacpp"
    return report.boots[-1]


def test_a_start_is_followed_to_its_own_word_for_ready() -> None:
    loading = boot(*START, "0.00.000.000 I main: HTTP server is listening, hostname: 127.0.0.1, port: 9931")
    assert (loading.outcome, loading.stage, loading.version) == ("starting", "kv-cache", "b7312")
    assert (boot(*START, LISTENING).outcome, boot(*START, LISTENING).speculation.state) == ("ready", None)
    newest = "0.05.411.182 I srv  llama_server: listening on http://0.0.0.0:8000"
    assert boot(*START, newest).outcome == "ready"


def test_the_length_is_read_with_its_padding() -> None:
    line = "0.28.760.136 I slot print_timing: id  3 | task 0 | draft acceptance = 0.67512 (  293 accepted /   434 generated), mean len =  2.35"
    found = boot(*START, LISTENING, line).speculation.accept_length
    assert found is not None
    assert found.mean == 2.35


NEWEST = (
    "0.00.230.904 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)",
    "0.00.436.253 I srv    load_model: loading model '/models/Qwen3.8-27B-UD-Q4_K_XL.gguf'",
    "0.04.755.304 I common_speculative_init_result: creating MTP draft context against the target model '/models/Q.gguf'",
    "0.05.141.440 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 262144, kv_unified = 'false'",
    "0.05.411.178 I srv  llama_server: model loaded",
    "0.05.411.182 I srv  llama_server: listening on http://0.0.0.0:8000",
    "0.11.873.131 I slot print_timing: id  0 | task 0 | draft acceptance = 0.84783 (   39 accepted /    46 generated), mean len =  2.70",
    "0.24.865.106 I slot print_timing: id  0 | task 27 | draft acceptance = 0.67281 (  146 accepted /   217 generated), mean len =  2.34",
)
"""In the words of public logs of August and September 2026, at the default verbosity."""


def test_a_start_of_the_newest_builds_is_read_whole() -> None:
    found = boot(*NEWEST)
    assert (found.outcome, found.stage, found.failures) == ("ready", "ready", ())
    assert (found.speculation.state, found.speculation.samples) == ("active", 2)
    assert (found.speculation.accepted_tokens, found.speculation.drafted_tokens) == (185, 263)
    assert found.speculation.accept_length is not None
    assert found.speculation.accept_length.mean == pytest.approx(2.4026, abs=1e-4), "by steps"
    assert boot(*NEWEST[:3]).speculation.state == "configured"


def test_a_stop_is_told_by_a_nameless_function() -> None:
    line = "0.30.020.100 I srv    operator(): operator(): cleaning up before exit..."
    assert boot(*START, LISTENING, line).outcome == "stopped"


def test_a_head_of_its_own_is_a_draft() -> None:
    line = "0.20.185.375 I srv    load_model: creating MTP draft context against the target model '/m/model.gguf'"
    assert boot(*START, line).speculation.state == "configured"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            "1.12.930.414 I slot print_timing: draft acceptance rate = 0.60300 (  603 accepted /  1000 generated)",
            id="older",
        ),
        pytest.param(
            "1.12.930.414 I slot print_timing: draft acceptance = 0.60 (  603 accepted /  1000 generated), mean len = 2.81",
            id="newer",
        ),
        pytest.param(
            "0.28.760.136 I slot print_timing: id  3 | task 0 | draft acceptance = 0.60300 (  603 accepted /  1000 generated), mean len =  2.35",
            id="newest-with-a-padded-length",
        ),
    ],
)
def test_requests_counts_are_summed(line: str) -> None:
    speculation = boot(*START, LISTENING, line, line).speculation
    assert (speculation.state, speculation.samples) == ("active", 2)
    assert (speculation.accepted_tokens, speculation.drafted_tokens) == (1206, 2000)
    assert speculation.accept_rate is not None
    assert speculation.accept_rate.mean == pytest.approx(0.603)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("error: invalid argument: --draft-max", "bad-arguments"),
        ("llama_model_load: error loading model: missing tensor 'blk.40.attn_norm.weight'", "weights-mismatch"),
        ('error while handling argument "--spec-type": unknown speculative type: mtp', "bad-arguments"),
        ("0.01.020.100 E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 9931", "port-in-use"),
        (
            "0.01.020.100 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 900.00 MiB on device 0: cudaMalloc failed: out of memory",
            "cuda-oom",
        ),
        ("0.01.020.100 E gguf_init_from_file: failed to open GGUF file '/m/model.gguf'", "model-not-found"),
    ],
)
def test_failures_are_named(line: str, code: str) -> None:
    failed = boot(*START, line)
    assert ([entry.code for entry in failed.failures], failed.outcome) == ([code], "failed")


def test_an_answer_counts_its_drafts() -> None:
    answer = {
        "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 9},
        "timings": {"draft_n": 8, "draft_n_accepted": 5},
    }
    report = read_answer(answer)
    assert (report.engine, report.speculation.state, report.speculation.accepted_tokens) == ("llamacpp", "active", 5)
    assert read_answer({**answer, "timings": {"predicted_n": 9}}).speculation.state is None


def test_metrics_are_counters() -> None:
    report = read_metrics(
        "llamacpp:spec_decode_num_drafts_total 10\nllamacpp:spec_decode_num_draft_tokens_total 30\nllamacpp:spec_decode_num_accepted_tokens_total 15\nllamacpp:requests_processing 2\n"
    )
    assert (report.engine, report.running, report.speculation.state) == ("llamacpp", 2, "active")
    assert report.speculation.accept_length is not None
    assert report.speculation.accept_length.mean == 2.5


def test_a_unit_that_starts_it_is_recognised() -> None:
    report = read_unit(
        "[Service]\nExecStart=/usr/bin/llama-server -m /m.gguf --spec-type draft-mtp --port 9931\n", "llama.service"
    )
    assert (report.engine, report.arguments["spec_type"], report.arguments["port"]) == ("llamacpp", "draft-mtp", 9931)
