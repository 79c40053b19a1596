"""Child mode: units as real processes, with the right PIDs, signals and leftovers."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tasks.practice.host import PracticeMachine
from tests.practice.session import Session

PROGRAM = """#!{python}
import os, signal, socket, sys, time
print("root", os.environ["PRACTICE_ROOT"], flush=True)
print("words", *sys.argv[1:], file=sys.stderr, flush=True)
if "--child" in sys.argv and os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("child", flush=True)
    for _ in range(600):
        time.sleep(0.1)
        print("tick", flush=True)
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "--port" in sys.argv:
    server = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
if "--exit" in sys.argv:
    sys.exit(int(sys.argv[sys.argv.index("--exit") + 1]))
print("ready", flush=True)
time.sleep(60)
"""
UNIT = "[Unit]\nDescription=App\n[Service]\nExecStart=/opt/app/run {words}\n"


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Session]:
    machine = PracticeMachine(root=tmp_path)
    machine.files.put("/opt/app/run", PROGRAM.format(python=sys.executable), mode=0o755)
    yield Session(machine)
    await machine.aclose()
    async with asyncio.timeout(5):
        while machine.processes():  # noqa: ASYNC110  # the kernel tells nobody
            await asyncio.sleep(0.02)


def unit(run: Session, words: str, more: str = "") -> None:
    run.machine.files.put("/etc/systemd/system/app.service", UNIT.format(words=words) + more)


async def up(run: Session) -> int:
    """Start the unit, wait for its last line; its main PID."""
    assert (await run("systemctl", "start", "app.service")).status == 0
    await run.until(lambda: any(r.text("MESSAGE") == "ready" for r in run.machine.journal.records))
    return int((await run.shown("app.service", "MainPID"))["MainPID"])


async def test_a_program_below_the_root_runs_with_its_words_and_environment(run: Session, tmp_path: Path) -> None:
    unit(run, "--name 'two words'", "Environment=A=1\n")
    pid = await up(run)
    assert (await run.said("app.service"))[1:] == [f"root {tmp_path}", "words --name two words", "ready"]
    assert (await run("cat", f"/proc/{pid}/cmdline")).text == "/opt/app/run\0--name\0two words\0"
    env = dict(pair.split("=", 1) for pair in (await run("cat", f"/proc/{pid}/environ")).text.split("\0") if pair)
    invocation = (await run.shown("app.service", "InvocationID"))["InvocationID"]
    assert (env["A"], env["INVOCATION_ID"]) == ("1", invocation)
    assert "HOME" not in env
    assert (await run("cat", f"/proc/{pid}/cgroup")).text == "0::/system.slice/app.service\n"


async def test_only_the_machines_own_processes_are_in_its_proc(run: Session) -> None:
    missing = await run("cat", "/proc/1/cmdline")
    assert (missing.status, missing.stderr) == (1, b"cat: /proc/1/cmdline: No such file or directory\n")
    assert (await run("ls", "/proc")).text == ""


async def test_a_childs_lines_carry_the_childs_pid(run: Session) -> None:
    unit(run, "--child")
    pid = await up(run)
    await run.until(lambda: any(r.text("MESSAGE") == "child" for r in run.machine.journal.records))
    pids = {r.text("MESSAGE"): int(r.text("_PID")) for r in run.machine.journal.records}
    members = {int(p) for p in (await run("cat", "/sys/fs/cgroup/system.slice/app.service/cgroup.procs")).text.split()}
    assert pids["ready"] == pid
    assert members == {pid, pids["child"]}


async def test_an_exit_status_is_the_units_result(run: Session) -> None:
    unit(run, "--exit 3")
    await run("systemctl", "start", "app.service")
    await run.until(lambda: any("Failed with" in r.text("MESSAGE") for r in run.machine.journal.records))
    assert (await run.said("app.service"))[-3:] == [
        "words --exit 3",
        "app.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED",
        "app.service: Failed with result 'exit-code'.",
    ]


async def test_a_child_that_is_deaf_is_killed_after_the_stop_timeout(run: Session) -> None:
    unit(run, "--child", "TimeoutStopSec=300ms\n")
    await up(run)
    await run.until(lambda: any(r.text("MESSAGE") == "child" for r in run.machine.journal.records))
    assert (await run("systemctl", "stop", "app.service")).status == 0
    assert (await run.shown("app.service", "Result", "ActiveState")) == {"Result": "timeout", "ActiveState": "failed"}
    assert (await run("cat", "/sys/fs/cgroup/system.slice/app.service/cgroup.procs")).status == 1


async def test_kill_mode_process_leaves_the_child_and_its_later_lines_count_for_the_next_run(run: Session) -> None:
    unit(run, "--child", "KillMode=process\n")
    await up(run)
    await run.until(lambda: any(r.text("MESSAGE") == "child" for r in run.machine.journal.records))
    await run("systemctl", "stop", "app.service")
    (left,) = (await run("cat", "/sys/fs/cgroup/system.slice/app.service/cgroup.procs")).text.split()
    assert f"app.service: Unit process {left} ({Path(sys.executable).name}" in " ".join(await run.said("app.service"))
    await run("systemctl", "start", "app.service")
    invocation = (await run.shown("app.service", "InvocationID"))["InvocationID"]
    mark = {"_PID": left, "_SYSTEMD_INVOCATION_ID": invocation, "MESSAGE": "tick"}
    await run.until(lambda: any(all(r.text(k) == v for k, v in mark.items()) for r in run.machine.journal.records))
    await run("systemctl", "kill", "--signal=SIGKILL", "app.service")
    await run.until(lambda: not run.machine.processes())


async def test_a_listener_is_shown_with_the_process_that_holds_it(run: Session, unused_tcp_port: int) -> None:
    unit(run, f"--port {unused_tcp_port}")
    pid = await up(run)
    shown = await run("ss", "-H", "-ltnp", f"sport = :{unused_tcp_port}")
    assert shown.text.startswith(f"LISTEN 0      128    127.0.0.1:{unused_tcp_port} 0.0.0.0:* users:((")
    assert f"pid={pid}," in shown.text
    await run("systemctl", "stop", "app.service")
    assert (await run("ss", "-H", "-ltnp", f"sport = :{unused_tcp_port}")).text == ""


async def test_http_goes_to_the_real_loopback(run: Session, unused_tcp_port: int) -> None:
    async with httpx.AsyncClient(transport=run.machine.transport()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{unused_tcp_port}/health")


async def test_a_session_runs_programs_below_the_root_too(run: Session) -> None:
    done = await run("/opt/app/run", "--exit", "4")
    assert (done.status, done.stderr) == (4, b"words --exit 4\n")
    missing = await run("/opt/app/none")
    assert missing.status == 127


async def test_a_unit_of_the_machines_own_program_never_reaches_the_real_host(run: Session, tmp_path: Path) -> None:
    path = tmp_path / "outside"
    await run("systemd-run", "--unit=x", "--property=Type=oneshot", "--", "tee", "--", str(path))
    assert not path.exists()
    assert (await run.shown("x.service", "LoadState"))["LoadState"] == "loaded"


async def test_a_program_without_its_execute_bit_is_203(run: Session) -> None:
    run.machine.files.chmod("/opt/app/run", 0o644)
    unit(run, "")
    await run("systemctl", "start", "app.service")
    await run.until(lambda: any("Failed with" in r.text("MESSAGE") for r in run.machine.journal.records))
    assert "app.service: Failed at step EXEC spawning /opt/app/run: Permission denied" in await run.said("app.service")
