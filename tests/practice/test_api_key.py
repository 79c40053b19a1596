"""An API key: read from its file once, sent to the service alone, and hidden in whatever the service tells."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.engines.engine import HttpQuestion
from state.errors import StepFailed
from tasks.api_key import ApiKey
from tasks.endpoint import Endpoint
from tasks.hosts.port import Argv, Completed, Host
from tasks.practice.host import PracticeMachine
from tasks.practice.simulated import SimulatedHost

KEY = 'Zebra/"rosa"+41'
PATH = "/etc/interlock/qwen.key"
URL = "http://127.0.0.1:30000"
GET, POST = HttpQuestion("GET", "/server_info"), HttpQuestion("POST", "/generate", {"text": "The"})

Answering = Callable[[httpx.Request], httpx.Response]


@dataclass
class Watched:
    """A practice host whose service answers as told; what it was asked is kept."""

    inner: Host
    answering: Answering
    asked: list[httpx.Request] = field(default_factory=list)
    ran: list[Argv] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        self.ran += argvs
        return await self.inner.run_all(argvs, timeout_s=timeout_s)

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.inner.follow(argv)

    def transport(self) -> httpx.AsyncBaseTransport:
        def answer(request: httpx.Request) -> httpx.Response:
            self.asked.append(request)
            return self.answering(request)

        return httpx.MockTransport(answer)

    async def aclose(self) -> None:
        await self.inner.aclose()


def fine(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"text": " lazy dog"})


def host(content: bytes | None = KEY.encode(), answering: Answering = fine) -> Watched:
    machine = PracticeMachine("llm-two")
    if content is not None:
        machine.files.put(PATH, content, mode=0o600)
    return Watched(SimulatedHost(machine, "serving", "interlock", "sudo"), answering)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(KEY.encode(), id="without-an-end-of-line"),
        pytest.param(f"{KEY}\n".encode(), id="a-line"),
        pytest.param(f"\n \t{KEY} \r\n\n".encode(), id="whitespace-around-it"),
    ],
)
async def test_the_key_is_sent_with_every_question_and_read_once(content: bytes) -> None:
    watched = host(content)
    async with Endpoint(watched, URL, key_file=PATH) as endpoint:
        await asyncio.gather(*(endpoint.ask(question, timeout_s=5.0) for question in (GET, POST, GET)))
        await endpoint.listen(POST, timeout_s=5.0)
    assert [request.headers["Authorization"] for request in watched.asked] == [f"Bearer {KEY}"] * 4
    assert watched.ran == [Argv(("cat", "--", PATH), root=True)]


async def test_without_a_file_nothing_is_read_and_nothing_sent() -> None:
    watched = host()
    async with Endpoint(watched, URL) as endpoint:
        await endpoint.ask(GET, timeout_s=5.0)
        await endpoint.listen(POST, timeout_s=5.0)
    assert ["Authorization" in request.headers for request in watched.asked] == [False, False]
    assert watched.ran == []


@pytest.mark.parametrize("place", ["http://elsewhere.example/x", "http://127.0.0.1:8080/x", "/x"])
async def test_nobody_gets_the_key_by_a_redirection(place: str) -> None:
    watched = host(answering=lambda _: httpx.Response(307, headers={"location": place}))
    async with Endpoint(watched, URL, key_file=PATH) as endpoint:
        answer = await endpoint.ask(GET, timeout_s=5.0)
        heard = await endpoint.listen(POST, timeout_s=5.0)
    assert (answer.status, heard.status) == (307, 307)
    assert {request.url.port for request in watched.asked} == {30000}
    assert len(watched.asked) == 2


FORMS = [KEY, json.dumps(KEY)[1:-1], json.dumps(KEY)[1:-1].replace("/", r"\/"), "Zebra%2F%22rosa%22%2B41"]
ECHOES: list[Answering | object] = [
    pytest.param(lambda _: httpx.Response(200, json={"api_key": KEY, "version": "0.5.23"}), id="server-info"),
    pytest.param(lambda r: httpx.Response(403, text=f"no: {r.headers['authorization']}"), id="an-error"),
    pytest.param(lambda _: httpx.Response(200, text=f"a\ndata: {json.dumps({'text': f'{KEY}.'})}\n"), id="a-stream"),
    pytest.param(lambda _: httpx.Response(200, text=" ".join(FORMS)), id="as-JSON-and-URLs-write-it"),
]


@pytest.mark.parametrize("answering", ECHOES)
async def test_a_key_that_is_told_back_is_hidden(answering: Answering) -> None:
    async with Endpoint(host(answering=answering), URL, key_file=PATH) as endpoint:
        answer = await endpoint.ask(GET, timeout_s=5.0)
        heard = await endpoint.listen(GET, timeout_s=5.0)
    told = answer.body.decode() + "\n".join(line for _, line in heard.lines)
    assert [form for form in FORMS if form in told] == []
    assert told.count("<redacted>") >= 2


async def test_an_error_of_the_transport_does_not_tell_the_key() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.LocalProtocolError(f"Illegal header value {request.headers['authorization']!r}")

    async with Endpoint(host(answering=broken), URL, key_file=PATH) as endpoint:
        answer = await endpoint.ask(GET, timeout_s=5.0)
        heard = await endpoint.listen(GET, timeout_s=5.0)
    assert answer.error == heard.error == "Illegal header value 'Bearer <redacted>'"


BAD = [
    # a file's content, None for none; what is wrong with it
    pytest.param(None, "does not exist on serving", id="missing"),
    pytest.param(b"", "is empty", id="empty"),
    pytest.param(b" \n\n", "is empty", id="blank"),
    pytest.param(b"Zebra-41\nOkapi-77\n", "has 2 lines", id="two-keys"),
    pytest.param(b"VLLM_API_KEY=Zebra-41\n", "sets a variable", id="a-variable"),
    pytest.param(b"api-key: Zebra-41\n", "more than a word of ASCII", id="a-configuration"),
    pytest.param("Zebra-\u00e4\u00f6\u00fc".encode(), "more than a word of ASCII", id="no-ascii"),
    pytest.param(b"Zebra\x00-41", "more than a word of ASCII", id="a-null"),
    pytest.param(b"Zebra\xff-41", "more than a word of ASCII", id="no-text"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "wrong"), BAD)
async def test_a_file_that_holds_no_key_is_named_and_its_content_is_not(content: bytes | None, wrong: str) -> None:
    watched = host(content)
    with pytest.raises(StepFailed, match=rf"engine\.key_file: {PATH} .*{wrong}") as raised:
        async with Endpoint(watched, URL, key_file=PATH) as endpoint:
            await endpoint.ask(GET, timeout_s=5.0)
    assert not re.search("Zebra|Okapi", f"{raised.value} {raised.value.hint}")
    assert watched.asked == []


def test_a_key_is_in_no_representation() -> None:
    assert KEY not in repr(ApiKey(KEY))


LETTERS = "ABCxyz019-._~+/="
ANSWER = {"id": "cmpl-1", "created": 1764516900, "choices": [{"text": " 42", "finish_reason": "stop"}], "took": 0.2}


@given(st.text(LETTERS, min_size=6, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_whatever_the_key_it_is_hidden_and_the_answer_can_be_read(key: str, before: str, behind: str) -> None:
    told = json.dumps({**ANSWER, "error": f"{before} {key} {behind}"}).encode()
    hidden = ApiKey(key).hide(told)
    assert key not in json.loads(hidden)["error"] or key in before + behind
    assert "<redacted>" in json.loads(hidden)["error"]


POOR = [
    pytest.param("choices", ANSWER, id="the-name-of-a-field"),
    pytest.param("764516", ANSWER, id="a-part-of-a-number"),
    pytest.param("EMPTY", {**ANSWER, "x": "EMPTY"}, id="too-short-to-be-a-secret"),
]


@pytest.mark.parametrize(("key", "answer"), POOR)
def test_a_poor_key_spoils_no_answer(key: str, answer: dict[str, object]) -> None:
    assert json.loads(ApiKey(key).hide(json.dumps(answer).encode())) == answer
    told = ApiKey(key).hide(f'{{"error": "not {key}, sir"}}'.encode())
    assert (b"<redacted>" in told) is (len(key) >= 6)
