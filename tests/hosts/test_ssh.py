"""What is SSH's own: sessions kept, lost and had again, keys that are checked, and the words of each refusal."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncssh
import httpx
import pytest

from state.errors import (
    ArgvFailed,
    DeadlineExceeded,
    HostKeyMismatch,
    HostUnreachable,
    InterlockError,
    PrivilegeRefused,
)
from tasks.hosts.port import Argv, Completed
from tasks.hosts.ssh import LONGEST_COMMAND, SshHost
from tasks.practice.sshd import PracticeSshd
from tests.hosts.local_machine import LocalMachine
from tests.hosts.reached import login, pong, practice_sshd

TRUE = Argv(("true",))


@pytest.fixture
def machine(tmp_path: Path) -> LocalMachine:
    return LocalMachine(tmp_path)


@pytest.fixture
async def sshd(machine: LocalMachine) -> AsyncIterator[PracticeSshd]:
    async with practice_sshd(machine) as sshd:
        yield sshd


@pytest.fixture
async def host(sshd: PracticeSshd, tmp_path: Path) -> AsyncIterator[SshHost]:
    host = SshHost("gpu-1", login(sshd, tmp_path))
    yield host
    await host.aclose()


async def refusal_of(host: SshHost) -> InterlockError:
    with pytest.raises(InterlockError) as refused:
        await host.run_all([TRUE], timeout_s=5)
    await host.aclose()
    return refused.value


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 (what the far side has done by itself sets no event here)
            await asyncio.sleep(0.005)


class Naps:
    """A sleep that only notes how long it was asked to be."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_one_connection_serves_every_call(sshd: PracticeSshd, host: SshHost) -> None:
    await asyncio.gather(*(host.run_all([TRUE], timeout_s=5) for _ in range(20)))
    async with pong() as port, httpx.AsyncClient(transport=host.transport()) as client:
        await client.get(f"http://127.0.0.1:{port}/")
    assert (sshd.connections, sshd.execs, sshd.streams) == (1, 20, 1)


@pytest.mark.parametrize("max_sessions", [1, 2, 7])
async def test_a_full_connection_is_joined_by_others(sshd: PracticeSshd, host: SshHost, max_sessions: int) -> None:
    sshd.max_sessions = max_sessions
    for _ in range(2):
        found = await asyncio.gather(*(host.run_all([Argv(("sleep", "0.05"))], timeout_s=20) for _ in range(15)))
        assert found == [(Completed(0),)] * 15
    assert 1 < sshd.connections <= 10


async def test_an_sshd_that_opens_no_session_at_all(sshd: PracticeSshd, host: SshHost) -> None:
    sshd.max_sessions = 0
    with pytest.raises(HostUnreachable, match="sshd opened no session: open failed"):
        await host.run_all([TRUE], timeout_s=20)


async def test_a_quick_program_may_end_before_its_input_is_sent(host: SshHost) -> None:
    for _ in range(20):
        assert await host.run_all([Argv(("true",), b"x" * 100_000)], timeout_s=5) == (Completed(0),)


async def test_nothing_is_opened_before_it_is_needed(sshd: PracticeSshd, host: SshHost) -> None:
    host.transport()
    host.follow(TRUE)
    await asyncio.sleep(0)
    assert sshd.connections == 0


async def test_after_a_cut_the_next_call_reaches_again(sshd: PracticeSshd, host: SshHost) -> None:
    await host.run_all([TRUE], timeout_s=5)
    await sshd.cut()
    assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
    assert sshd.connections == 2


async def test_what_ran_when_the_connection_was_lost_is_not_run_again(
    sshd: PracticeSshd, host: SshHost, machine: LocalMachine
) -> None:
    sshd.lost_answers = 1
    with pytest.raises(
        HostUnreachable, match=r"^Cannot reach gpu-1 at 127\.0\.0\.1:\d+: the connection was lost while `touch` ran$"
    ) as lost:
        await host.run_all([Argv(("touch", "once"))], timeout_s=5)
    assert lost.value.retryable
    assert machine.ran == [("touch", "once")]


async def test_twenty_follows_do_not_keep_anything_from_running(host: SshHost) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        for _ in range(20):
            await stack.enter_async_context(host.follow(Argv(("tail", "-f", "/dev/null"))))
        assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)


