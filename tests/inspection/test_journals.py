# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Journals of several starts and several services in the short formats, where only PIDs and systemd tell them apart."""

import pytest

from state.inspection.log import read_log
from state.inspection.report import Boot
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY, VLLM_START

OFF_ARGS = SGLANG_ARGS.replace("speculative_algorithm='EAGLE'", "speculative_algorithm=None")
DECODE = "[2026-10-07 10:01:00 TP0] Decode batch, #running-req: 2, #token: 640, token usage: 0.01, accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0"
PLAIN = DECODE.replace("accept len: 2.50, accept rate: 0.50, ", "")
OOM = (
    "[2026-10-07 10:00:05 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/x/sglang/srt/managers/scheduler.py", line 3, in run_scheduler_process',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB",
    "",
)
NO_MODULE = (
    "Traceback (most recent call last):",
    '  File "/x/sglang/launch_server.py", line 3, in <module>',
    "ModuleNotFoundError: No module named 'zmq'",
)
FOREIGN = ("Traceback (most recent call last):", '  File "/srv/app/web.py", line 3, in f', "ValueError: bad")
STARTED, STOPPING = "Started sglang.service - SGLang.", "Stopping sglang.service - SGLang..."
KILLED = (
    "sglang.service: Main process exited, code=killed, status=9/KILL",
    "sglang.service: Failed with result 'signal'.",
)
EXITED = (
    "sglang.service: Main process exited, code=exited, status=1/FAILURE",
    "sglang.service: Failed with result 'exit-code'.",
)
DEAD = "sglang.service: Deactivated successfully."


def by(pid: int, *lines: str, ident: str = "python3") -> list[str]:
    return [f"Oct 07 10:00:00 gpu-a {ident}[{pid}]: {line}" for line in lines]


def systemd(*lines: str) -> list[str]:
    return [f"Oct 07 10:00:00 gpu-a systemd[1]: {line}" for line in lines]


def boots(*parts: list[str]) -> tuple[Boot, ...]:
    return read_log([f"{line}\n".encode() for part in parts for line in part]).boots


def told(boot: Boot) -> tuple[object, ...]:
    return boot.pids, boot.outcome, [entry.code for entry in boot.failures], boot.speculation.state


def test_a_ranks_traceback_is_of_the_boot_in_whose_time_it_began() -> None:
    first = [*by(100, SGLANG_ARGS), *by(101, *OOM), *systemd(*KILLED, STARTED)]
    second = [*by(200, SGLANG_ARGS), *by(201, *OOM), *systemd(*KILLED, STARTED)]
    third = [*by(300, SGLANG_ARGS, SGLANG_READY), *by(301, DECODE)]
    assert [told(boot) for boot in boots(first, second, third)] == [
        ((100, 101), "failed", ["cuda-oom"], "configured"),
        ((200, 201), "failed", ["cuda-oom"], "configured"),
        ((300, 301), "ready", [], "active"),
    ]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        pytest.param(NO_MODULE, "missing-dependency", id="a-traceback"),
        pytest.param(("launch_server.py: error: unrecognized arguments: --x",), "bad-arguments", id="arguments"),
    ],
)
@pytest.mark.parametrize("started", [STARTED, "sglang.service: Scheduled restart job, restart counter is at 1."])
def test_a_start_that_fails_at_once_is_not_hidden_by_the_stop_before(
    lines: tuple[str, ...], code: str, started: str
) -> None:
    served = [*by(100, SGLANG_ARGS, SGLANG_READY), *by(101, DECODE), *systemd(STOPPING, DEAD)]
    first, second = boots(served, systemd(started), by(200, *lines), systemd(*EXITED))
    assert told(first) == ((100, 101), "stopped", [], "active")
    assert told(second) == ((200,), "failed", [code], None)


def test_a_start_of_which_only_systemd_speaks_is_a_boot_without_pids() -> None:
    served = [*by(100, SGLANG_ARGS, SGLANG_READY), *systemd(STOPPING, DEAD, STARTED)]
    first, second = boots(served, systemd("sglang.service: Main process exited, code=exited, status=203/EXEC"))
    assert told(first)[:3] == ((100,), "stopped", [])
    assert told(second) == ((), "failed", ["exec-failed"], None)


