"""HTTP/1.1 over asyncio's streams: kept connections, bodies by length or in chunks, answers whole or streamed."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from .protocol import REASONS, Request, Response

Handler = Callable[[Request], Awaitable[Response]]

_MOST_HEAD = 64 * 1024
_MOST_BODY = 64 * 1024 * 1024


class Malformed(Exception):
    """Not a request; `status` says how it is answered."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Inbox:
    """What a connection has sent, with a buffer of our own so that waiting for its end loses nothing."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._buffer = reader, bytearray()

    async def fill(self) -> bool:
        data = await self._reader.read(65536)
        self._buffer += data
        return bool(data)

    async def closed(self) -> None:
        """Comes back when the client has gone."""
        while await self.fill():
            pass

    async def until(self, mark: bytes, most: int) -> bytes:
        """Everything up to and without `mark`. Raises EOFError, Malformed."""
        while (place := self._buffer.find(mark)) < 0:
            if len(self._buffer) > most:
                raise Malformed(400, "too long")
            if not await self.fill():
                raise EOFError
        found = bytes(self._buffer[:place])
        del self._buffer[: place + len(mark)]
        return found

    async def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not await self.fill():
                raise EOFError
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found


async def start_http(listener: socket.socket, handler: Handler) -> asyncio.AbstractServer:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _serve(_Inbox(reader), writer, handler)
        except (EOFError, ConnectionError):
            pass
        finally:
            writer.close()

    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn's connections have it; they inherit it
    return await asyncio.start_server(connected, sock=listener)


async def _serve(inbox: _Inbox, writer: asyncio.StreamWriter, handler: Handler) -> None:
    host, port, *_ = writer.get_extra_info("peername") or ("127.0.0.1", 0)
    going_on = True
    while going_on:
        try:
            request = await _read(inbox, writer, f"{host}:{port}")
        except Malformed as error:
            await _write(
                writer,
                Response(error.status, b"Invalid HTTP request received.", "text/plain; charset=utf-8"),
                keep=False,
            )
            return
        going_on = request.headers.get("connection", "").lower() != "close"
        if not await _while_connected(inbox, _exchange(writer, handler, request, keep=going_on)):
            return


async def _exchange(writer: asyncio.StreamWriter, handler: Handler, request: Request, *, keep: bool) -> None:
    await _write(writer, await handler(request), keep=keep)


async def _while_connected(inbox: _Inbox, work: Awaitable[None]) -> bool:
    """Do the work, giving it up when the client goes away; whether it was done."""
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(inbox.closed())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        done = task.done()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.wait({task, watch})  # the watch must have let go of the stream before anybody reads again
    if done:
        task.result()
    return done


async def _read(inbox: _Inbox, writer: asyncio.StreamWriter, client: str) -> Request:
    head = (await inbox.until(b"\r\n\r\n", _MOST_HEAD)).decode("latin-1").lstrip("\r\n")
    first, *rest = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Malformed(400, first)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    if words[2] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    path, _, query = words[1].partition("?")
    return Request(words[0], path, headers, await _body(inbox, headers), client, query)


async def _body(inbox: _Inbox, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(inbox)
    length = headers.get("content-length", "0")
    if not length.isdigit():
        raise Malformed(400, "content-length")
    if int(length) > _MOST_BODY:
        raise Malformed(413, "body")
    return await inbox.exactly(int(length))


async def _chunks(inbox: _Inbox) -> bytes:
    found = bytearray()
    while True:
        size = (await inbox.until(b"\r\n", _MOST_HEAD)).partition(b";")[0]
        try:
            count = int(size, 16)
        except ValueError as error:
            raise Malformed(400, "chunk") from error
        if len(found) + count > _MOST_BODY:
            raise Malformed(413, "body")
        if not count:
            while await inbox.until(b"\r\n", _MOST_HEAD):
                pass
            return bytes(found)
        found += await inbox.exactly(count)
        await inbox.exactly(2)


async def _write(writer: asyncio.StreamWriter, response: Response, *, keep: bool) -> None:
    moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, '')}", f"date: {moment}", "server: uvicorn"]
    if response.stream is None:
        lines.append(f"content-length: {len(response.body)}")
    if response.content_type:
        lines.append(f"content-type: {response.content_type}")
    if response.stream is not None:
        lines.append("Transfer-Encoding: chunked")
    if not keep:
        lines.append("connection: close")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + response.body)
    if response.stream is not None:
        await _write_chunks(writer, response.stream)
    await writer.drain()


async def _write_chunks(writer: asyncio.StreamWriter, stream: AsyncIterator[bytes]) -> None:
    async with aclosing(stream) as parts:  # type: ignore[type-var]  # an async generator, which has aclose
        async for part in parts:
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
    writer.write(b"0\r\n\r\n")
