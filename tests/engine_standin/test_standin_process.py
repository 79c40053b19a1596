"""The stand-in as a real process: its lines, endpoints, signals and faults."""

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from state.smoke import degenerate
from tasks.practice.engine.install import QWEN, QWEN_WITHOUT_MTP
from tests.engine_standin.standin_process import MODEL, QUICK, READY, SPECULATION, free_port, serving, started

PREFIX = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)((?: (?:DP|TP)\d+)*)\] ")
BATCH = re.compile(r"(Prefill|Decode) batch(?: \[(\d+)\])?(?:\.|,) (.*?)(?:, )?$")
PAIR = re.compile(r"([#A-Za-z][^:,]*?): (-?\d+(?:\.\d+)?%?|True|False|nan|inf)(?=,|$)")
DRAFT = re.compile(r"type=\w*(?:MTP|NextN|Eagle3?)\b.*?mem usage=([\d.]+) GB\.")
LONG = {"max_new_tokens": 256, "ignore_eos": True}
OLD_STRATEGY = ("--mamba-scheduler-strategy", "extra_buffer")
V2 = {"SGLANG_ENABLE_SPEC_V2": "1"}


def decode_records(text: str) -> list[dict[str, str]]:
    found = []
    for line in text.splitlines():
        if (batch := BATCH.search(line)) and batch[1] == "Decode":
            assert PREFIX.match(line), line
            found.append(dict(PAIR.findall(batch[3])))
    return found


@pytest.mark.parametrize(
    ("version", "more", "environment", "shape", "graphs"),
    [
        pytest.param("0.5.9", OLD_STRATEGY, V2, "ServerArgs(", "Capture cuda graph begin", id="0.5.9"),
        pytest.param("0.5.11", OLD_STRATEGY, {}, "ServerArgs(", "Capture draft cuda graph begin", id="0.5.11"),
        pytest.param("0.5.14", (), {}, "ServerArgs(", "Capture target verify CUDA graph begin", id="0.5.14"),
        pytest.param("0.5.20", (), {}, "{'model_path'", "num_tokens_per_req=6", id="0.5.20"),
        pytest.param("0.5.23", (), {}, "{'model_path'", "num_tokens_per_req=6", id="0.5.23"),
    ],
)
def test_a_healthy_start_with_speculation(
    tmp_path: Path, version: str, more: Sequence[str], environment: Mapping[str, str], shape: str, graphs: str
) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION, *more, version=version, environment=environment) as standin:
        answer = standin.generate("Describe how bread is made.", **LONG)
        text = standin.text
        assert standin.stop() == -signal.SIGKILL
    assert f"server_args={shape}" in text
    assert re.search(r"speculative_algorithm'?(?:=|: )'EAGLE'", text)
    assert [float(gb) for gb in DRAFT.findall(text)] == [1.91] * 4
    assert graphs in text
    assert text.index("max_total_num_tokens=") < text.index("Uvicorn running on") < text.index(READY)
    assert decode_records(text)
    assert all(float(record["accept len"]) > 1.5 for record in decode_records(text))
    meta = answer["meta_info"]
    assert meta["completion_tokens"] == 256
    assert 0 < meta["spec_verify_ct"] < 255
    assert meta["spec_accept_length"] == pytest.approx(256 / meta["spec_verify_ct"])
    assert degenerate(answer["text"]) is False


def test_the_process_tree_and_who_prints_what(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION) as standin:
        children = standin.children()
        assert sorted(argv for _, argv in children.values()) == [f"sglang::scheduler_TP{rank}" for rank in range(4)]
        assert {comm for comm, _ in children.values()} == {"sglang::schedul"}
        assert standin.stop() == -signal.SIGKILL
        assert not standin.left(0)
        assert "SIGTERM received. signum=None frame=None. Draining requests and shutting down..." in standin.text


