"""TCP to a port that is in a practice machine's memory alone: HTTP/1.1 off the channel, answered by the machine."""

import asyncio

import asyncssh
import h11
import httpx

_CHUNK = 1 << 16


async def bridge(
    reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes], transport: httpx.AsyncBaseTransport, port: int
) -> None:
    """Serve one channel until either side closes it. A transport error of the machine is a connection cut short."""
    serving = asyncio.ensure_future(_serve(reader, writer, transport, port))
    gone = asyncio.ensure_future(writer.channel.wait_closed())
    try:
        await asyncio.wait({serving, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        serving.cancel()
        gone.cancel()
        await asyncio.gather(serving, gone, return_exceptions=True)
        writer.close()
    if not serving.cancelled():
        serving.result()


async def _serve(
    reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes], transport: httpx.AsyncBaseTransport, port: int
) -> None:
    parser = h11.Connection(h11.SERVER)
    while (request := await _request(reader, parser, port)) is not None:
        try:
            response = await transport.handle_async_request(request)
            await _respond(writer, parser, response)
        except (httpx.TransportError, BrokenPipeError):
            return
        if parser.our_state is not h11.DONE or parser.their_state is not h11.DONE:
            return
        parser.start_next_cycle()


async def _request(reader: asyncssh.SSHReader[bytes], parser: h11.Connection, port: int) -> httpx.Request | None:
    """The next whole request; None at the end of the connection."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        match parser.next_event():
            case h11.NEED_DATA:
                parser.receive_data(await reader.read(_CHUNK))
            case h11.Request() as head:
                pass
            case h11.Data(data=data):
                body += data
            case h11.EndOfMessage() if head is not None:
                url = httpx.URL(scheme="http", host="127.0.0.1", port=port, raw_path=head.target)
                return httpx.Request(head.method.decode(), url, headers=list(head.headers), content=bytes(body))
            case _:
                return None


async def _respond(writer: asyncssh.SSHWriter[bytes], parser: h11.Connection, response: httpx.Response) -> None:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    reason = response.extensions.get("reason_phrase", b"")
    head = h11.Response(status_code=response.status_code, headers=response.headers.raw, reason=reason)
    try:
        writer.write(parser.send(head) or b"")
        async for part in response.stream:
            writer.write(parser.send(h11.Data(data=part)) or b"")
            await writer.drain()
        writer.write(parser.send(h11.EndOfMessage()) or b"")
    finally:
        await response.aclose()
