"""A service's life, against systemd 252's own words and states."""

import asyncio

import pytest

from tasks.practice.host import PracticeMachine
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

UNIT = "[Unit]\nDescription=App\n[Service]\nExecStart=/opt/app/run --port 1\n"
STATES = ("ActiveState", "SubState", "Result")


def session(unit: str = UNIT, **how: object) -> Session:
    """The unit is enabled, so that systemd remembers it when it is down."""
    run = Session(PracticeMachine(factory=acting(**how)))
    run.install("app.service", unit)
    run.want("app.service")
    return run


@in_virtual_time
async def test_a_simple_service_is_up_with_its_fork_and_down_when_it_went() -> None:
    run = session(dies_s=2.0)
    assert (await run("systemctl", "start", "app.service")).status == 0
    up = await run.shown("app.service", *STATES, "MainPID", "NRestarts", "ControlGroup")
    assert up == {
        "MainPID": "14363",
        "Result": "success",
        "NRestarts": "0",
        "ControlGroup": "/system.slice/app.service",
        "ActiveState": "active",
        "SubState": "running",
    }
    assert (await run("systemctl", "stop", "app.service")).status == 0
    down = await run.shown("app.service", *STATES, "MainPID", "ControlGroup", "ExecMainCode", "ExecMainStatus")
    assert down == {
        "MainPID": "0",
        "Result": "success",
        "ExecMainCode": "2",
        "ExecMainStatus": "15",
        "ControlGroup": "",
        "ActiveState": "inactive",
        "SubState": "dead",
    }
    assert await run.said("app.service") == [
        "Started app.service - App.",
        "hello",
        "Stopping app.service - App...",
        "app.service: Deactivated successfully.",
        "Stopped app.service - App.",
    ]
    assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.1)


@in_virtual_time
async def test_each_start_has_an_invocation_of_its_own_on_every_record() -> None:
    run = session(lives_s=1.0)
    seen = set()
    for _ in range(2):
        await run("systemctl", "start", "app.service")
        seen.add((await run.shown("app.service", "InvocationID"))["InvocationID"])
        await asyncio.sleep(2)
    assert len(seen) == 2
    for invocation in seen:
        own = await run("journalctl", "-o", "cat", f"_SYSTEMD_INVOCATION_ID={invocation}")
        about = await run("journalctl", "-o", "cat", f"INVOCATION_ID={invocation}")
        assert own.text == "hello\n"
        assert about.text == "Started app.service - App.\napp.service: Deactivated successfully.\n"


@pytest.mark.parametrize(
    ("status", "records", "result"),
    [
        pytest.param(0, ["app.service: Deactivated successfully."], "success", id="a-clean-exit-is-no-failure"),
        pytest.param(
            1,
            [
                "app.service: Main process exited, code=exited, status=1/FAILURE",
                "app.service: Failed with result 'exit-code'.",
            ],
            "exit-code",
            id="an-exit-status-is-told-with-its-name",
        ),
        pytest.param(
            -9,
            [
                "app.service: Main process exited, code=killed, status=9/KILL",
                "app.service: Failed with result 'signal'.",
            ],
            "signal",
            id="sigkill-is-a-signal",
        ),
        pytest.param(
            -6,
            [
                "app.service: Main process exited, code=dumped, status=6/ABRT",
                "app.service: Failed with result 'core-dump'.",
            ],
            "core-dump",
            id="an-abort-dumps-core",
        ),
        pytest.param(
            143,
            [
                "app.service: Main process exited, code=exited, status=143/n/a",
                "app.service: Failed with result 'exit-code'.",
            ],
            "exit-code",
            id="143-by-itself-is-no-signal",
        ),
    ],
)
@in_virtual_time
async def test_how_a_process_ended_is_told(status: int, records: list[str], result: str) -> None:
    run = session(lives_s=1.0, status=status)
    await run("systemctl", "start", "app.service")
    await asyncio.sleep(2)
    assert (await run.said("app.service"))[2:] == records
    assert (await run.shown("app.service", "Result"))["Result"] == result


