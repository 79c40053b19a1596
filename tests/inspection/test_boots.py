# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Which boot a line belongs to, and how boots end."""

import json

import pytest

from state.inspection.log import read_log
from state.inspection.report import Boot
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY, VLLM_START

DECODE = "[2026-10-07 10:01:0{s} TP0] Decode batch, #running-req: 2, #token: 640, token usage: 0.01, accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0"
SIGTERM = "[2026-10-07 10:02:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
GRACEFUL = (
    "[2026-10-07 10:02:01] Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[]."
)
KILL_TREE = "[2026-10-07 10:02:02] kill_process_tree called: parent_pid=607, include_parent=True, pid=607"
MAX_RUNNING = "[2026-10-07 10:03:00] Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting --max-running-requests."


def boots(*lines: str) -> tuple[Boot, ...]:
    return read_log([f"{line}\n".encode() for text in lines for line in text.split("\n")]).boots


def short(pid: int, line: str) -> str:
    return f"Oct 07 10:00:00 gpu-a python3[{pid}]: {line}"


def systemd(line: str) -> str:
    return f"Oct 07 10:00:00 gpu-a systemd[1]: {line}"


def record(message: str, invocation: str, pid: int = 500, **more: str) -> str:
    return json.dumps({"__CURSOR": "s", "__REALTIME_TIMESTAMP": "1791460800100000", "_PID": str(pid), "SYSLOG_IDENTIFIER": "python3",
                       "_SYSTEMD_UNIT": "sglang.service", "_SYSTEMD_INVOCATION_ID": invocation * 32, "MESSAGE": message, **more})  # fmt: skip


def about(message: str, invocation: str) -> str:
    return json.dumps({"__CURSOR": "s", "_PID": "1", "SYSLOG_IDENTIFIER": "systemd", "UNIT": "sglang.service", "_SYSTEMD_UNIT": "init.scope",
                       "INVOCATION_ID": invocation * 32, "MESSAGE": message})  # fmt: skip


def codes(boot: Boot) -> list[str]:
    return [entry.code for entry in boot.failures]


def test_a_second_start_after_ready_is_a_second_boot_even_without_a_stop() -> None:
    first, second = boots(SGLANG_ARGS, SGLANG_READY, DECODE.format(s=1), MAX_RUNNING, SGLANG_ARGS)
    assert (first.outcome, first.adjustments, first.speculation.samples) == ("ready", (), 1)
    assert (second.outcome, [a.code for a in second.adjustments]) == ("starting", ["max-running-requests"])


def test_ranks_with_their_own_pids_are_one_boot() -> None:
    loads = [short(100 + r, f"[2026-10-07 10:00:01 TP{r}] Load weight begin. avail mem=70.00 GB") for r in (1, 2)]
    (boot,) = boots(short(100, SGLANG_ARGS), *loads, short(100, SGLANG_READY), short(101, DECODE.format(s=1)))
    assert boot.pids == (100, 101, 102)
    assert boot.speculation.state == "active"


def test_a_new_pid_with_a_start_is_a_boot_of_its_own() -> None:
    first, second = boots(
        short(100, SGLANG_ARGS), short(100, SGLANG_READY), short(200, SGLANG_ARGS), short(100, DECODE.format(s=1))
    )
    assert (first.pids, second.pids) == ((100,), (200,))
    assert (first.speculation.state, second.speculation.state) == ("active", "configured")
    assert [n.code for n in second.notices] == ["overlapping-boots"]
    assert second.notices[0].line == 4


def test_late_lines_of_an_old_process_stay_its_own_though_stamped_with_the_new_invocation() -> None:
    first, second = boots(
        record(SGLANG_ARGS, "a", 500), record(SGLANG_READY, "a", 500), record(SGLANG_ARGS, "b", 600), record(DECODE.format(s=1), "b", 500)
    )  # fmt: skip
    assert (first.speculation.samples, second.speculation.samples) == (1, 0)
    assert (first.invocation, second.invocation) == ("a" * 32, "b" * 32)


def test_systemds_words_go_to_the_invocation_that_they_name() -> None:
    first, second = boots(
        record(SGLANG_ARGS, "a", 500), record(SGLANG_ARGS, "b", 600),
        about("sglang.service: Main process exited, code=exited, status=1/FAILURE", "a"), record(SGLANG_READY, "b", 600),
    )  # fmt: skip
    assert (first.outcome, codes(first), second.outcome) == ("failed", ["exited"], "ready")