def test_a_start_without_speculation(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin:
        meta = standin.generate("Describe how bread is made.", **LONG)["meta_info"]
        text = standin.text
    assert not [name for name in meta if name.startswith("spec_")]
    assert not DRAFT.findall(text)
    assert "Capture target decode CUDA graph begin" in text
    assert "intermediate_ssm_state_cache" not in text
    assert decode_records(text)
    assert all("accept len" not in record for record in decode_records(text))


def test_endpoints(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION, "--enable-metrics", "--served-model-name", "qwen") as standin:
        standin.generate("Describe how bread is made.", **LONG)
        assert standin.ask("/health") == (200, b"")
        assert standin.ask("/health_generate") == (200, b"")
        models = json.loads(standin.ask("/v1/models")[1])["data"]
        assert (models[0]["id"], models[0]["max_model_len"]) == ("qwen", 262_144)
        assert json.loads(standin.ask("/model_info")[1])["architectures"] == [QWEN.architecture]
        info = json.loads(standin.ask("/server_info")[1])
        state = info["internal_states"][0]
        assert (info["version"], info["speculative_algorithm"], info["speculative_num_steps"]) == ("0.5.20", "EAGLE", 5)
        assert state["memory_usage"]["graph"]["target_verify"] > 0
        assert state["avg_spec_accept_length"] > 1.5
        metrics = standin.ask("/metrics")[1].decode()
        gauge = re.search(r"^sglang:spec_accept_length\{.*\} ([\d.]+)$", metrics, re.M)
        assert gauge
        assert float(gauge[1]) > 1.5
        assert re.search(r"^sglang:spec_verify_calls_total\{.*\} [1-9]", metrics, re.M)
        assert standin.ask("/nope") == (404, b'{"detail":"Not Found"}')
        assert standin.ask("/generate")[0] == 405
        assert standin.ask("/generate", {"sampling_params": {}})[0] == 400
        standin.ask("/get_server_info")
        assert "Endpoint '/get_server_info' is deprecated" in standin.text
        assert '"GET /v1/models HTTP/1.1" 200 OK' in standin.text


def chat(standin: Any, prompt: str, **more: object) -> tuple[int, bytes]:
    body = {"model": "no-such-model", "messages": [{"role": "user", "content": prompt}], "temperature": 0, **more}
    answer: tuple[int, bytes] = standin.ask("/v1/chat/completions", body)
    return answer


def test_chat_plain_and_streamed(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION) as standin:
        status, body = chat(standin, "What is 17 + 25? Answer with the number only.")
        whole = json.loads(body)
        assert status == 200
        assert whole["model"] == "no-such-model"  # the engine echoes any name
        assert whole["choices"][0]["message"]["content"] == "42"
        assert whole["choices"][0]["finish_reason"] == "stop"
        _, body = chat(
            standin, "Tell me about rivers.", stream=True, max_tokens=40, stream_options={"include_usage": True}
        )
        events = [line[6:] for line in body.decode().split("\n\n") if line.startswith("data: ")]
        assert events[-1] == "[DONE]"
        chunks = [json.loads(event) for event in events[:-1]]
        assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
        assert chunks[-2]["choices"][0]["finish_reason"] == "length"
        assert chunks[-1]["usage"]["completion_tokens"] == 40
        assert len(chunks) > 5
        assert chat(standin, "", messages=[])[0] == 400
        _, body = standin.ask(
            "/v1/completions", {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
        )
        assert json.loads(body)["choices"][0]["text"] == " Paris"
        _, body = standin.ask(
            "/generate", {"text": "Rivers", "stream": True, "sampling_params": {"max_new_tokens": 40}}
        )
        last = body.decode().split("\n\n")[-3]
        assert json.loads(last[6:])["meta_info"]["spec_verify_ct"] > 0


def test_keys(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, "--api-key", "sk-practice", "--enable-metrics") as standin:
        assert standin.ask("/server_info") == (401, b'{"error":"Unauthorized"}')
        assert standin.ask("/health")[0] == 200
        assert standin.ask("/metrics")[0] == 200
        assert standin.ask("/server_info", headers={"Authorization": "Bearer sk-practice"})[0] == 200


def test_kept_connections_and_pipelined_requests(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin, socket.create_connection(("127.0.0.1", standin.port)) as link:
        one = b"GET /model_info HTTP/1.1\r\nHost: x\r\n\r\n"
        chunked = b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        body = b'{"text": "What is 2 + 3?", "sampling_params": {"temperature": 0}}'
        link.sendall(one + one + chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        received = b""
        while part := link.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert b'"text":" 5"' in received


def test_a_kept_connection_takes_one_request_after_another(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin, httpx.Client(base_url=f"http://127.0.0.1:{standin.port}") as link:
        for _ in range(5):
            assert link.get("/health").status_code == 200
            assert link.post("/generate", json={"text": "What is 2 + 3?"}).json()["text"] == " 5"
        assert standin.text.count('"POST /generate HTTP/1.1" 200 OK') == 5
        assert len(set(re.findall(r'(127.0.0.1:\d+) - "POST /generate', standin.text))) == 1
        assert "Traceback" not in standin.text


def test_a_stop_waits_for_requests_under_way(tmp_path: Path) -> None:
    slow = {**QUICK, "forward_seconds": 0.004}
    with (
        serving(tmp_path, *MODEL, settings=slow) as standin,
        socket.create_connection(("127.0.0.1", standin.port)) as link,
    ):
        body = b'{"text": "Rivers", "sampling_params": {"max_new_tokens": 100, "ignore_eos": true}}'
        link.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        standin.wait_for("#running-req: 1")
        standin.process.send_signal(signal.SIGTERM)
        standin.wait_for("Remaining number of requests 1.")
        assert standin.ask("/health")[0] == 503
        assert link.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert standin.end() == -signal.SIGKILL


def test_a_client_that_goes_away_frees_its_request(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, faults=[{"fault": "hang-after-ready"}]) as standin:
        with pytest.raises(TimeoutError):
            standin.ask("/generate", {"text": "Rivers"}, timeout=0.2)
        assert standin.stop() == -signal.SIGKILL
        assert "Remaining number of requests 0." in standin.text


def test_interrupt_ends_well(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin:
        assert standin.stop(signal.SIGINT) == 0
        assert "Finished server process" in standin.text


def test_a_stop_while_loading_ends_by_the_signal(tmp_path: Path) -> None:
    with started(tmp_path, *MODEL, faults=[{"fault": "slow-load", "seconds": 30}]) as standin:
        standin.wait_for("Load weight begin")
        assert standin.stop() == -signal.SIGTERM


def test_a_taken_port_is_told_after_everything_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with started(tmp_path, *MODEL, port=holder.getsockname()[1]) as standin:
            assert standin.end() == 1
            assert (
                standin.text.index("max_total_num_tokens=")
                < standin.text.index("[Errno 98]")
                < standin.text.index(READY)
            )
            assert "Uvicorn running on" not in standin.text


def test_a_stopped_scheduler_hangs_the_engine_until_it_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin:
        first = next(pid for pid, (_, argv) in standin.children().items() if argv.endswith("TP0"))
        subprocess.run(["kill", "-STOP", str(first)], check=True)
        assert standin.ask("/health")[0] == 503
        assert standin.ask("/v1/models")[0] == 200
        assert "Health check failed. Server couldn't get a response from detokenizer" in standin.text
        subprocess.run(["kill", "-CONT", str(first)], check=True)
        assert standin.ask("/health")[0] == 200


def test_a_killed_scheduler_takes_the_server_along(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin:
        victim = next(pid for pid, (_, argv) in standin.children().items() if argv.endswith("TP2"))
        subprocess.run(["kill", "-KILL", str(victim)], check=True)
        assert standin.end() == -signal.SIGKILL
        assert f"Subprocess scheduler_2 (pid={victim}) crashed with exit code -9." in standin.text


@pytest.mark.parametrize(
    ("fault", "words", "status"),
    [
        pytest.param(
            {"fault": "crash-loading-draft", "rank": 2},
            " TP2] Scheduler hit an exception: Traceback",
            -9,
            id="crash-loading-draft",
        ),
        pytest.param(
            {"fault": "kv-too-small"},
            "Not enough memory. Please try to increase --mem-fraction-static.",
            -9,
            id="kv-too-small",
        ),
        pytest.param(
            {"fault": "cuda-oom"}, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", -9, id="cuda-oom"
        ),
        pytest.param(
            {"fault": "graph-capture-failed"}, "Exception: Capture cuda graph failed:", -9, id="graph-capture-failed"
        ),
        pytest.param({"fault": "nccl-failed"}, "NCCL error in: ProcessGroupNCCL.cpp", -9, id="nccl-failed"),
        pytest.param(
            {"fault": "host-oom"}, "Rank 0 scheduler died during initialization (exit code: -9).", -9, id="host-oom"
        ),
        pytest.param(
            {"fault": "warm-up-failed"}, "Initialization failed. warmup error: Traceback", -9, id="warm-up-failed"
        ),
        pytest.param(
            {"fault": "exit-after-ready", "seconds": 0.05}, "crashed with exit code -9.", -9, id="exit-after-ready"
        ),
    ],
)
def test_faults_that_end_the_process(tmp_path: Path, fault: Mapping[str, object], words: str, status: int) -> None:
    with started(tmp_path, *MODEL, *SPECULATION, faults=[fault]) as standin:
        assert standin.end() == status
        assert words in standin.text
        assert (READY in standin.text) == (fault["fault"] == "exit-after-ready")


def test_a_fault_only_when_its_arguments_match(tmp_path: Path) -> None:
    fault = {"fault": "crash-loading-draft", "when": {"speculative_num_steps": 7}}
    with serving(tmp_path, *MODEL, *SPECULATION, faults=[fault]) as standin:
        assert standin.ask("/health")[0] == 200


def test_flag_ignored(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION, faults=[{"fault": "flag-ignored"}]) as standin:
        meta = standin.generate("Rivers", **LONG)["meta_info"]
        info = json.loads(standin.ask("/server_info")[1])
    assert "spec_verify_ct" not in meta
    assert info["speculative_algorithm"] is None


def test_wrong_mem_fraction(tmp_path: Path) -> None:
    fault = {"fault": "wrong-mem-fraction", "value": 0.8}
    with serving(tmp_path, *MODEL, *SPECULATION, "--mem-fraction-static", "0.75", faults=[fault]) as standin:
        assert json.loads(standin.ask("/server_info")[1])["mem_fraction_static"] == 0.8


def test_fewer_drafts_on_one_rank(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION, faults=[{"fault": "fewer-drafts-on-one-rank"}]) as standin:
        assert DRAFT.findall(standin.text) == ["1.91"] * 3


@pytest.mark.parametrize(
    ("health", "status", "most"),
    [pytest.param("200", 200, 1.0, id="health stays 200"), pytest.param("503", 503, 5.0, id="health turns 503")],
)
def test_hang_after_ready(tmp_path: Path, health: str, status: int, most: float) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION, faults=[{"fault": "hang-after-ready", "health": health}]) as standin:
        begun = time.monotonic()
        assert standin.ask("/health")[0] == status
        assert time.monotonic() - begun < most
        assert standin.ask("/v1/models")[0] == 200
        with pytest.raises(TimeoutError):
            standin.ask("/generate", {"text": "Rivers"}, timeout=0.3)


def test_garbage_reads_as_high_acceptance(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL, *SPECULATION, faults=[{"fault": "garbage-answers"}]) as standin:
        answer = standin.generate("What is 17 + 25?", **LONG)
        assert min(float(record["accept len"]) for record in decode_records(standin.text)) > 5.0
    assert degenerate(answer["text"]) is True


@pytest.mark.parametrize(
    ("model", "faults"),
    [
        pytest.param(QWEN.path, [{"fault": "accept-nothing"}], id="fault"),
        pytest.param(QWEN_WITHOUT_MTP.path, [], id="checkpoint without MTP weights"),
    ],
)
def test_nothing_accepted(tmp_path: Path, model: str, faults: list[dict[str, object]]) -> None:
    words = [*("--model-path", model, "--tp", "4"), *SPECULATION[:-2]]
    with serving(tmp_path, *words, faults=faults) as standin:
        meta = standin.generate("Rivers", **LONG)["meta_info"]
        records = decode_records(standin.text)
    assert meta["spec_verify_ct"] == 255
    assert {record["accept len"] for record in records} == {"1.00"}


def test_slow_stop_leaves_a_process_that_holds_the_port(tmp_path: Path) -> None:
    fault = {"fault": "slow-stop-leftover", "seconds": 0.2, "leftover_seconds": 20}
    with serving(tmp_path, *MODEL, faults=[fault]) as standin:
        assert standin.stop() == -signal.SIGKILL
        ((leftover, (_, argv)),) = standin.left(1).items()
        assert argv == "sglang::scheduler_TP0"
        subprocess.run(["kill", "-TERM", str(leftover)], check=True)
        time.sleep(0.1)
        assert leftover in standin.children()
        with socket.socket() as probe, pytest.raises(OSError, match="Address already in use"):
            probe.bind(("127.0.0.1", standin.port))


def test_an_old_process_goes_on_logging(tmp_path: Path) -> None:
    fault = {"fault": "old-process-keeps-logging", "seconds": 20, "interval": 0.02}
    with serving(tmp_path, *MODEL, *SPECULATION, faults=[fault]) as standin:
        standin.stop()
        before = len(decode_records(standin.text))
        deadline = time.monotonic() + 5
        while len(decode_records(standin.text)) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(decode_records(standin.text)) >= before + 3
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", standin.port))


@pytest.mark.parametrize(
    ("fraction", "words"),
    [
        pytest.param("0.6", "Not enough memory. Please try to increase --mem-fraction-static.", id="too low"),
        pytest.param("0.99", "CUDA out of memory", id="too high"),
    ],
)
def test_memory_fractions_that_cannot_work(tmp_path: Path, fraction: str, words: str) -> None:
    with started(tmp_path, *MODEL, *SPECULATION, "--mem-fraction-static", fraction) as standin:
        assert standin.end() == -signal.SIGKILL
        assert words in standin.text


@pytest.mark.parametrize(
    ("words", "status", "last"),
    [
        pytest.param(
            ("--speculative-bogus", "3"),
            2,
            "sglang serve: error: unrecognized arguments: --speculative-bogus 3",
            id="unknown flag",
        ),
        pytest.param(
            ("--speculative-algorithm", "MTP"),
            1,
            "ValueError: Unknown speculative algorithm name: MTP",
            id="unknown algorithm",
        ),
        pytest.param(
            (*SPECULATION[:-1], "/shared/models/none"),
            1,
            "OSError: Incorrect path_or_model_id: '/shared/models/none'. Please provide either the path to a local"
            " folder or the repo_id of a model on the Hub.",
            id="no such draft",
        ),
        pytest.param(("--help",), 0, "", id="help"),
    ],
)
def test_refusals(tmp_path: Path, words: Sequence[str], status: int, last: str) -> None:
    with started(tmp_path, *MODEL, *words) as standin:
        assert standin.end() == status
        lines = standin.text.splitlines()
    if last:
        assert lines[-1].split(" --port")[0] == last
    else:
        assert any("--speculative-algorithm" in line for line in lines)


def test_version_and_console_script(tmp_path: Path) -> None:
    with started(tmp_path, *MODEL, module=("-m", "sglang", "serve")) as standin:
        standin.wait_for(READY)
        assert "UserWarning" not in standin.text
    programs = tmp_path / "opt/sglang/bin"
    code = "import importlib.metadata as m, sglang; print(m.version('sglang'), sglang.__version__)"
    found = subprocess.run([programs / "python", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "0.5.20 0.5.20\n"
    found = subprocess.run([programs / "sglang", "version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("sglang 0.5.20 (interlock's stand-in")


def test_a_quiet_log_level_leaves_the_severe_lines(tmp_path: Path) -> None:
    with started(tmp_path, *MODEL, "--log-level", "error", faults=[{"fault": "cuda-oom"}]) as standin:
        assert standin.end() == -signal.SIGKILL
        assert "server_args=" not in standin.text
        assert "Scheduler hit an exception" in standin.text


def test_the_models_are_read_where_the_root_says(tmp_path: Path) -> None:
    with serving(tmp_path, *MODEL) as standin:
        assert f"model_path': '{QWEN.path}'" in standin.text
        assert str(tmp_path) not in standin.text


def test_a_quick_start(tmp_path: Path) -> None:
    with started(tmp_path, *MODEL, "--bogus", port=free_port()) as standin:
        standin.end()
        begun = time.perf_counter()
        subprocess.run([tmp_path / "opt/sglang/bin/sglang", "serve", "--help"], capture_output=True, check=True)
        assert time.perf_counter() - begun < 1.0
