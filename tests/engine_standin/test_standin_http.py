"""The hand-written HTTP against clients that misbehave."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from tasks.practice.engine.http1 import start_http
from tasks.practice.engine.protocol import Request, Response


async def _parts() -> AsyncIterator[bytes]:
    for part in (b"one", b"two"):
        yield part
        await asyncio.sleep(0)


async def _handler(request: Request) -> Response:
    if request.path == "/stream":
        return Response(200, content_type="text/plain", stream=_parts())
    if request.path == "/never":
        await asyncio.Event().wait()
    return Response(200, request.body or request.path.encode(), "text/plain")


async def exchanged(sent: bytes) -> bytes:
    listener = socket.create_server(("127.0.0.1", 0))
    server = await start_http(listener, _handler)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(sent)
    writer.write_eof()
    async with asyncio.timeout(5):
        received = await reader.read()
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    return received


async def test_no_part_of_an_answer_waits_for_an_acknowledgement_of_the_one_before() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = await start_http(listener, _handler)
    with socket.create_connection(listener.getsockname()):
        accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    server.close()
    await server.wait_closed()


CLOSE = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        pytest.param(b"GET /a HTTP/1.0\r\n\r\n", b"200 OK", b"/a", id="HTTP/1.0 closes"),
        pytest.param(b"\r\nGET /a?b=c HTTP/1.1\r\n" + CLOSE, b"200 OK", b"/a", id="empty line before, query after"),
        pytest.param(
            b"GET /stream HTTP/1.1\r\n" + CLOSE, b"200 OK", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", id="chunks out"
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"2;x=y\r\nhi\r\n0\r\nT: v\r\n\r\n",
            b"200 OK",
            b"hi",
            id="chunks in, with extension and trailer",
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n" + CLOSE + b"hi",
            b"100 Continue",
            b"hi",
            id="expectation",
        ),
        pytest.param(b"nonsense\r\n\r\n", b"400 Bad Request", b"Invalid HTTP request received.", id="no request"),
        pytest.param(
            b"POST /a HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400 Bad Request", b"received.", id="length no number"
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"400 Bad Request",
            b"received.",
            id="bad chunk",
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            b"413 Content Too Large",
            b"received.",
            id="too long",
        ),
        pytest.param(b"GET /" + b"a" * 70_000, b"400 Bad Request", b"received.", id="endless head"),
    ],
)
async def test_exchanges(sent: bytes, status: bytes, body: bytes) -> None:
    received = await exchanged(sent)
    assert received.startswith(b"HTTP/1.1 " + status)
    assert received.endswith(body)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HT", id="cut head"),
        pytest.param(b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nhi", id="cut body"),
        pytest.param(b"GET /never HTTP/1.1\r\n\r\n", id="gone while waiting"),
    ],
)
async def test_a_client_that_leaves_early_gets_nothing(sent: bytes) -> None:
    assert await exchanged(sent) == b""