def test_a_service_told_by_its_description_starts_anew_too() -> None:
    served = [
        *systemd("Started Qwen server."),
        *by(100, SGLANG_ARGS, SGLANG_READY),
        *systemd("Stopping Qwen server..."),
    ]
    first, second = boots(served, systemd("Stopped Qwen server.", "Started Qwen server."), by(200, *NO_MODULE))
    assert told(first)[:3] == ((100,), "stopped", [])
    assert told(second)[:3] == ((200,), "failed", ["missing-dependency"])


def test_what_happens_to_other_services_happens_to_no_boot() -> None:
    (boot,) = boots(
        systemd("Started nginx.service - A web server.", STARTED, "Started Session 5 of User root."),
        by(100, SGLANG_ARGS), systemd("nginx.service: Deactivated successfully.", "Stopping nginx.service - A web server..."),
        by(100, SGLANG_READY), by(101, DECODE), by(999, *FOREIGN, ident="webapp"),
        systemd("postgresql.service: Main process exited, code=killed, status=9/KILL", "postgresql.service: Failed with result 'signal'."),
        ["Oct 07 10:00:00 gpu-a kernel: Out of memory: Killed process 555 (mysqld) total-vm:1kB"], by(101, DECODE),
    )  # fmt: skip
    assert told(boot) == ((100, 101), "ready", [], "active")


def test_the_kernel_took_a_compiler_of_ours() -> None:
    (boot,) = boots(
        by(100, SGLANG_ARGS), ["Oct 07 10:00:00 gpu-a kernel: Out of memory: Killed process 555 (cicc) total-vm:1kB"]
    )
    assert told(boot)[2] == ["host-oom"]


def test_ranks_find_their_own_of_two_servers_that_run_at_once() -> None:
    report = boots(
        by(100, SGLANG_ARGS), by(200, OFF_ARGS), by(100, SGLANG_READY), by(200, SGLANG_READY), by(101, DECODE),
        by(201, PLAIN), systemd("sglang-b.service: Main process exited, code=exited, status=1/FAILURE"), by(101, DECODE),
    )  # fmt: skip
    assert [(boot.pids, boot.speculation.state) for boot in report] == [((100, 101), "active"), ((200, 201), "off")]


def test_two_services_in_one_journal_do_not_overlap() -> None:
    report = read_log(
        f'{{"MESSAGE": "{text}", "_PID": "{pid}", "__CURSOR": "s", "_SYSTEMD_UNIT": "{unit}.service", "_SYSTEMD_INVOCATION_ID": "{unit * 32}"}}\n'.encode()
        for unit, pid, text in (("a", 1, SGLANG_ARGS), ("b", 2, SGLANG_ARGS), ("a", 1, SGLANG_READY), ("b", 2, SGLANG_READY), ("a", 1, DECODE))
    )  # fmt: skip
    assert [[notice.code for notice in boot.notices] for boot in report.boots] == [[], []]


def test_vllms_restart_is_a_boot_of_its_own() -> None:
    core = "(EngineCore_DP0 pid=101) ERROR 10-03 11:20:30 [core.py:708] "
    failed = [core + line for line in ("EngineCore failed to start.", "Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory.")]  # fmt: skip
    start = VLLM_START.replace("pid=128", "pid=100").split("\n")
    first, second = boots(
        by(100, *start, ident="vllm"), by(101, *failed, ident="vllm"),
        systemd("vllm.service: Main process exited, code=exited, status=1/FAILURE", "Started vllm.service - v."),
        by(200, *(line.replace("pid=100", "pid=200") for line in start), ident="vllm"),
        by(200, "(APIServer pid=200) INFO:     Application startup complete.", ident="vllm"),
    )  # fmt: skip
    assert told(first)[:3] == ((100, 101), "failed", ["cuda-oom"])
    assert told(second)[:3] == ((200,), "ready", [])