async def test_a_far_host_takes_its_time(sshd: PracticeSshd, host: SshHost) -> None:
    sshd.delay_s = 0.05
    began = asyncio.get_running_loop().time()
    assert await host.run_all([TRUE] * 10, timeout_s=5) == (Completed(0),) * 10
    assert 0.05 <= asyncio.get_running_loop().time() - began < 0.5


async def test_a_connection_that_went_silent_takes_nothing_of_the_time_that_an_argv_has(
    sshd: PracticeSshd, tmp_path: Path, machine: LocalMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after its keepalives, four times as long as the argv may take."""
    monkeypatch.setattr("tasks.hosts.ssh_options.KEEPALIVE_S", 0.5)
    wire = Wire(sshd.port)
    async with await asyncio.start_server(wire.carry, "127.0.0.1", 0) as server:
        host = SshHost("gpu-1", replace(login(sshd, tmp_path), port=server.sockets[0].getsockname()[1]))
        assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
        wire.silence()
        assert await host.run_all([TRUE], timeout_s=0.5) == (Completed(0),)
        await host.aclose()
        await wire.aclose()
    assert machine.ran == [("true",)] * 2
    assert sshd.connections == 2


@dataclass
class Wire:
    """Carries connections to a port; those that stand can be made to swallow what is sent, both ways, unclosed."""

    port: int
    silent: set[asyncio.StreamWriter] = field(default_factory=set)
    standing: set[asyncio.StreamWriter] = field(default_factory=set)

    def silence(self) -> None:
        self.silent |= self.standing

    async def aclose(self) -> None:
        for end in self.standing:
            end.close()
        await asyncio.gather(*(end.wait_closed() for end in self.standing), return_exceptions=True)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.standing |= {writer, far_writer}
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if writer not in self.silent:
                    writer.write(data)
                    await writer.drain()
        writer.close()


async def test_a_connection_reset_while_a_session_is_asked_for_is_lost_in_one_sentence(
    host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the power cut of a host does (tests/lab/test_outages.py): asyncssh lets the socket's own error through."""

    async def reset(*_given: object, **_named: object) -> None:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    with monkeypatch.context() as patched:
        patched.setattr(asyncssh.SSHClientConnection, "create_session", reset)
        with pytest.raises(
            HostUnreachable, match="the connection was lost at its start: Connection reset by peer"
        ) as lost:
            await host.run_all([TRUE], timeout_s=5)
    assert lost.value.retryable
    assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)


async def test_a_stalled_sshd_is_given_up_in_time(sshd: PracticeSshd, host: SshHost, machine: LocalMachine) -> None:
    sshd.stall()
    with pytest.raises(DeadlineExceeded, match=r"^`true` on gpu-1 did not end within 0\.05 s$"):
        await host.run_all([TRUE], timeout_s=0.05)
    await until(lambda: not sshd.running)
    sshd.resume()
    assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
    assert machine.ran == [("true",)]


async def test_a_deadline_ends_the_remote_process(host: SshHost, machine: LocalMachine) -> None:
    with pytest.raises(DeadlineExceeded):
        await host.run_all([Argv(("sleep", "30"))], timeout_s=0.2)
    async with asyncio.timeout(5):
        assert await machine.children[0].wait() < 0


async def test_leaving_a_follow_ends_the_remote_process(host: SshHost, machine: LocalMachine) -> None:
    async with host.follow(Argv(("tail", "-f", "/dev/null"))):
        await until(lambda: len(machine.children) == 1)
    async with asyncio.timeout(5):
        assert await machine.children[0].wait() < 0


async def test_a_cancelled_call_ends_the_remote_process(host: SshHost, machine: LocalMachine) -> None:
    running = asyncio.create_task(host.run_all([Argv(("sleep", "30"))], timeout_s=60))
    await until(lambda: len(machine.children) == 1)
    running.cancel()
    async with asyncio.timeout(5):
        assert await machine.children[0].wait() < 0


async def test_a_lost_connection_ends_a_follow_with_words(sshd: PracticeSshd, host: SshHost) -> None:
    async with asyncio.timeout(5), host.follow(Argv(("tail", "-f", "/dev/null"))) as lines:
        await sshd.cut()
        with pytest.raises(HostUnreachable, match="the connection was lost while `tail` ran"):
            await anext(lines)


