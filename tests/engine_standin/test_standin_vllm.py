"""The stand-in as vLLM, a real process: entry points, lines, endpoints and ends, read by the project's own readers."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from state.engines.vllm.verification import ENGINE
from state.inspection.answer import read_answer
from state.inspection.log import read_log
from state.inspection.metrics import read_metrics
from state.inspection.report import Boot
from tasks.practice.engine.install import QWEN, QWEN_WITHOUT_MTP
from tests.engine_standin.standin_process import QUICK, StandIn, started

READY = "Application startup complete."
SPECULATION = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}')
SERVE, MODULE = ("-m", "vllm", "serve", QWEN.path), ("-m", "vllm.entrypoints.openai.api_server", "--model", QWEN.path)
WINDOWS = {"VLLM_LOG_STATS_INTERVAL": "0.05"}


@contextmanager
def vllm(root: Path, *arguments: str, **options: Any) -> Iterator[StandIn]:
    chosen = {"module": SERVE, "version": "0.20.2", "engine": "vllm", "environment": WINDOWS, **options}
    with started(root, "-tp", "4", *arguments, **chosen) as standin:
        yield standin


@contextmanager
def serving(root: Path, *arguments: str, **options: Any) -> Iterator[StandIn]:
    with vllm(root, *arguments, **options) as standin:
        standin.wait_for(READY)
        yield standin
        assert "asyncio" not in standin.text, standin.text[-3000:]


def read(standin: StandIn) -> Boot:
    (boot,) = read_log(standin.text.encode().splitlines(keepends=True), "vllm").boots
    return boot


def complete(standin: StandIn, **changes: Any) -> tuple[int, dict[str, Any]]:
    asked = ENGINE.generation("Describe how bread is made.", 256, exact=True)
    status, body = standin.ask(asked.path, {**(asked.body or {}), **changes})
    return status, json.loads(body)


@pytest.mark.parametrize("module", [pytest.param(SERVE, id="vllm-serve"), pytest.param(MODULE, id="api-server")])
def test_a_healthy_start_is_read_as_ready_and_active(tmp_path: Path, module: tuple[str, ...]) -> None:
    with serving(tmp_path, *SPECULATION, module=module) as standin:
        for _ in range(2):
            assert complete(standin)[0] == 200
        standin.wait_for("SpecDecoding metrics")
        boot = read(standin)
        status = standin.stop()
        stopped = read(standin)
    assert (boot.stage, boot.outcome, boot.version, boot.failures) == ("ready", "ready", "0.20.2", ())
    found = boot.speculation
    assert (found.algorithm, found.num_steps, found.state) == ("MTP", 3, "active")
    assert found.accept_length is not None
    assert found.accept_length.mean == pytest.approx(2.8, abs=0.5)
    assert (status, stopped.outcome, stopped.failures) == (0, "stopped", ())


def test_its_processes_are_those_of_the_v1_engine(tmp_path: Path) -> None:
    with serving(tmp_path) as standin:
        titles = {argv for _, argv in standin.children().values()}
    assert {f"VLLM::Worker_TP{rank}" for rank in range(4)} | {"VLLM::EngineCore"} <= titles


def test_counters_say_what_answers_and_windows_say(tmp_path: Path) -> None:
    with serving(tmp_path, *SPECULATION, "--per-request-spec-decode-metrics", "summary", version="0.29.0") as standin:
        before = ENGINE.counters(standin.ask("/metrics")[1].decode())
        _, answer = complete(standin)
        after = ENGINE.counters(standin.ask("/metrics")[1].decode())
    assert before is not None
    assert after is not None
    own = read_answer(answer)
    assert own.speculation.verify_calls == after.drafts - before.drafts
    assert own.speculation.accepted_tokens == after.accepted - before.accepted
    assert own.completion_tokens == 256


def test_without_speculation_nothing_of_it_is_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as standin:
        assert complete(standin)[0] == 200
        standin.wait_for("Avg generation throughput")
        metrics = read_metrics(standin.ask("/metrics")[1].decode(), "vllm")
        boot = read(standin)
    assert metrics.speculation.state is None
    assert (boot.speculation.state, "SpecDecoding" in standin.text) == ("off", False)


def test_statistics_can_be_switched_off(tmp_path: Path) -> None:
    with serving(tmp_path, *SPECULATION, "--disable-log-stats") as standin:
        complete(standin)
        time.sleep(0.2)
        assert b"vllm:" not in standin.ask("/metrics")[1]
        assert "SpecDecoding" not in standin.text


def test_its_endpoints_are_those_of_the_openai_server(tmp_path: Path) -> None:
    with serving(tmp_path, "--served-model-name", "qwen", "other", "--api-key", "k") as standin:
        key = {"authorization": "Bearer k"}
        assert standin.ask("/health") == (200, b"")
        assert standin.ask("/version") == (200, b'{"version":"0.20.2"}')
        assert standin.ask("/v1/models")[0] == 401
        assert json.loads(standin.ask("/v1/models", headers=key)[1])["data"][0]["id"] == "qwen"
        assert standin.ask("/server_info")[0] == standin.ask("/generate", {})[0] == 404
        chat = ENGINE.chat("qwen", "What is 17 + 25? Answer with the number only.", 16, stream=False)
        status, body = standin.ask(chat.path, chat.body, headers=key)
        reply = ENGINE.reply(body)
        wrong = ENGINE.chat("qwen-2", "x", 4, stream=False)
        assert standin.ask(wrong.path, wrong.body, headers=key)[0] == 404
    assert reply is not None
    assert (status, reply.text, reply.finish_reason) == (200, "42", "stop")
    assert read_answer(json.loads(body)).engine == "vllm"
    assert "'api_key': ['__REDACTED__']" in standin.text


FAULTS = [
    pytest.param("crash-loading-draft", "weights-mismatch", 1, id="crash-loading-draft"),
    pytest.param("kv-too-small", "kv-cache-too-small", 1, id="kv-too-small"),
    pytest.param("cuda-oom", "cuda-oom", 1, id="cuda-oom"),
    pytest.param("graph-capture-failed", "graph-capture-failed", 1, id="graph-capture-failed"),
    pytest.param("nccl-failed", "nccl", 1, id="nccl-failed"),
]


@pytest.mark.parametrize(("fault", "code", "status"), FAULTS)
def test_a_fault_is_found_as_itself(tmp_path: Path, fault: str, code: str, status: int) -> None:
    with vllm(tmp_path, *SPECULATION, faults=[{"fault": fault}]) as standin:
        assert standin.end() == status
        boot = read(standin)
    assert boot.outcome == "failed"
    assert next(entry.code for entry in boot.failures).startswith(code)


def test_a_checkpoint_without_mtp_tensors_accepts_nothing(tmp_path: Path) -> None:
    module = ("-m", "vllm", "serve", QWEN_WITHOUT_MTP.path)
    with serving(tmp_path, *SPECULATION, module=module) as standin:
        complete(standin)
        standin.wait_for("SpecDecoding metrics")
        assert read(standin).speculation.state == "useless"


def test_a_lost_core_ends_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, faults=[{"fault": "exit-after-ready", "seconds": 0.05}]) as standin:
        assert standin.end() == 0
        assert "Engine core proc EngineCore died unexpectedly" in standin.text


def test_a_stop_cuts_off_requests_and_leaves_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, settings={**QUICK, "forward_seconds": 0.05}) as standin:
        children = standin.children()
        assert standin.stop(signal.SIGTERM) == 0
        assert children
        assert standin.left(0) == {}


@pytest.mark.parametrize(
    ("words", "version", "status", "said"),
    [
        pytest.param(("--help=all",), "0.20.2", 0, "--speculative-config SPECULATIVE_CONFIG", id="help-of-all"),
        pytest.param(("--help",), "0.20.2", 0, "Config Groups", id="help-of-groups"),
        pytest.param(("--help",), "0.8.5", 0, "--swap-space", id="old-help"),
        pytest.param(("--help=all",), "0.8.5", 2, "ignored explicit argument 'all'", id="old-help-of-all"),
        pytest.param(("/m", "--foo"), "0.20.2", 2, "error: unrecognized arguments: --foo", id="unknown-flag"),
        pytest.param(("/none",), "0.20.2", 1, "OSError", id="no-such-model"),
        pytest.param((QWEN.path, "--speculative_config.method", "mtpp"), "0.20.2", 1, "mtpp", id="unknown-method"),
        pytest.param((QWEN.path, "-sc", "{method: mtp}"), "0.20.2", 2, "cannot be converted", id="json-without-quotes"),
    ],
)
def test_the_command_line_is_vllms(
    tmp_path: Path, words: tuple[str, ...], version: str, status: int, said: str
) -> None:
    with started(tmp_path, *words, module=("-m", "vllm", "serve"), version=version, engine="vllm") as standin:
        assert standin.end() == status
        assert said in standin.text


def test_the_installation_tells_its_version_without_a_start(tmp_path: Path) -> None:
    with vllm(tmp_path) as standin:
        standin.kill()
    argv = ENGINE.version_argv((str(tmp_path / "opt/vllm/bin/vllm"), "serve"))
    assert argv is not None
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == "0.20.2"
