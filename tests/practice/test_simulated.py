"""The simulated host, and the faults that can be injected below it."""

import asyncio
import json

import httpx
import pytest

from state.errors import ArgvFailed, DeadlineExceeded, HostUnreachable, PrivilegeRefused
from tasks.argv import WRITE_VALUE
from tasks.hosts.port import Argv, Completed
from tasks.practice.host import PracticeMachine
from tasks.practice.simulated import SimulatedHost
from tasks.script import must, render_batch, render_sequence, split_frames
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

WHO = Argv(("id", "-un"))
WHO_AS_ROOT = Argv(("id", "-un"), root=True)


def host(**how: object) -> tuple[PracticeMachine, SimulatedHost]:
    machine = PracticeMachine(factory=acting(**how))
    return machine, SimulatedHost(machine, "gpu-1", "interlock")


@in_virtual_time
async def test_an_argv_is_roots_only_where_it_asks() -> None:
    _, reached = host()
    me, root = await reached.run_all([WHO, WHO_AS_ROOT], timeout_s=1)
    assert (me.text, root.text) == ("interlock\n", "root\n")


@in_virtual_time
async def test_a_refused_sudo_is_a_refusal_of_privilege() -> None:
    machine, reached = host()
    machine.faults.sudo_refused = True
    with pytest.raises(PrivilegeRefused, match="sudo refused interlock on gpu-1: a password is required"):
        await reached.run_all([WHO_AS_ROOT], timeout_s=1)
    (me,) = await reached.run_all([WHO], timeout_s=1)
    assert me.ok


@in_virtual_time
async def test_a_hanging_argv_ends_at_the_deadline() -> None:
    machine, reached = host()
    machine.faults.hang(lambda words: words[0] == "id")
    with pytest.raises(DeadlineExceeded, match="did not end within 30 s"):
        await reached.run_all([WHO], timeout_s=30)
    assert asyncio.get_running_loop().time() == pytest.approx(30)


@in_virtual_time
async def test_a_cut_machine_is_unreachable_until_it_is_restored() -> None:
    machine, reached = host()
    machine.faults.cut()
    with pytest.raises(HostUnreachable):
        await reached.run_all([WHO], timeout_s=1)
    machine.faults.restore()
    assert (await reached.run_all([WHO], timeout_s=1))[0].ok


@pytest.mark.parametrize(
    ("after", "left"),
    [pytest.param(False, 1, id="before-nothing-is-done"), pytest.param(True, 0, id="after-it-is-done-all-the-same")],
)
@in_virtual_time
async def test_the_session_is_lost_at_the_nth_argv(after: bool, left: int) -> None:
    machine, reached = host()
    machine.faults.cut_nth(2, after=after)
    touch = Argv(("sh", "-c", WRITE_VALUE, "sh", "/tmp/mark", "1"), root=True)
    with pytest.raises(HostUnreachable):
        await reached.run_all([WHO, touch], timeout_s=1)
    (seen,) = await reached.run_all([Argv(("test", "-e", "/tmp/mark"))], timeout_s=1)
    assert seen.status == left


@in_virtual_time
async def test_work_goes_on_without_its_session() -> None:
    machine, reached = host(dies_s=10.0)
    run = Session(machine)
    run.install("app.service", "[Service]\nExecStart=/opt/app/run\n")
    await run("systemctl", "start", "app.service")
    stopping = asyncio.ensure_future(
        reached.run_all([Argv(("systemctl", "stop", "app.service"), root=True)], timeout_s=60)
    )
    await asyncio.sleep(1)
    machine.faults.drop()
    with pytest.raises(HostUnreachable):
        await stopping
    await asyncio.sleep(20)
    assert (await run.shown("app.service", "ActiveState"))["ActiveState"] == "inactive"


@in_virtual_time
async def test_following_ends_with_its_session() -> None:
    machine, reached = host()
    seen = []

    async def follow() -> None:
        async with reached.follow(Argv(("journalctl", "-o", "cat", "--follow"), root=True)) as lines:
            async for line in lines:
                seen.append(line)
                machine.faults.drop()

    following = asyncio.ensure_future(follow())
    await asyncio.sleep(1)
    machine.kernel("one")
    with pytest.raises(HostUnreachable):
        await following
    assert seen == [b"one"]


@in_virtual_time
async def test_following_is_refused_where_sudo_says_no() -> None:
    machine, reached = host()
    machine.faults.sudo_refused = True
    with pytest.raises(PrivilegeRefused):
        async with reached.follow(Argv(("journalctl", "--follow"), root=True)) as lines:
            await anext(lines)
    with pytest.raises(ArgvFailed, match="Failed to seek to cursor"):
        async with reached.follow(Argv(("journalctl", "--follow", "--after-cursor=s=0;i=1"))) as lines:
            await anext(lines)


@in_virtual_time
async def test_a_reboot_ends_the_sessions() -> None:
    machine, reached = host()
    machine.faults.hang(lambda words: words[0] == "id")
    asking = asyncio.ensure_future(reached.run_all([WHO], timeout_s=60))
    await asyncio.sleep(1)
    await machine.reboot()
    with pytest.raises(HostUnreachable):
        await asking
    assert (await reached.run_all([WHO], timeout_s=1))[0].ok


