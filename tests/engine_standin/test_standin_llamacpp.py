"""The stand-in as llama-server, a real process: its command line, lines, endpoints and ends, read by the project's own
readers."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from state.engines.llamacpp.rendering import RENDERING
from state.engines.llamacpp.startup import read_startup
from state.engines.llamacpp.verification import ENGINE
from state.inspection.answer import read_answer
from state.inspection.log import read_log
from state.inspection.metrics import read_metrics
from state.inspection.report import Boot
from tasks.practice.engine.install import QWEN_DRAFT_GGUF, QWEN_GGUF
from tests.engine_standin.standin_process import QUICK, StandIn, started

READY = "listening on http"
MODEL = ("-m", QWEN_GGUF.path)
SPECULATION = ("-md", QWEN_DRAFT_GGUF.path, "--spec-type", "draft-simple", "--spec-draft-n-max", "4")
HEAD = ("--spec-type", "draft-mtp", "--spec-draft-n-max", "2")


@contextmanager
def llama(root: Path, *arguments: str, **options: Any) -> Iterator[StandIn]:
    chosen = {"module": (str(root / "opt/llamacpp/site/llama-server"),), "engine": "llamacpp", **options}
    chosen.setdefault("version", "b9849")
    with started(root, *arguments, **chosen) as standin:
        yield standin


@contextmanager
def serving(root: Path, *arguments: str, **options: Any) -> Iterator[StandIn]:
    with llama(root, *MODEL, *arguments, **options) as standin:
        standin.wait_for(READY)
        yield standin
        assert "asyncio" not in standin.text, standin.text[-3000:]


def read(standin: StandIn) -> Boot:
    (boot,) = read_log(standin.text.encode().splitlines(keepends=True), "llamacpp").boots
    return boot


def complete(standin: StandIn, **changes: Any) -> tuple[int, dict[str, Any]]:
    asked = ENGINE.generation("Describe how bread is made.", 256, exact=True)
    status, body = standin.ask(asked.path, {**(asked.body or {}), **changes})
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("speculation", "version"),
    [
        pytest.param(SPECULATION, "b9849", id="draft-model"),
        pytest.param(HEAD, "b9849", id="mtp-head"),
        pytest.param(HEAD, "b11222", id="newest"),
        pytest.param(("-md", QWEN_DRAFT_GGUF.path, "--draft-max", "4"), "b8200", id="older"),
    ],
)
def test_a_healthy_start_is_read_as_ready_and_active(
    tmp_path: Path, speculation: tuple[str, ...], version: str
) -> None:
    with serving(tmp_path, *speculation, version=version) as standin:
        for _ in range(2):
            assert complete(standin)[0] == 200
        standin.wait_for("draft acceptance")
        boot = read(standin)
        status = standin.stop()
        stopped = read(standin)
    assert (boot.stage, boot.outcome, boot.failures) == ("ready", "ready", ())
    assert (boot.speculation.state, boot.speculation.samples) == ("active", 2)
    assert (status, stopped.outcome, stopped.failures) == (0, "stopped", ())


def test_answers_log_and_counters_say_the_same(tmp_path: Path) -> None:
    with serving(tmp_path, *SPECULATION, "--metrics", version="b11222") as standin:
        _, answer = complete(standin)
        startup = read_startup(standin.text.splitlines())
        metrics = read_metrics(standin.ask("/metrics")[1].decode(), "llamacpp").speculation
    own = read_answer(answer).speculation
    assert startup.requests == [(own.accepted_tokens, own.drafted_tokens)]
    assert (metrics.accepted_tokens, metrics.drafted_tokens) == (own.accepted_tokens, own.drafted_tokens)
    assert own.drafted_tokens
    assert startup.statistics == {"draft-simple": (own.drafted_tokens // 4, own.drafted_tokens)}


def test_every_argument_that_is_shown_is_shown_as_it_is(tmp_path: Path) -> None:
    shown = ("-c", "32768", "-np", "4", "-fa", "on", "-ctk", "q8_0", "-ngl", "20", "-lv", "4")
    with serving(tmp_path, *shown, *SPECULATION) as standin:
        startup = read_startup(standin.text.splitlines())
        props = json.loads(standin.ask("/props")[1])
    assert (startup.slots, startup.slot_context, startup.unified) == (4, 8192, False)
    assert startup.arguments == {"flash_attn": "on", "cache_type_k": "q8_0", "cache_type_v": "f16", "draft_max": 4}
    assert (startup.layers, startup.draft, startup.built) == ((20, 49), startup.draft, True)
    assert QWEN_DRAFT_GGUF.path in startup.draft
    assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (4, 8192)
    assert (props["model_path"], props["build_info"].partition("-")[0]) == (QWEN_GGUF.path, "b9849")


def test_without_speculation_nothing_of_it_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, "--metrics") as standin:
        _, answer = complete(standin)
        standin.wait_for("eval time")
        startup = read_startup(standin.text.splitlines())
        metrics = read_metrics(standin.ask("/metrics")[1].decode(), "llamacpp")
    assert "draft_n" not in answer["timings"]
    assert (startup.served, startup.requests, startup.draft, metrics.speculation.state) == (1, [], "", None)


def test_a_file_without_mtp_layers_serves_without_speculation(tmp_path: Path) -> None:
    with llama(tmp_path, "-m", QWEN_DRAFT_GGUF.path, *HEAD) as standin:
        standin.wait_for(READY)
        complete(standin)
        startup = read_startup(standin.text.splitlines())
    assert "doesn't contain MTP layers" in startup.off
    assert (startup.built, startup.requests) == (False, [])


def test_the_port_is_open_while_the_model_is_loaded(tmp_path: Path) -> None:
    slow = [{"fault": "slow-load", "stage": "weights", "seconds": 1.5}]
    with llama(tmp_path, *MODEL, faults=slow) as standin:
        standin.wait_for("loading model '")
        status, body = standin.ask("/health")
        assert (status, json.loads(body)["error"]["message"]) == (503, "Loading model")
        assert read(standin).outcome == "starting"
        standin.wait_for(READY)
        assert standin.ask("/health") == (200, b'{"status":"ok"}')


def test_its_endpoints_are_those_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, "-a", "qwen", environment={"LLAMA_API_KEY": "k"}) as standin:
        key = {"authorization": "Bearer k"}
        assert standin.ask("/health")[0] == 200
        assert standin.ask("/props")[0] == 401
        assert json.loads(standin.ask("/v1/models")[1])["data"][0]["id"] == "qwen"
        assert standin.ask("/metrics", headers=key)[0] == 501
        assert standin.ask("/server_info", headers=key)[0] == standin.ask("/generate", {}, headers=key)[0] == 404
        chat = ENGINE.chat("qwen", "What is 17 + 25? Answer with the number only.", 16, stream=False)
        status, body = standin.ask(chat.path, chat.body, headers=key)
        streamed = ENGINE.chat("qwen", "What is 17 + 25? Answer with the number only.", 16, stream=True)
        stream = ENGINE.reply(standin.ask(streamed.path, streamed.body, headers=key)[1])
    reply = ENGINE.reply(body)
    assert reply is not None
    assert stream is not None
    assert (status, reply.text, reply.finish_reason, stream.text) == (200, "42", "stop", "42")
    assert read_answer(json.loads(body)).engine == "llamacpp"


FAULTS = [
    pytest.param("crash-loading-draft", "weights-mismatch", id="crash-loading-draft"),
    pytest.param("kv-too-small", "kv-cache-too-small", id="kv-too-small"),
    pytest.param("cuda-oom", "cuda-oom", id="cuda-oom"),
]


@pytest.mark.parametrize(("fault", "code"), FAULTS)
def test_a_fault_is_found_as_itself(tmp_path: Path, fault: str, code: str) -> None:
    with llama(tmp_path, *MODEL, *SPECULATION, faults=[{"fault": fault}]) as standin:
        assert standin.end() == 1
        boot = read(standin)
    assert boot.outcome == "failed"
    assert next(entry.code for entry in boot.failures) == code


def test_an_abort_while_serving_ends_it(tmp_path: Path) -> None:
    with serving(tmp_path, faults=[{"fault": "exit-after-ready", "seconds": 0.05}]) as standin:
        assert standin.end() == -signal.SIGABRT
        assert read(standin).failures


def test_a_taken_port_ends_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as first, llama(tmp_path, *MODEL, port=first.port) as second:
        assert second.end() == 1
        assert [entry.code for entry in read(second).failures] == ["port-in-use"]


def test_a_stop_cuts_off_requests(tmp_path: Path) -> None:
    with serving(tmp_path, settings={**QUICK, "forward_seconds": 0.05}) as standin:
        assert standin.children() == {}
        assert standin.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("words", "version", "status", "said"),
    [
        pytest.param(("--help",), "b9849", 0, "-c,    --ctx-size N", id="help"),
        pytest.param(("--foo",), "b9849", 1, "error: invalid argument: --foo", id="unknown-flag"),
        pytest.param((*MODEL, "--draft-max", "4"), "b9849", 1, "the argument has been removed", id="removed"),
        pytest.param((*MODEL, "--spec-type", "draft-mtp"), "b8200", 1, "invalid argument: --spec-type", id="not-yet"),
        pytest.param((*MODEL, "-c", "many"), "b9849", 1, "error while handling argument", id="no-number"),
        pytest.param(("-m", "/none.gguf"), "b9849", 1, "failed to open GGUF file", id="no-such-file"),
    ],
)
def test_the_command_line_is_the_servers(
    tmp_path: Path, words: tuple[str, ...], version: str, status: int, said: str
) -> None:
    with llama(tmp_path, *words, version=version) as standin:
        assert standin.end() == status
        assert said in standin.text


def test_its_help_names_what_it_takes_and_what_was_removed(tmp_path: Path) -> None:
    with llama(tmp_path, "--help") as standin:
        standin.end()
        told = standin.text
    server = "/opt/llamacpp/bin/llama-server"
    sound = (server, *MODEL, *SPECULATION, "-ngl", "99", "--no-jinja", "-np", "2", "--metrics")
    assert RENDERING.unknown_flags(sound, told) == []
    (gone,) = RENDERING.unknown_flags((server, "--draft-max", "4"), told)
    assert "--spec-draft-max" in gone.suggestion or "removed" in gone.suggestion


@pytest.mark.parametrize("version", ["b9849", "b11222"])
def test_the_installation_tells_its_build_without_a_start(tmp_path: Path, version: str) -> None:
    with llama(tmp_path, "--version", version=version) as standin:
        standin.kill()
    argv = ENGINE.version_argv((str(tmp_path / "opt/llamacpp/bin/llama-server"),))
    assert argv is not None
    said = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ENGINE.read_version(said.stdout, said.stderr) == version
