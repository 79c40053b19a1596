"""uvicorn for the API: no answer is held back, and event streams end before it waits for its connections."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn


class Server(uvicorn.Server):
    """`before_stop` is called when it is to stop, before it waits for the requests that are under way."""

    def __init__(self, config: uvicorn.Config, before_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._before_stop = before_stop
        self.answering = asyncio.Event()
        """Set once the server listens, or has given up."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Connections take TCP_NODELAY from the socket that listens (tcp(7)). asyncio sets it only where the socket's
        protocol number is TCP's, not 0 as in one from `create_server`; an answer's body then waits some 40 ms for the
        acknowledgement of its head (Nagle's algorithm and delayed acknowledgements, RFC 9293, 3.7.4 and 3.8.6.3)."""
        for listening in sockets or ():
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await super().startup(sockets)
        finally:
            self.answering.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_stop()
        await asyncio.sleep(0)  # the streams see it in this turn of the loop
        await super().shutdown(sockets)