@in_virtual_time
async def test_a_restart_loop_counts_and_ends_at_the_start_limit() -> None:
    unit = UNIT.replace(
        "[Service]", "StartLimitBurst=3\nStartLimitIntervalSec=1min\n[Service]\nRestart=always\nRestartSec=2"
    )
    run = session(unit, lives_s=0.5, status=1)
    assert (await run("systemctl", "start", "app.service")).status == 0
    await asyncio.sleep(1)
    assert await run.shown("app.service", "ActiveState", "SubState") == {
        "ActiveState": "activating",
        "SubState": "auto-restart",
    }
    await asyncio.sleep(20)
    tail = (await run.said("app.service"))[-4:]
    assert tail == [
        "Stopped app.service - App.",
        "app.service: Start request repeated too quickly.",
        "app.service: Failed with result 'exit-code'.",
        "Failed to start app.service - App.",
    ]
    assert await run.shown("app.service", *STATES, "NRestarts") == {
        "Result": "exit-code",
        "NRestarts": "3",
        "ActiveState": "failed",
        "SubState": "failed",
    }
    refused = await run("systemctl", "start", "app.service")
    assert refused.status == 1
    assert refused.stderr.startswith(b"Job for app.service failed")
    assert (await run("systemctl", "reset-failed", "app.service")).status == 0
    assert await run.shown("app.service", "ActiveState", "NRestarts") == {"NRestarts": "0", "ActiveState": "inactive"}
    assert (await run("systemctl", "start", "app.service")).status == 0


@in_virtual_time
async def test_too_many_starts_by_hand_hit_the_limit_and_say_how_to_force() -> None:
    run = session()
    for _ in range(5):
        await run("systemctl", "start", "app.service")
        await run("systemctl", "stop", "app.service")
    refused = await run("systemctl", "start", "app.service")
    assert (refused.status, refused.stderr.decode()) == (
        1,
        "Job for app.service failed because start of the service was attempted too often.\n"
        'See "systemctl status app.service" and "journalctl -xeu app.service" for details.\n'
        'To force a start use "systemctl reset-failed app.service"\n'
        'followed by "systemctl start app.service" again.\n',
    )
    assert (await run.shown("app.service", "Result"))["Result"] == "start-limit-hit"


@in_virtual_time
async def test_a_stop_that_takes_too_long_ends_in_sigkill_and_a_failed_unit() -> None:
    run = session(UNIT + "TimeoutStopSec=90\n", dies_s=None)
    await run("systemctl", "start", "app.service")
    assert (await run("systemctl", "stop", "app.service")).status == 0
    assert asyncio.get_running_loop().time() == pytest.approx(90, abs=1)
    assert (await run.said("app.service"))[2:] == [
        "Stopping app.service - App...",
        "app.service: State 'stop-sigterm' timed out. Killing.",
        "app.service: Killing process 14363 (run) with signal SIGKILL.",
        "app.service: Main process exited, code=killed, status=9/KILL",
        "app.service: Failed with result 'timeout'.",
        "Stopped app.service - App.",
    ]
    assert await run.shown("app.service", *STATES) == {
        "Result": "timeout",
        "ActiveState": "failed",
        "SubState": "failed",
    }