async def test_a_follow_that_gets_much_reads_no_faster_than_it_is_taken(host: SshHost, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("".join(f"{n:200}\n" for n in range(20_000)) + "last")
    async with asyncio.timeout(30), host.follow(Argv(("tail", "-f", "-n", "+1", str(tmp_path / "many")))) as lines:
        for number in range(20_000):
            assert await anext(lines) == b"%200d" % number


async def test_http_whose_connection_is_cut_says_nothing_about_the_service(sshd: PracticeSshd, host: SshHost) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await sshd.cut()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with httpx.AsyncClient(transport=host.transport()) as client:
            with pytest.raises(HostUnreachable, match=r"the connection was (lost|closed) before"):
                await client.get(f"http://127.0.0.1:{port}/")


async def test_http_that_is_late_is_a_timeout(host: SshHost) -> None:
    released = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    async with await asyncio.start_server(late, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with httpx.AsyncClient(transport=host.transport(), timeout=0.1) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(f"http://127.0.0.1:{port}/")
        released.set()


async def test_http_elsewhere_than_loopback_is_refused_by_this_sshd(host: SshHost) -> None:
    async with httpx.AsyncClient(transport=host.transport()) as client:
        with pytest.raises(httpx.ConnectError, match="only loopback may be reached"):
            await client.get("http://192.0.2.1:80/")


async def test_https_is_refused_with_words(host: SshHost) -> None:
    async with httpx.AsyncClient(transport=host.transport()) as client:
        with pytest.raises(httpx.UnsupportedProtocol, match="Only http URLs go through SSH"):
            await client.get("https://127.0.0.1:1/")


async def test_a_batch_too_long_for_one_command_goes_in_several(sshd: PracticeSshd, host: SshHost) -> None:
    words = ("printf", "%s", "x" * 50_000)
    found = await host.run_all([Argv(words)] * 5, timeout_s=20)
    assert [len(completed.stdout) for completed in found] == [50_000] * 5
    assert sshd.execs == 3


async def test_an_argv_too_long_for_linux_is_refused(host: SshHost) -> None:
    with pytest.raises(ValueError, match=rf"is longer than the {LONGEST_COMMAND} that Linux takes"):
        await host.run_all([Argv(("printf", "x" * 200_000))], timeout_s=5)


async def test_an_environment_of_its_own(host: SshHost) -> None:
    (completed,) = await host.run_all([Argv(("sh", "-c", 'test -t 0 || test -t 1 || echo "$LC_ALL"'))], timeout_s=5)
    assert completed == Completed(0, b"C\n")


async def test_a_program_ended_by_a_signal_is_128_and_its_number(host: SshHost) -> None:
    (completed,) = await host.run_all([Argv(("sh", "-c", "kill -9 $$"))], timeout_s=5)
    assert completed.status == 137


async def test_a_batch_whose_shell_dies_names_the_argv(host: SshHost) -> None:
    argvs = [TRUE, Argv(("sh", "-c", "kill -9 $PPID")), TRUE]
    with pytest.raises(HostUnreachable, match="the shell of a batch ended at argv 2 of 3, status 137: no stderr"):
        await host.run_all(argvs, timeout_s=5)


async def test_a_refused_sudo_while_following(tmp_path: Path) -> None:
    async with practice_sshd(LocalMachine(tmp_path, sudo_allowed=False)) as sshd:
        host = SshHost("gpu-1", login(sshd, tmp_path))
        with pytest.raises(PrivilegeRefused, match="sudo refused interlock on gpu-1: a password is required"):
            await host.run_all([Argv(("true",), root=True)], timeout_s=5)
        await host.aclose()


async def test_root_without_become_is_run_as_it_is(sshd: PracticeSshd, tmp_path: Path, machine: LocalMachine) -> None:
    host = SshHost("gpu-1", login(sshd, tmp_path, become=None))
    await host.run_all([Argv(("true",), root=True)], timeout_s=5)
    await host.aclose()
    assert machine.ran == [("true",)]


async def test_another_host_key_than_the_pinned_one(sshd: PracticeSshd, tmp_path: Path) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    pinned = other.export_public_key().decode()
    shown = asyncssh.import_public_key(sshd.host_public_key).get_fingerprint()
    host = SshHost("gpu-1", login(sshd, tmp_path, host_key=pinned), sleep=(naps := Naps()))
    error = await refusal_of(host)
    assert isinstance(error, HostKeyMismatch)
    assert str(error) == (
        f"gpu-1 ({sshd.address}) showed a host key that is not the pinned one: "
        f"it showed {shown}, pinned is {other.get_fingerprint()}"
    )
    assert "put its new key into `hosts.gpu-1.host_key`" in error.hint
    assert naps.slept == []


async def test_a_pinned_key_of_a_type_that_the_host_does_not_have(sshd: PracticeSshd, tmp_path: Path) -> None:
    pinned = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode()
    error = await refusal_of(SshHost("gpu-1", login(sshd, tmp_path, host_key=pinned)))
    assert isinstance(error, HostKeyMismatch)
    assert "it has none of that type" in str(error)


async def test_a_host_that_known_hosts_does_not_have(sshd: PracticeSshd, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"[127.0.0.1]:1 {sshd.host_public_key}\n")
    host = SshHost("gpu-1", login(sshd, tmp_path, host_key=None, known_hosts=str(tmp_path / "known")))
    error = await refusal_of(host)
    assert isinstance(error, HostKeyMismatch)
    assert f"which {tmp_path}/known does not have" in str(error)


async def test_a_host_that_known_hosts_has(sshd: PracticeSshd, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd.port} {sshd.host_public_key}\n")
    host = SshHost("gpu-1", login(sshd, tmp_path, host_key=None, known_hosts=str(tmp_path / "known")))
    assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
    await host.aclose()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("UserKnownHostsFile none", id="no-known-hosts-file"),
        pytest.param("UserKnownHostsFile /dev/null\nStrictHostKeyChecking no", id="dev-null-and-no-strictness"),
        pytest.param("UserKnownHostsFile /nonexistent", id="a-file-that-is-not-there"),
        pytest.param("Match final\n  UserKnownHostsFile none", id="no-known-hosts-file-in-a-final-match"),
    ],
)
async def test_no_configuration_switches_the_check_off(
    sshd: PracticeSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config").write_text(f"StrictHostKeyChecking no\n{lines}\n")
    for config in ([str(tmp_path / "config")], None):
        (tmp_path / ".ssh").mkdir(exist_ok=True)
        (tmp_path / ".ssh" / "config").write_text((tmp_path / "config").read_text())
        error = await refusal_of(SshHost("gpu-1", login(sshd, tmp_path, host_key=None, config=config)))
        assert isinstance(error, HostKeyMismatch), error
    assert sshd.connections == 0


async def test_the_users_configuration_is_read(sshd: PracticeSshd, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd.port} {sshd.host_public_key}\n")
    (tmp_path / "config").write_text(
        f"Host gpu\n  HostName 127.0.0.1\n  Port {sshd.port}\n  UserKnownHostsFile {tmp_path}/known\n"
        f"  RemoteCommand rm -rf /\n  RequestTTY force\n  SendEnv *\n  User somebody\n"
    )
    given = login(sshd, tmp_path, host_key=None, config=(str(tmp_path / "config"),))
    host = SshHost("gpu-1", type(given)("gpu", given.user, client_keys=given.client_keys, config=given.config))
    assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
    await host.aclose()


async def test_a_jump_host_is_gone_through_and_checked(
    sshd: PracticeSshd, machine: LocalMachine, tmp_path: Path
) -> None:
    async with practice_sshd(machine) as bastion:
        (tmp_path / "config").write_text(
            f"Host bastion\n  HostName 127.0.0.1\n  Port {bastion.port}\n  User interlock\n"
            f"Host *\n  UserKnownHostsFile {tmp_path}/known\n  IdentityFile {tmp_path}/id_ed25519\n"
            f"Host 127.0.0.1\n  ProxyJump bastion\n"
        )
        host = SshHost("gpu-1", login(sshd, tmp_path, config=(str(tmp_path / "config"),)))
        error = await refusal_of(host)
        assert isinstance(error, HostKeyMismatch)
        assert "jump host bastion showed SHA256:" in str(error)
        (tmp_path / "known").write_text(f"[127.0.0.1]:{bastion.port} {bastion.host_public_key}\n")
        assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
        await host.aclose()
        naps = Naps()
        host = SshHost("gpu-1", login(sshd, tmp_path, port=1, config=(str(tmp_path / "config"),)), sleep=naps)
        assert str(await refusal_of(host)).startswith(
            "Cannot reach gpu-1 at 127.0.0.1:1: [Errno 111] Connect call failed"
        )
        assert len(naps.slept) == 3
        bastion.users = ()
        host = SshHost("gpu-1", login(sshd, tmp_path, config=(str(tmp_path / "config"),)))
        assert "jump host bastion: Permission denied for user interlock" in str(await refusal_of(host))
        bastion.users = {"interlock"}
        assert (bastion.streams, bastion.execs, sshd.execs) == (5, 0, 1)


async def test_a_port_that_nobody_listens_on_is_tried_some_times(sshd: PracticeSshd, tmp_path: Path) -> None:
    host = SshHost("gpu-1", login(sshd, tmp_path), sleep=(naps := Naps()))
    await sshd.refuse()
    error = await refusal_of(host)
    assert isinstance(error, HostUnreachable)
    assert str(error) == f"Cannot reach gpu-1 at {sshd.address}: connection refused"
    assert error.hint == "check the address, the network and sshd on gpu-1"
    assert naps.slept == [0.2, 0.4, 0.8]


async def test_an_sshd_that_comes_back_is_reached(sshd: PracticeSshd, tmp_path: Path) -> None:
    async def back(_: float) -> None:
        await sshd.accept()

    host = SshHost("gpu-1", login(sshd, tmp_path), sleep=back)
    await sshd.refuse()
    assert await host.run_all([TRUE], timeout_s=5) == (Completed(0),)
    await host.aclose()


async def test_a_refused_key_is_not_tried_again(sshd: PracticeSshd, tmp_path: Path) -> None:
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "stranger"))
    stranger = login(sshd, tmp_path, client_keys=(str(tmp_path / "stranger"),))
    error = await refusal_of(SshHost("gpu-1", stranger, sleep=(naps := Naps())))
    assert isinstance(error, HostUnreachable)
    assert error.detail == f"the key of user `interlock` was refused (offered: {tmp_path}/stranger)"
    assert naps.slept == []


