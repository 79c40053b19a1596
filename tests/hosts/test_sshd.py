"""The practice sshd's own: who may come in, and HTTP to ports that are in a machine's memory alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import httpx
import pytest

from tasks.hosts.ssh import SshHost
from tasks.practice.sshd import PracticeSshd
from tests.hosts.local_machine import LocalMachine
from tests.hosts.reached import login, practice_sshd


class InMemory(LocalMachine):
    """The same machine with one port, 30000, that nothing real listens on."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(cwd)
        self.asked: list[httpx.Request] = []
        self.hanging = asyncio.Event()

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.MockTransport(self._answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        match request.url.path:
            case "/hang":
                self.hanging.set()
                await asyncio.Event().wait()
            case "/reset":
                raise httpx.ReadError("reset", request=request)
            case "/stream":
                return httpx.Response(200, content=_parts())
        return httpx.Response(201, headers={"x-engine": "in-memory"}, content=await request.aread())


async def _parts() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"data: %d\n\n" % number


@pytest.fixture
def machine(tmp_path: Path) -> InMemory:
    return InMemory(tmp_path)


@pytest.fixture
async def client(machine: InMemory, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with practice_sshd(machine, in_memory=lambda: {30000}) as sshd:
        host = SshHost("gpu-1", login(sshd, tmp_path))
        async with httpx.AsyncClient(transport=host.transport(), base_url="http://127.0.0.1:30000") as client:
            yield client
        await host.aclose()


async def test_requests_reach_the_machine_whole(client: httpx.AsyncClient, machine: InMemory) -> None:
    for body in (b"", b"x" * 300_000):
        response = await client.post("/v1/completions?a=b%20c", content=body, headers={"authorization": "Bearer t"})
        assert (response.status_code, response.headers["x-engine"], response.content) == (201, "in-memory", body)
    assert str(machine.asked[1].url) == "http://127.0.0.1:30000/v1/completions?a=b%20c"
    assert machine.asked[1].headers["authorization"] == "Bearer t"


async def test_streams_arrive_in_parts(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/stream") as response:
        assert b"".join([part async for part in response.aiter_raw()]) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


async def test_a_machine_that_resets_is_a_cut_connection(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await client.get("/reset")
    assert (await client.get("/")).status_code == 201


async def test_a_machine_that_hangs_is_a_timeout(client: httpx.AsyncClient, machine: InMemory) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await client.get("/hang", timeout=0.1)
    assert machine.hanging.is_set()


async def test_other_ports_are_the_real_ones(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ConnectError):
        await client.get("http://127.0.0.1:1/")


async def test_there_is_no_shell_and_no_subsystem(tmp_path: Path) -> None:
    async with practice_sshd(LocalMachine(tmp_path)) as sshd:
        given = login(sshd, tmp_path)
        connection = await asyncssh.connect(
            "127.0.0.1",
            sshd.port,
            username=given.user,
            client_keys=list(given.client_keys),
            known_hosts=([asyncssh.import_public_key(sshd.host_public_key)], [], []),
            config=(),
        )
        for asked in ({"command": None}, {"command": None, "subsystem": "sftp"}):
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.create_process(**asked)
        assert (await connection.run("echo 'no end", stdin=asyncssh.DEVNULL)).exit_status == 2
        assert (await connection.run("env LC_ALL=C", stdin=asyncssh.DEVNULL)).exit_status == 2
        connection.close()
        await connection.wait_closed()


async def test_a_given_host_key_is_kept(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    sshd = PracticeSshd(
        LocalMachine(tmp_path), users=(), authorized_keys=(), host_key=key.export_private_key().decode()
    )
    assert asyncssh.import_public_key(sshd.host_public_key) == key.convert_to_public()