@in_virtual_time
async def test_a_process_that_no_signal_reaches_is_left_in_the_cgroup() -> None:
    run = session(UNIT + "TimeoutStopSec=10\n", dies_s=None)
    await run("systemctl", "start", "app.service")
    run.machine.faults.unkillable.add(14363)
    assert (await run("systemctl", "stop", "app.service")).status == 0
    assert "app.service: Processes still around after SIGKILL. Ignoring." in await run.said("app.service")
    assert (await run("cat", "/sys/fs/cgroup/system.slice/app.service/cgroup.procs")).text == "14363\n"
    assert (await run.shown("app.service", "ActiveState"))["ActiveState"] == "failed"


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        pytest.param("control-group", "", id="the-group-gets-the-signal"),
        pytest.param("mixed", "", id="mixed-kills-the-rest-at-the-end"),
        pytest.param("process", "14364\n", id="only-the-main-process-gets-it"),
    ],
)
@in_virtual_time
async def test_what_a_stop_leaves_depends_on_the_kill_mode(mode: str, left: str) -> None:
    run = session(UNIT + f"KillMode={mode}\nTimeoutStopSec=5\n", keeps=[["sglang::scheduler_TP0"]])
    await run("systemctl", "start", "app.service")
    await run("systemctl", "stop", "app.service")
    assert (await run("cat", "/sys/fs/cgroup/system.slice/app.service/cgroup.procs")).text == left
    remains = "app.service: Unit process 14364 (sglang::schedul) remains running after unit stopped."
    assert (remains in await run.said("app.service")) is bool(left)


@in_virtual_time
async def test_the_next_start_finds_the_leftover_and_goes_on() -> None:
    run = session(UNIT + "KillMode=process\n", keeps=[["worker"]])
    await run("systemctl", "start", "app.service")
    await run("systemctl", "restart", "app.service")
    said = await run.said("app.service")
    assert "app.service: Found left-over process 14364 (worker) in control group while starting unit. Ignoring." in said
    procs = await run("cat", "/sys/fs/cgroup/system.slice/app.service/cgroup.procs")
    assert procs.text == "14364\n14365\n14366\n"
    assert (await run("kill", "-KILL", "14364")).status == 0
    assert (await run("cat", "/proc/14364/cmdline")).stderr == b"cat: /proc/14364/cmdline: No such file or directory\n"


@in_virtual_time
async def test_a_program_that_is_not_there_is_203_exec_of_a_unit_that_started() -> None:
    run = session(UNIT.replace("/opt/app/run", "/opt/app/missing"))
    assert (await run("systemctl", "start", "app.service")).status == 0
    assert await run.said("app.service") == [
        "Started app.service - App.",
        "app.service: Failed to locate executable /opt/app/missing: No such file or directory",
        "app.service: Failed at step EXEC spawning /opt/app/missing: No such file or directory",
        "app.service: Main process exited, code=exited, status=203/EXEC",
        "app.service: Failed with result 'exit-code'.",
    ]
    assert (await run.shown("app.service", "ExecMainStatus"))["ExecMainStatus"] == "203"


@in_virtual_time
async def test_type_exec_fails_the_job_where_simple_does_not() -> None:
    run = session(UNIT.replace("/opt/app/run", "/opt/app/missing") + "Type=exec\n")
    refused = await run("systemctl", "start", "app.service")
    assert refused.status == 1
    assert refused.stderr.startswith(
        b"Job for app.service failed because the control process exited with error code.\n"
    )
    assert (await run.said("app.service"))[-1] == "Failed to start app.service - App."


@in_virtual_time
async def test_an_environment_file_that_is_missing_fails_the_start() -> None:
    run = session(UNIT + "EnvironmentFile=/etc/app.env\n")
    refused = await run("systemctl", "start", "app.service")
    assert refused.status == 1
    assert b"of unavailable resources or another system error" in refused.stderr
    assert (await run.shown("app.service", "Result"))["Result"] == "resources"


@in_virtual_time
async def test_the_environment_is_built_in_the_order_of_systemd() -> None:
    run = session(UNIT + 'Environment=A=1 "B=two words" PATH=/x\nEnvironmentFile=-/etc/app.env\n')
    run.machine.files.put("/etc/app.env", "# c\nA=from-file\nC='q'\n")
    await run("systemctl", "start", "app.service")
    shown = (await run("cat", "/proc/14363/environ")).text
    env = dict(pair.split("=", 1) for pair in shown.split("\0") if pair)
    assert (env["A"], env["B"], env["C"], env["PATH"]) == ("from-file", "two words", "q", "/x")
    assert env["INVOCATION_ID"] == (await run.shown("app.service", "InvocationID"))["InvocationID"]


