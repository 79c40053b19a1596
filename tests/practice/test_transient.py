"""systemd-run: transient services whose result stays readable, and one-shot timers that fire by themselves."""

import asyncio

import pytest

from tasks.argv import WRITE_VALUE
from tasks.practice.host import PracticeMachine
from tasks.script import may, must, render_sequence
from tests.practice.session import Session
from tests.practice.virtual_time import in_virtual_time

ONESHOT = ("systemd-run", "--quiet", "--unit=step.service", "--property=Type=oneshot", "--property=RemainAfterExit=yes")
MARK = must("sh", "-c", WRITE_VALUE, "sh", "/tmp/mark", "done\n")


def oneshot(*words: str) -> tuple[str, ...]:
    return (*ONESHOT, "--property=TimeoutStartSec=60", "--", *words)


def script(*lines: object) -> str:
    return render_sequence(lines)  # type: ignore[arg-type]  # lines come from must and may


@in_virtual_time
async def test_a_oneshot_blocks_until_it_is_done_and_keeps_its_result() -> None:
    run = Session(PracticeMachine())
    done = await run(*oneshot("/bin/sh", "-c", script(MARK, must("cat", "--", "/tmp/mark"))))
    assert (done.status, done.stderr) == (0, b"")
    assert (await run("cat", "/tmp/mark")).text == "done\n"
    shown = await run.shown("step.service", "LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus")
    assert shown == {
        "Result": "success",
        "ExecMainStatus": "0",
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "exited",
    }
    assert "done" in await run.said("step.service")


@in_virtual_time
async def test_a_failed_oneshot_says_which_line_failed_and_stays_failed() -> None:
    run = Session(PracticeMachine())
    failed = await run(
        *oneshot("/bin/sh", "-c", script(may("false"), must("grep", "-qxF", "--", "7", "/tmp/none"), MARK))
    )
    assert (failed.status, failed.stderr) == (1, b"")  # --quiet
    assert await run.shown("step.service", "ActiveState", "Result", "ExecMainStatus") == {
        "Result": "exit-code",
        "ExecMainStatus": "2",
        "ActiveState": "failed",
    }
    assert "interlock: exit 2: grep -qxF -- 7 /tmp/none" in await run.said("step.service")
    assert (await run("test", "-e", "/tmp/mark")).status == 1


@in_virtual_time
async def test_a_taken_name_is_refused_until_it_is_stopped_or_reset() -> None:
    run = Session(PracticeMachine())
    await run(*oneshot("true"))
    taken = await run(*oneshot("true"))
    assert (taken.status, taken.stderr.decode()) == (
        1,
        "Failed to start transient service unit: Unit step.service was already loaded or has a fragment file.\n",
    )
    assert (await run("systemctl", "stop", "step.service")).status == 0
    assert (await run.shown("step.service", "LoadState")) == {"LoadState": "not-found"}
    assert (await run(*oneshot("false"))).status == 1
    assert (await run(*oneshot("true"))).status == 1
    assert (await run("systemctl", "reset-failed", "step.service")).status == 0
    assert (await run(*oneshot("true"))).status == 0


@in_virtual_time
async def test_a_running_oneshot_is_joined_by_a_start_and_runs_once() -> None:
    run = Session(PracticeMachine())
    run.machine.faults.hang(lambda words: words[0] == "uname")
    running = asyncio.ensure_future(run(*oneshot("uname")))
    await asyncio.sleep(1)
    assert await run.shown("step.service", "ActiveState", "SubState") == {
        "ActiveState": "activating",
        "SubState": "start",
    }
    joined = asyncio.ensure_future(run("systemctl", "start", "step.service"))
    await asyncio.sleep(100)
    assert (await running).status == (await joined).status == 1
    assert (await run.shown("step.service", "Result"))["Result"] == "timeout"
    assert run.machine.faults.seen.count(("uname",)) == 1


@in_virtual_time
async def test_variables_in_the_words_are_expanded_as_systemd_does_and_specifiers_are_not() -> None:
    run = Session(PracticeMachine())
    await run(*ONESHOT, "--setenv=NAME=a b", "--", "echo", "$NAME", "${NAME}", "x$NAME", "$$", "100%n")
    assert "a b a b x$NAME $ 100%n" in await run.said("step.service")