async def test_a_user_that_may_not_log_in(sshd: PracticeSshd, tmp_path: Path) -> None:
    error = await refusal_of(SshHost("gpu-1", login(sshd, tmp_path, user="root")))
    assert isinstance(error, HostUnreachable)
    assert error.detail == f"the key of user `root` was refused (offered: {tmp_path}/id_ed25519)"


async def test_something_that_is_no_sshd(tmp_path: Path, sshd: PracticeSshd) -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        host = SshHost("gpu-1", login(sshd, tmp_path, port=port), sleep=Naps())
        assert isinstance(await refusal_of(host), HostUnreachable)


async def test_something_that_never_answers(tmp_path: Path, sshd: PracticeSshd) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        host = SshHost("gpu-1", login(sshd, tmp_path, port=port, connect_timeout_s=0.1), attempts=1)
        error = await refusal_of(host)
    assert isinstance(error, HostUnreachable)
    assert error.detail == "no answer within 0.1 s"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"client_keys": ("/nonexistent",)},
            "the client key `/nonexistent` cannot be read: No such file",
            id="no-client-key",
        ),
        pytest.param(
            {"host_key": None, "known_hosts": "/nonexistent"},
            "the known_hosts file `/nonexistent` cannot be read: No such file",
            id="no-known-hosts",
        ),
    ],
)
async def test_a_file_that_is_not_there(
    sshd: PracticeSshd, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    error = await refusal_of(SshHost("gpu-1", login(sshd, tmp_path, **changes), sleep=(naps := Naps())))
    assert isinstance(error, HostUnreachable)
    assert words in str(error)
    assert naps.slept == []


async def test_a_follow_that_ends_badly_says_why(
    host: SshHost, sshd: PracticeSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The practice sshd follows only journalctl and tail; anything else is run to its end, and its status comes back.
    async with host.follow(Argv(("sh", "-c", "echo one; echo no >&2; exit 3"))) as lines:
        assert await anext(lines) == b"one"
        with pytest.raises(ArgvFailed, match=r"^`sh` exited 3 on gpu-1: no$"):
            await anext(lines)