def test_a_unit_that_never_ran_is_a_boot_without_pids() -> None:
    (boot,) = boots(
        systemd("sglang.service: Start request repeated too quickly."),
        systemd("sglang.service: Failed with result 'exit-code'."),
    )
    assert (boot.pids, boot.outcome, codes(boot)[0]) == ((), "failed", "start-limit-hit")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param((SIGTERM, GRACEFUL, KILL_TREE), id="sigterm"),
        pytest.param((SIGTERM, "[2026-10-07 10:02:05] Subprocess scheduler_0 (pid=44) crashed with exit code -9. Triggering SIGQUIT for cleanup..."), id="children-killed"),
        pytest.param(("[2026-10-07 22:03:44] INFO:     Shutting down", "[2026-10-07 22:03:44] INFO:     Finished server process [1659]"), id="sigint"),
        pytest.param(("KeyboardInterrupt",), id="ctrl-c"),
        pytest.param((SIGTERM, "Traceback (most recent call last):", '  File "/x.py", line 1, in f', "asyncio.exceptions.CancelledError"), id="cancelled"),
    ],
)  # fmt: skip
def test_a_stop_that_was_asked_for_is_no_failure(end: tuple[str, ...]) -> None:
    (boot,) = boots(SGLANG_ARGS, SGLANG_READY, *end)
    assert (boot.outcome, boot.failures, boot.stage) == ("stopped", (), "ready")


def test_a_killed_main_process_after_systemds_stop_is_stopped() -> None:
    (boot,) = boots(
        short(7, SGLANG_ARGS), short(7, SGLANG_READY), systemd("Stopping sglang.service - SGLang..."),
        systemd("sglang.service: Main process exited, code=killed, status=9/KILL"), systemd("sglang.service: Failed with result 'signal'."),
    )  # fmt: skip
    assert (boot.outcome, boot.failures) == ("stopped", ())


def test_a_start_after_a_stop_that_fails_at_once_is_its_own_boot() -> None:
    first, second = boots(
        SGLANG_ARGS, SGLANG_READY, SIGTERM, GRACEFUL, "sglang serve: error: unrecognized arguments: --x"
    )
    assert (first.outcome, first.failures) == ("stopped", ())
    assert (second.outcome, codes(second), second.speculation.state) == ("failed", ["bad-arguments"], None)


