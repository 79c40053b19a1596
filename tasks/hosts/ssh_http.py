"""HTTP as a host sees it: httpx over TCP connections that its sshd opens (direct-tcpip)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import asyncssh
import httpcore
import httpx

from state.errors import HostUnreachable

Streams = tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]
Opening = Callable[[asyncssh.SSHClientConnection], Awaitable[Streams]]
Opened = Callable[[Opening], Awaitable[Streams]]
Lost = Callable[[str], HostUnreachable]
"""Makes the error that says, with this detail, that the SSH connection is gone."""


class TunnelledTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 through SSH. A port that refuses there is httpx.ConnectError; HostUnreachable where SSH fails, at any
    moment: an answer that was lost on the way says nothing about the one who gave it.

    Plain http alone: the words travel inside SSH, and a URL with 127.0.0.1 never leaves the host.
    """

    def __init__(self, opened: Opened, lost: Lost) -> None:
        self._pool = httpcore.AsyncConnectionPool(network_backend=_Backend(opened, lost), max_connections=None)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme != "http":
            raise httpx.UnsupportedProtocol(f"Only http URLs go through SSH, not {request.url}", request=request)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        sent = httpcore.Request(
            request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        try:
            response = await self._pool.handle_async_request(sent)
        except _FAILURES as error:
            raise _translated(error, request) from error
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response, request),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response, request: httpx.Request) -> None:
        self._response, self._request = response, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._response.aiter_stream():
                yield part
        except _FAILURES as error:
            raise _translated(error, self._request) from error

    async def aclose(self) -> None:
        await self._response.aclose()


_FAILURES = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)


def _translated(error: Exception, request: httpx.Request) -> httpx.TransportError:
    """httpx has an exception of the same name for each of httpcore's (0.28 and 1.0)."""
    kind = next(
        k.__name__ for k in type(error).__mro__ if issubclass(getattr(httpx, k.__name__, object), httpx.HTTPError)
    )
    named: type[httpx.TransportError] = getattr(httpx, kind)
    return named(str(error), request=request)


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, opened: Opened, lost: Lost) -> None:
        self._opened, self._lost = opened, lost

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await self._opened(lambda connection: connection.open_connection(host, port))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"{host}:{port} did not answer within {timeout} s") from error
        except asyncssh.ChannelOpenError as error:
            raise httpcore.ConnectError(f"{host}:{port}: {error.reason}") from error
        except (OSError, asyncssh.DisconnectError) as error:
            raise self._lost(f"the connection was lost while port {port} was opened ({error})") from error
        return _Stream(reader, writer, self._lost)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes], lost: Lost) -> None:
        self._reader, self._writer, self._lost = reader, writer, lost

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 (the same)
        try:
            async with asyncio.timeout(timeout):
                got = await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(f"no answer within {timeout} s") from error
        except (OSError, asyncssh.Error) as error:
            raise self._lost(f"the connection was lost before the answer came ({error})") from error
        if not got and self._writer.get_extra_info("connection").is_closed():
            raise self._lost("the connection was closed before the answer came")
        return got

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the same)
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(f"not taken within {timeout} s") from error
        except (OSError, asyncssh.Error) as error:
            raise self._lost(f"the connection was lost before all was asked ({error})") from error

    async def aclose(self) -> None:
        self._writer.close()

    def get_extra_info(self, info: str) -> Any:
        # Asked of an idle connection: anything to read then means that the far side has closed it.
        return self._reader.at_eof() or self._writer.is_closing() if info == "is_readable" else None
