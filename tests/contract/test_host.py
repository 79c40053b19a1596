"""What every adapter of the `Host` port promises. Adapters are listed in `tests/hosts/reached.py`."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from state.errors import DeadlineExceeded, HostUnreachable, PrivilegeRefused
from tasks.hosts.port import Argv, Completed, Host
from tests.hosts.adapter import Adapter, Reach, Reached
from tests.hosts.reached import ADAPTERS

pytestmark = pytest.mark.asyncio(loop_scope="module")  # a connection that tests share lives on one loop


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ADAPTERS.values(), ids=ADAPTERS.keys())
async def adapter(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Adapter, Reach]]:
    async with request.param.opened() as reach:
        yield request.param, reach


@pytest_asyncio.fixture(loop_scope="module")
async def reached(
    request: pytest.FixtureRequest, adapter: tuple[Adapter, Reach], tmp_path: Path
) -> AsyncIterator[Reached]:
    (which, reach), test = adapter, request.node.originalname.removeprefix("test_")
    if reason := which.cannot.get(test):
        pytest.skip(reason)
    async with reach(tmp_path, test != "sudo_that_says_no") as found:
        yield found


async def run(host: Host, *words: str, stdin: bytes = b"", root: bool = False) -> Completed:
    (completed,) = await host.run_all([Argv(words, stdin, root)], timeout_s=20)
    return completed


NASTY = [
    pytest.param("plain", id="a-plain-word"),
    pytest.param("two words", id="a-space"),
    pytest.param("line\nbreak", id="a-newline"),
    pytest.param("run x\nmust y", id="what-looks-like-a-script-line"),
    pytest.param('it\'s "quoted"', id="both-quotes"),
    pytest.param("back\\slash\\n", id="backslashes"),
    pytest.param("$HOME `id` $(id)", id="expansions"),
    pytest.param("*?[a-z]{a,b}~", id="globs"),
    pytest.param("; rm -rf x && y | z > w &", id="operators"),
    pytest.param("-n", id="what-looks-like-an-option"),
    pytest.param("#no comment", id="a-hash"),
    pytest.param("ünïcødé ☃ 模型", id="unicode"),
    pytest.param("\ttab\r", id="tab-and-carriage-return"),
    pytest.param("A=B", id="what-looks-like-an-assignment"),
    pytest.param("!history !!", id="exclamation-marks"),
]


@pytest.mark.parametrize("word", NASTY)
async def test_words_arrive_as_they_are(reached: Reached, word: str) -> None:
    path = f"{reached.directory}/{word}"
    assert (await run(reached.host, "tee", "--", path, stdin=b"kept")).ok
    assert await run(reached.host, "cat", "--", path) == Completed(0, b"kept")


@pytest.mark.parametrize("word", NASTY)
async def test_words_of_a_batch_arrive_as_they_are(reached: Reached, word: str) -> None:
    path = f"{reached.directory}/{word}"
    argvs = [Argv(("mkdir", "--", path)), Argv(("stat", "--format", "%F", "--", path))]
    assert await reached.host.run_all(argvs, timeout_s=20) == (Completed(0), Completed(0, b"directory\n"))


async def test_an_empty_word_stays_a_word(reached: Reached) -> None:
    completed = await run(reached.host, "cat", "--", "")
    assert completed.status == 1
    assert completed.stderr.startswith(b"cat: ")


@pytest.mark.parametrize("words", [("cat", "a\0b"), ("cat\0",)], ids=["in-a-word", "in-the-program"])
async def test_a_nul_is_refused(reached: Reached, words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="No program can be given a word with a NUL in it"):
        await reached.host.run_all([Argv(words)], timeout_s=20)


async def test_an_argv_needs_a_program(reached: Reached) -> None:
    with pytest.raises(ValueError, match="An argv needs the name of a program"):
        await reached.host.run_all([Argv(())], timeout_s=20)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(bytes(range(256)) * 3, id="every-byte"),
        pytest.param(b"no newline at the end", id="no-last-newline"),
        pytest.param(b"\n\n\n", id="newlines-alone"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe not utf-8 \x80", id="not-utf-8"),
    ],
)
async def test_bytes_pass_both_ways(reached: Reached, content: bytes) -> None:
    path = f"{reached.directory}/bytes"
    assert await run(reached.host, "tee", "--", path, stdin=content) == Completed(0, content)
    assert await run(reached.host, "cat", "--", path) == Completed(0, content)
    both = await reached.host.run_all([Argv(("cat", "--", path))] * 2, timeout_s=20)
    assert both == (Completed(0, content), Completed(0, content))


async def test_five_megabytes_pass_both_ways(reached: Reached) -> None:
    content = hashlib.shake_256(b"interlock").digest(5_000_000)
    path = f"{reached.directory}/big"
    await run(reached.host, "tee", "--", path, stdin=content)
    read, digest = await reached.host.run_all(
        [Argv(("cat", "--", path)), Argv(("sha256sum", "--", path))], timeout_s=20
    )
    assert read.stdout == content
    assert digest.text.split()[0] == hashlib.sha256(content).hexdigest()


async def test_a_status_is_an_answer(reached: Reached) -> None:
    assert (await run(reached.host, "true")).status == 0
    assert (await run(reached.host, "false")).status == 1


async def test_no_such_program_is_127(reached: Reached) -> None:
    """The shell says `not found`; the `env` in front of the program, where one is, has other words."""
    completed = await run(reached.host, "no-such-program")
    assert completed.status == 127
    assert re.search(b"no-such-program.*: (not found|No such file or directory)$", completed.stderr.rstrip())


async def test_no_such_program_is_127_for_root_too(reached: Reached) -> None:
    completed = await run(reached.host, "no-such-program", root=True)
    assert completed.status == 127
    assert b"not found" in completed.stderr


async def test_stderr_is_kept_apart(reached: Reached) -> None:
    completed = await run(reached.host, "cat", "--", f"{reached.directory}/absent")
    assert completed.stdout == b""
    assert b"absent: No such file or directory" in completed.stderr


async def test_a_batch_goes_on_after_a_failure_and_keeps_the_order(reached: Reached) -> None:
    path = f"{reached.directory}/file"
    argvs = [
        Argv(("cat", "--", path)),
        Argv(("no-such-program",)),
        Argv(("false",)),
        Argv(("mkdir", "--", path)),
        Argv(("stat", "--format", "%F", "--", path)),
    ]
    found = await reached.host.run_all(argvs, timeout_s=20)
    assert [completed.status for completed in found] == [1, 127, 1, 0, 0]
    assert b"No such file" in found[0].stderr
    assert b"not found" in found[1].stderr
    assert [c.stderr for c in found[2:]] == [b"", b"", b""]
    assert found[4].stdout == b"directory\n"


async def test_thirty_reads_are_one_round_trip(reached: Reached) -> None:
    for number in range(30):
        await run(reached.host, "tee", "--", f"{reached.directory}/{number}", stdin=f"{number}".encode())
    assert reached.round_trips is not None
    before = await reached.round_trips()
    reads = [Argv(("cat", "--", f"{reached.directory}/{number}"), root=number % 2 == 1) for number in range(30)]
    found = await reached.host.run_all(reads, timeout_s=20)
    assert [completed.text for completed in found] == [str(number) for number in range(30)]
    assert await reached.round_trips() - before == 1


async def test_no_argv_is_no_round_trip(reached: Reached) -> None:
    assert await reached.host.run_all([], timeout_s=20) == ()
    assert reached.round_trips is None or await reached.round_trips() == 0


async def test_only_a_single_argv_may_carry_stdin(reached: Reached) -> None:
    with pytest.raises(ValueError, match="Only a single argv may carry stdin"):
        await reached.host.run_all([Argv(("cat",), b"x"), Argv(("true",))], timeout_s=20)


async def test_what_a_batch_runs_has_no_stdin(reached: Reached) -> None:
    assert await reached.host.run_all([Argv(("cat",)), Argv(("true",))], timeout_s=20) == (Completed(0), Completed(0))


async def test_stdin_reaches_root(reached: Reached) -> None:
    path = f"{reached.directory}/of-root"
    assert await run(reached.host, "tee", "--", path, stdin=b"secret", root=True) == Completed(0, b"secret")
    assert (await run(reached.host, "cat", "--", path, root=True)).stdout == b"secret"


@pytest.mark.parametrize("batch", [False, True], ids=["alone", "in-a-batch"])
async def test_sudo_that_says_no(reached: Reached, batch: bool) -> None:
    assert (await run(reached.host, "true")).ok
    argvs = [Argv(("true",), root=True), *[Argv(("true",))] * batch]
    with pytest.raises(PrivilegeRefused, match=r"^sudo refused interlock on gpu-1: a password is required$") as refused:
        await reached.host.run_all(argvs, timeout_s=20)
    assert refused.value.hint == "grant the commands listed in docs/reference/sudoers.md without a password"


async def test_an_argv_that_does_not_end_is_given_up(reached: Reached) -> None:
    with pytest.raises(DeadlineExceeded, match=r"`.+` on gpu-1 did not end within 0\.1 s$") as exceeded:
        await reached.host.run_all([reached.slow], timeout_s=0.1)
    assert exceeded.value.seconds == 0.1
    assert (await run(reached.host, "true")).ok


async def test_a_session_lost_mid_argv_is_said_and_the_effect_stays(reached: Reached) -> None:
    path = f"{reached.directory}/made"
    await reached.lose_next()
    with pytest.raises(HostUnreachable, match=r"^Cannot reach gpu-1 at .+: .+") as lost:
        await run(reached.host, "mkdir", "--", path)
    assert lost.value.retryable
    assert (await run(reached.host, "stat", "--format", "%F", "--", path)).text == "directory\n"


async def test_many_at_once(reached: Reached) -> None:
    async def written_and_read(number: int) -> bytes:
        path = f"{reached.directory}/{number}"
        await run(reached.host, "tee", "--", path, stdin=b"%d" % number)
        return (await run(reached.host, "cat", "--", path)).stdout

    assert await asyncio.gather(*map(written_and_read, range(40))) == [b"%d" % number for number in range(40)]


async def test_following_gives_lines_as_they_come(reached: Reached) -> None:
    async with asyncio.timeout(20), reached.host.follow(reached.follow) as lines:
        for said in ("first", "with 'quotes'", "ünïcødé"):
            await reached.say(said)
            assert said.encode() in await anext(lines)


async def test_following_two_at_once_while_running(reached: Reached) -> None:
    async with (
        asyncio.timeout(20),
        reached.host.follow(reached.follow) as one,
        reached.host.follow(reached.follow) as two,
    ):
        await reached.say("to both")
        assert (await run(reached.host, "true")).ok
        assert b"to both" in await anext(one)
        assert b"to both" in await anext(two)


async def test_leaving_ends_the_following_at_once(reached: Reached) -> None:
    async with asyncio.timeout(20):
        async with reached.host.follow(reached.follow):
            pass
        assert (await run(reached.host, "true")).ok


async def test_http_to_the_hosts_own_loopback(reached: Reached) -> None:
    async with reached.serve() as port, httpx.AsyncClient(transport=reached.host.transport()) as client:
        for _ in range(2):
            response = await client.get(f"http://127.0.0.1:{port}/")
            assert (response.status_code, response.text) == (200, "pong")


async def test_http_to_a_port_that_nobody_listens_on(reached: Reached) -> None:
    async with reached.serve() as port:
        pass
    async with httpx.AsyncClient(transport=reached.host.transport()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_a_closed_host_opens_again_when_it_is_used(reached: Reached) -> None:
    assert (await run(reached.host, "true")).ok
    await reached.host.aclose()
    assert (await run(reached.host, "true")).ok
