"""What every answer carries, and which Host headers are answered: one layer around the whole application."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.api.problems import answer, problem

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""A route may set one of these itself, as the report's page does its policy."""


class AnswerHeaders:
    """Puts ALWAYS into every answer, and answers no other Host than `hosts` names (any, where it is empty)."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] = ()) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self._hosts and _name(Headers(scope=scope).get("host", "")) not in self._hosts:
            refused = answer(problem(421, "host-unknown", "This server does not answer to that Host header"))
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _name(host: str) -> str:
    """A Host header without its port."""
    bare = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return bare.lower()
