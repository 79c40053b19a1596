"""Asking the service's own endpoint, as seen from its host."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from state.engines.engine import HttpQuestion
from tasks.hosts.port import Host

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished exchange: status (0 where no answer came, with `error`), body, seconds it took."""

    status: int
    body: bytes
    seconds: float
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status == 200


@dataclass(frozen=True, slots=True)
class Heard:
    """A streamed exchange: status (0 where no answer came), each line with the seconds after which it came, the seconds
    to its end, and `error` where it did not end well."""

    status: int
    lines: tuple[tuple[float, str], ...]
    seconds: float
    error: str = ""


class Endpoint:
    """The service's HTTP endpoint through its host.

    Questions never raise for what the far side does: an answer that did not come is an observation too.
    """

    def __init__(self, host: Host, url: str, clock: Clock = time.monotonic) -> None:
        self._client = httpx.AsyncClient(transport=host.transport(), base_url=url, trust_env=False)
        self._clock = clock
        self.url = url

    async def ask(self, question: HttpQuestion, *, timeout_s: float) -> Answer:
        begun = self._clock()
        try:
            async with asyncio.timeout(timeout_s):  # httpx bounds each read alone: a stream could dribble for ever
                response = await self._client.request(
                    question.method, question.path, json=_body(question), timeout=timeout_s
                )
            return Answer(response.status_code, response.content, self._clock() - begun)
        except (httpx.TimeoutException, TimeoutError):
            return Answer(0, b"", self._clock() - begun, f"no answer within {timeout_s:g} s")
        except httpx.TransportError as error:
            return Answer(0, b"", self._clock() - begun, str(error) or type(error).__name__)

    async def listen(self, question: HttpQuestion, *, timeout_s: float) -> Heard:
        """The answer line by line as it comes; what came before a break is kept."""
        begun = self._clock()
        status, lines, error = 0, list[tuple[float, str]](), ""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._client.stream(
                    question.method, question.path, json=_body(question), timeout=timeout_s
                ) as response:
                    status = response.status_code
                    async for line in response.aiter_lines():
                        lines.append((self._clock() - begun, line))
        except (httpx.TimeoutException, TimeoutError):
            error = f"no whole answer within {timeout_s:.4g} s"
        except httpx.TransportError as broken:
            error = str(broken) or type(broken).__name__
        return Heard(status if lines or not error else 0, tuple(lines), self._clock() - begun, error)

    async def __aenter__(self) -> "Endpoint":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


def _body(question: HttpQuestion) -> Mapping[str, object] | None:
    return dict(question.body) if question.body is not None else None
