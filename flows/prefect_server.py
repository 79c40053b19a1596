"""Prefect's server as `flows.prefect_home` starts it: what `prefect server start` runs, ended with its parent, and with
pages that ask no other machine for anything.

    python -c "from flows.prefect_server import main; main()" PARENT_PID HOST PORT
"""

import ctypes
import os
import signal
import sys
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""


def main() -> None:
    parent, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if sys.platform == "linux":  # a killed orchestrator leaves no server behind
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the process that started this server is gone")
    from prefect.server.api.server import create_app

    app: Any = create_app(final=True)
    uvicorn.run(KeptHere(app, port), host=host, port=port, timeout_keep_alive=5, log_level="warning")


class KeptHere:
    """Prefect's pages ask a maker of analytics for its settings whenever they are loaded, analytics off or not (3.9.1).
    A content security policy keeps the browser from it: they may ask this server alone, by whichever name it goes."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        names = [f"{scheme}://{name}:{port}" for scheme in ("http", "ws") for name in ("127.0.0.1", "localhost")]
        self._app, self._policy = app, f"connect-src 'self' {' '.join(names)}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"content-security-policy", self._policy)]}
            await send(message)

        await self._app(scope, receive, sent if scope["type"] == "http" else send)