@in_virtual_time
async def test_a_second_stop_joins_the_first_and_a_start_takes_its_place() -> None:
    run = session(dies_s=10.0)
    await run("systemctl", "start", "app.service")
    first = asyncio.ensure_future(run("systemctl", "stop", "app.service"))
    joined = asyncio.ensure_future(run("systemctl", "stop", "app.service"))
    await asyncio.sleep(1)
    started = await run("systemctl", "start", "app.service")
    assert started.status == 0
    assert (await first).stderr == (await joined).stderr == b"Job for app.service canceled.\n"
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.2)
    assert (await run.shown("app.service", "MainPID"))["MainPID"] == "14364"


@in_virtual_time
async def test_a_stop_whose_client_has_gone_ends_all_the_same() -> None:
    run = session(dies_s=10.0)
    await run("systemctl", "start", "app.service")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await run("systemctl", "stop", "app.service")
    await asyncio.sleep(20)
    assert (await run.shown("app.service", "ActiveState"))["ActiveState"] == "inactive"


@in_virtual_time
async def test_runtime_max_ends_a_service_with_result_timeout() -> None:
    run = session(UNIT + "RuntimeMaxSec=30\n")
    await run("systemctl", "start", "app.service")
    await asyncio.sleep(31)
    assert "app.service: Service reached runtime time limit. Stopping." in await run.said("app.service")
    assert (await run.shown("app.service", "Result"))["Result"] == "timeout"


@in_virtual_time
async def test_systemctl_kill_reaches_the_whole_group() -> None:
    run = session(keeps=[["worker"]])
    await run("systemctl", "start", "app.service")
    assert (await run("systemctl", "kill", "--signal=SIGKILL", "app.service")).status == 0
    await asyncio.sleep(1)
    assert "app.service: Main process exited, code=killed, status=9/KILL" in await run.said("app.service")
    assert (await run("ls", "/sys/fs/cgroup/system.slice")).status == 2


@in_virtual_time
async def test_reboot_ends_everything_and_starts_what_is_enabled() -> None:
    run = session(UNIT + "[Install]\nWantedBy=multi-user.target\n")
    await run("systemctl", "start", "app.service")
    await run("systemctl", "enable", "app.service")
    await run("systemd-run", "--unit=t", "--on-active=60", "--", "true")
    boot = run.machine.journal.boot_id
    await run.machine.reboot()
    assert run.machine.journal.boot_id != boot
    assert (await run.shown("app.service", "ActiveState", "MainPID"))["ActiveState"] == "active"
    assert (await run.shown("t.timer", "LoadState"))["LoadState"] == "not-found"


@in_virtual_time
async def test_a_stop_before_the_main_process_leaves_nothing_to_start_later() -> None:
    run = session(UNIT + "ExecStartPre=/usr/bin/uname\nKillMode=process\n")
    run.machine.faults.hang(lambda words: words[0] == "uname")
    starting = asyncio.ensure_future(run("systemctl", "start", "app.service"))
    await asyncio.sleep(1)
    assert await run.shown("app.service", "ActiveState", "SubState") == {
        "ActiveState": "activating",
        "SubState": "start-pre",
    }
    await run("systemctl", "stop", "app.service")
    assert (await starting).stderr == b"Job for app.service canceled.\n"
    (pre,) = run.machine.processes()
    await run("kill", "-KILL", str(pre))
    await asyncio.sleep(10)
    assert not run.machine.processes()
    assert (await run.shown("app.service", "ActiveState"))["ActiveState"] == "inactive"


@in_virtual_time
async def test_a_failing_pre_command_fails_the_start() -> None:
    run = session(UNIT + "ExecStartPre=/usr/bin/false\n")
    assert (await run("systemctl", "start", "app.service")).status == 1
    assert (await run.said("app.service"))[-3:] == [
        "app.service: Control process exited, code=exited, status=1/FAILURE",
        "app.service: Failed with result 'exit-code'.",
        "Failed to start app.service - App.",
    ]