@in_virtual_time
async def test_an_argv_can_be_made_to_fail_without_effect() -> None:
    machine, reached = host()
    machine.faults.fail(lambda words: words[0] == "mkdir", Completed(1, b"", b"mkdir: Input/output error\n"))
    first, second = await reached.run_all([Argv(("mkdir", "-p", "--", "/tmp/a"))] * 2, timeout_s=1)
    assert (first.status, second.status) == (1, 0)


@in_virtual_time
async def test_a_full_disk_takes_nothing_and_truncates_what_is_written_over() -> None:
    machine, _ = host()
    run = Session(machine)
    await run("tee", "--", "/tmp/a", stdin=b"old")
    machine.files.full = True
    full = await run("tee", "--", "/tmp/a", stdin=b"new")
    assert (full.status, full.stderr) == (1, b"tee: /tmp/a: No space left on device\n")
    assert (await run("cat", "/tmp/a")).text == ""
    assert (await run("df", "--output=avail", "-B1", "--", "/tmp")).text == "Avail\n    0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("cat", "--", "/etc/secret"), "cat: /etc/secret: Permission denied\n", id="read"),
        pytest.param(
            ("rm", "-f", "--", "/etc/secret"), "rm: cannot remove '/etc/secret': Permission denied\n", id="remove"
        ),
        pytest.param(
            ("mv", "-T", "-f", "--", "/etc/secret", "/tmp/s"),
            "mv: cannot move '/etc/secret' to '/tmp/s': Permission denied\n",
            id="move",
        ),
        pytest.param(("tee", "--", "/etc/new"), "tee: /etc/new: Permission denied\n", id="write"),
        pytest.param(
            ("mkdir", "--", "/etc/new"), "mkdir: cannot create directory ‘/etc/new’: Permission denied\n", id="mkdir"
        ),
    ],
)
@in_virtual_time
async def test_the_mode_bits_hold_for_everybody_but_root(words: tuple[str, ...], said: str) -> None:
    machine, _ = host()
    machine.files.put("/etc/secret", "s", mode=0o600)
    denied = await Session(machine, "interlock")(*words)
    assert (denied.status, denied.stderr.decode()) == (1, said)
    assert (await Session(machine)(*words)).ok


@in_virtual_time
async def test_a_batch_frames_what_each_argv_said() -> None:
    run = Session(host()[0])
    text = render_batch([("echo", "a b"), ("false",), ("cat", "--", "/nope")], "m4rk")
    done = await run("/bin/sh", "-c", text)
    assert split_frames(done.stdout, done.stderr, "m4rk", 3) == (
        Completed(0, b"a b\n"),
        Completed(1),
        Completed(1, b"", b"cat: /nope: No such file or directory\n"),
    )


@in_virtual_time
async def test_a_sequence_stops_at_its_first_failure() -> None:
    run = Session(host()[0])
    done = await run("/bin/sh", "-c", render_sequence([must("true"), must("false"), must("tee", "--", "/tmp/x")]))
    assert (done.status, done.stderr) == (1, b"interlock: exit 1: false\n")
    assert (await run("test", "-e", "/tmp/x")).status == 1


@in_virtual_time
async def test_any_other_shell_text_is_refused() -> None:
    refused = await Session(host()[0])("/bin/sh", "-c", "rm -rf / # whatever")
    assert refused.status == 2
    assert b"not a script that interlock wrote" in refused.stderr


@in_virtual_time
async def test_an_unknown_program_ends_with_127() -> None:
    assert (await Session(host()[0])("frobnicate")).status == 127
    (seen,) = await host()[1].run_all([Argv(("frobnicate",), root=True)], timeout_s=1)
    assert seen.status == 127


@in_virtual_time
async def test_http_reaches_what_listens_and_nothing_else() -> None:
    machine, reached = host(ports=[30000])
    run = Session(machine)
    run.install("app.service", "[Service]\nExecStart=/opt/app/run\n")
    async with httpx.AsyncClient(transport=reached.transport()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:30000/health")
        await run("systemctl", "start", "app.service")
        answer = await client.get("http://127.0.0.1:30000/health")
        assert json.loads(answer.text) == {"path": "/health"}
    listening = await run("ss", "-H", "-ltnp", "sport = :30000")
    assert listening.text == 'LISTEN 0      128    127.0.0.1:30000 0.0.0.0:* users:(("run",pid=14363,fd=30))\n'
    mine = await Session(machine, "interlock")("ss", "-H", "-ltnp", "sport = :30000")
    assert mine.text == "LISTEN 0      128    127.0.0.1:30000 0.0.0.0:*\n"


@pytest.mark.parametrize(
    ("words", "out"),
    [
        pytest.param(("id", "-u"), "0\n", id="id"),
        pytest.param(("uname", "-r"), "6.1.0-37-amd64\n", id="uname"),
        pytest.param(("hostname",), "gpu-1\n", id="hostname"),
        pytest.param(("sudo", "-n", "--", "sudo", "-n", "--", "id", "-un"), "root\n", id="sudo-twice"),
    ],
)
@in_virtual_time
async def test_small_programs(words: tuple[str, ...], out: str) -> None:
    assert (await Session(host()[0])(*words)).text == out