@in_virtual_time
async def test_a_timer_fires_by_itself_and_is_gone_with_its_service() -> None:
    run = Session(PracticeMachine())
    run.machine.files.put("/var/lib/interlock/revert.sh", script(MARK))
    armed = await run(
        "systemd-run", "--unit=revert", "--on-active=300s", "--", "/bin/sh", "/var/lib/interlock/revert.sh"
    )
    assert armed.stderr.decode() == "Running timer as unit: revert.timer\nWill run service as unit: revert.service\n"
    assert await run.shown("revert.timer", "ActiveState", "SubState") == {
        "ActiveState": "active",
        "SubState": "waiting",
    }
    assert (await run.shown("revert.service", "LoadState", "ActiveState"))["ActiveState"] == "inactive"
    await asyncio.sleep(299)
    assert (await run("test", "-e", "/tmp/mark")).status == 1
    await asyncio.sleep(2)
    assert (await run("cat", "/tmp/mark")).text == "done\n"
    assert await run.shown("revert.timer", "LoadState") == {"LoadState": "not-found"}
    assert await run.shown("revert.service", "LoadState") == {"LoadState": "not-found"}


@in_virtual_time
async def test_a_restart_arms_a_timer_anew() -> None:
    run = Session(PracticeMachine())
    await run("systemd-run", "--quiet", "--unit=revert", "--on-active=10", "--", "/bin/sh", "-c", script(MARK))
    for _ in range(5):
        await asyncio.sleep(8)
        assert (await run("systemctl", "restart", "revert.timer")).status == 0
    assert (await run("test", "-e", "/tmp/mark")).status == 1
    await asyncio.sleep(11)
    assert (await run("test", "-e", "/tmp/mark")).status == 0
    gone = await run("systemctl", "restart", "revert.timer")
    assert (gone.status, gone.stderr) == (5, b"Failed to restart revert.timer: Unit revert.timer not found.\n")


@in_virtual_time
async def test_a_stop_disarms_a_timer_and_unloads_both_units() -> None:
    run = Session(PracticeMachine())
    await run("systemd-run", "--quiet", "--unit=revert", "--on-active=10", "--", "/bin/sh", "-c", script(MARK))
    assert (await run("systemctl", "stop", "revert.timer")).status == 0
    await asyncio.sleep(20)
    assert (await run("test", "-e", "/tmp/mark")).status == 1
    assert await run.shown("revert.timer", "LoadState") == {"LoadState": "not-found"}
    assert await run.shown("revert.service", "LoadState") == {"LoadState": "not-found"}
    assert run.machine.files.names("/run/systemd/transient") == []


@in_virtual_time
async def test_a_failed_service_of_a_timer_stays_for_reset_failed() -> None:
    run = Session(PracticeMachine())
    await run("systemd-run", "--quiet", "--unit=revert", "--on-active=1", "--", "false")
    await asyncio.sleep(2)
    assert (await run.shown("revert.service", "ActiveState"))["ActiveState"] == "failed"
    taken = await run("systemd-run", "--quiet", "--unit=revert", "--on-active=1", "--", "true")
    assert taken.stderr.startswith(b"Failed to start transient timer unit: Unit revert.service was already loaded")
    await run("systemctl", "reset-failed", "revert.service")
    assert (await run("systemd-run", "--quiet", "--unit=revert", "--on-active=1", "--", "true")).status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ("--", "nosuch"), "Failed to find executable nosuch: No such file or directory\n", id="an-unknown-program"
        ),
        pytest.param(
            ("--on-active=soon", "--", "true"), "Failed to parse timer value: soon\n", id="a-time-that-is-none"
        ),
        pytest.param(("--frob", "--", "true"), "systemd-run: unrecognized option '--frob'\n", id="an-unknown-option"),
    ],
)
@in_virtual_time
async def test_systemd_run_refuses(words: tuple[str, ...], said: str) -> None:
    refused = await Session(PracticeMachine())("systemd-run", *words)
    assert (refused.status, refused.stderr.decode()) == (1, said)


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
@in_virtual_time
async def test_nobody_but_root_may_change_units(verb: str) -> None:
    run = Session(PracticeMachine(), user="interlock")
    run.install("a.service", "[Service]\nExecStart=/opt/app/run\n")
    refused = await run("systemctl", verb, "a.service")
    assert (refused.status, refused.stderr.decode()) == (
        1,
        f"Failed to {verb} a.service: Interactive authentication required.\n"
        "See system logs and 'systemctl status a.service' for details.\n",
    )
    assert (await run("systemd-run", "--", "true")).status == 1
