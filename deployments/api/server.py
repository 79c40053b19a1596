"""uvicorn for the API: event streams end before it waits for its connections."""

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
        try:
            await super().startup(sockets)
        finally:
            self.answering.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_stop()
        await asyncio.sleep(0)  # the streams see it in this turn of the loop
        await super().shutdown(sockets)