def test_consequences_are_not_listed() -> None:
    (boot,) = boots(
        short(7, SGLANG_ARGS), short(7, "[2026-10-07 10:00:05 TP1] Scheduler hit an exception: Traceback (most recent call last):"),
        short(7, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."), short(7, ""),
        short(7, "[2026-10-07 10:00:05 TP0] Scheduler hit an exception: Traceback (most recent call last):"),
        short(7, "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]:2"), short(7, ""),
        short(7, "[2026-10-07 10:00:06] Rank 0 scheduler died during initialization (exit code: -9)."),
        systemd("sglang.service: Main process exited, code=killed, status=9/KILL"),
    )  # fmt: skip
    assert codes(boot) == ["cuda-oom"]


def test_repeats_on_ranks_are_counted() -> None:
    lines = [
        x
        for r in range(4)
        for x in (
            f"[2026-10-07 10:00:05 TP{r}] Scheduler hit an exception: Traceback (most recent call last):",
            "RuntimeError: CUDA error: out of memory",
            "",
        )
    ]
    (boot,) = boots(SGLANG_ARGS, *lines)
    assert [(e.code, e.line, e.count) for e in boot.failures] == [("cuda-oom", 3, 4)]


def test_a_taken_port_is_never_ready() -> None:
    (boot,) = boots(
        SGLANG_ARGS,
        "[2026-10-07 10:00:05] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 3): address already in use",
        SGLANG_READY,
    )
    assert (boot.outcome, codes(boot)) == ("failed", ["port-in-use"])
    assert boot.stage != "ready"


def test_uvicorns_words_do_not_make_sglang_ready() -> None:
    (boot,) = boots(
        SGLANG_ARGS,
        "[2026-10-07 10:00:05] INFO:     Application startup complete.",
        "[2026-10-07 10:00:05] INFO:     Uvicorn running on http://127.0.0.1:3 (Press CTRL+C to quit)",
    )
    assert (boot.outcome, boot.stage) == ("starting", "warm-up")


def test_compose_containers_are_told_apart() -> None:
    report = boots(
        f"prefill-1  | {SGLANG_ARGS.replace(chr(39) + 'null' + chr(39), chr(39) + 'prefill' + chr(39))}",
        f"decode-1   | {SGLANG_ARGS}",
        f"decode-1   | {DECODE.format(s=1)}",
        "prefill-1 exited with code 137",
    )
    assert [(b.role, b.speculation.state, b.outcome) for b in report] == [
        ("prefill", "not-applicable", "failed"),
        ("unified", "active", "starting"),
    ]
    assert codes(report[0]) == ["killed"]


def test_a_router_is_a_boot_of_its_own() -> None:
    router = "2026-10-07 10:00:00  INFO sglang_router_rs::server: src/server.rs:1: No healthy workers available"
    report = boots(SGLANG_ARGS, router, SGLANG_READY)
    assert [b.outcome for b in report] == ["ready", None]
    assert [n.code for n in report[1].notices] == ["no-workers"]


def test_vllm_processes_are_one_boot_and_another_api_server_is_another() -> None:
    ready = "(APIServer pid=128) INFO:     Application startup complete."
    core = "(EngineCore_0 pid=290) INFO 06-23 21:44:10 [core.py:114] Initializing a V1 LLM engine (v0.11.0) with config: model='/m', speculative_config=None, seed=0"
    report = boots(VLLM_START, core, ready, VLLM_START.replace("pid=128", "pid=999"))
    assert [b.pids for b in report] == [(128, 290), (999,)]
    assert [(b.outcome, b.version, b.speculation.state) for b in report] == [
        ("ready", "0.11.0", "off"),
        ("starting", "0.11.0", "off"),
    ]


def test_vllm_without_the_speculative_setting_seen_is_unknown() -> None:
    (boot,) = boots("(EngineCore_0 pid=290) INFO 06-23 21:44:10 [gpu_model_runner.py:1] Starting to load model /m...")
    assert (boot.speculation.state, boot.speculation.algorithm, boot.stage) == (None, None, "weights")


def test_a_restart_loop_is_said_and_a_single_restart_is_not() -> None:
    line = "sglang.service: Scheduled restart job, restart counter is at {}."
    (looping,) = boots(short(7, SGLANG_ARGS), systemd(line.format(4812)))
    (once,) = boots(short(7, SGLANG_ARGS), systemd(line.format(1)))
    assert ([n.code for n in looping.notices], once.notices) == (["restart-loop"], ())


def test_words_of_a_wrapper_script_are_no_evidence() -> None:
    (boot,) = boots(
        short(7, SGLANG_ARGS),
        "Oct 07 10:00:00 gpu-a start.sh[6]: server is ready, speculation active, accept len: 3.00",
    )
    assert (boot.outcome, boot.speculation.state, boot.pids) == ("starting", "configured", (7,))


def test_a_left_over_process_stays_the_old_boots() -> None:
    stop = "sglang.service: State 'stop-sigterm' timed out. Killing."
    left = (
        "sglang.service: Found left-over process 11 (sglang::schedul) in control group while starting unit. Ignoring."
    )
    first, second = boots(
        short(10, SGLANG_ARGS), short(10, SGLANG_READY), systemd("Stopping sglang.service - SGLang..."), systemd(stop), systemd(left),
        short(20, SGLANG_ARGS), short(11, DECODE.format(s=1)),
    )  # fmt: skip
    assert (codes(first), [n.code for n in first.notices]) == (["stop-timeout"], ["leftover-processes"])
    assert (first.speculation.samples, second.speculation.samples) == (1, 0)
    assert [n.code for n in second.notices] == ["overlapping-boots"]


def test_an_unknown_process_that_decodes_is_not_of_a_boot_that_only_loads() -> None:
    loading = "[2026-10-07 10:00:01 TP0] Load weight begin. avail mem=70.00 GB"
    report = boots(short(20, SGLANG_ARGS), short(20, loading), short(11, DECODE.format(s=1)))
    assert [(b.pids, b.speculation.samples) for b in report] == [((20,), 0), ((11,), 1)]
