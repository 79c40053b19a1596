"""Asking the service's own endpoint, as seen from its host."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import httpx

from state.engines.engine import HttpQuestion
from state.keyless import UNAUTHORIZED
from state.target import Target
from tasks.api_key import ApiKey, read_key
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


class Lacking(NamedTuple):
    """That a service asks for another key than was sent: a sentence, and what to do."""

    sentence: str
    hint: str


class Endpoint:
    """The service's HTTP endpoint through its host.

    Questions never raise for what the far side does: an answer that did not come is an observation too. Where there is
    a `key_file` on the host, its key is read once, on entering, so that no question's time is spent on it; it is sent
    with each question, and hidden in each answer. Entering raises StepFailed for a file that holds none, and what the
    Host port raises. A redirection is an answer, and is never followed.
    """

    def __init__(self, host: Host, url: str, clock: Clock = time.monotonic, *, key_file: str | None = None) -> None:
        self._client = httpx.AsyncClient(
            transport=host.transport(), base_url=url, trust_env=False, follow_redirects=False
        )
        self._host, self._clock, self._key_file = host, clock, key_file
        self._key: ApiKey | None = None
        self.url = url

    @classmethod
    def of(cls, host: Host, target: Target, clock: Clock = time.monotonic) -> "Endpoint":
        """The endpoint of a service on its host, with its key if it has one."""
        return cls(host, target.endpoint, clock, key_file=target.key_file)

    def without_key(self) -> "Endpoint":
        """The same endpoint for who has no key."""
        return Endpoint(self._host, self.url, self._clock)

    def lacking_key(self, status: int) -> Lacking | None:
        """What to say where that status of an answer means that no key, or not the right one, was sent."""
        host, path = self._host.name, self._key_file
        if status not in UNAUTHORIZED:
            return None
        if path is None:
            return Lacking(
                f"{self.url} on {host} asks for an API key (HTTP {status}), and `engine.key_file` names none",
                f"put the key, and nothing else, into a root-only file on {host}, and name it as `engine.key_file`",
            )
        return Lacking(
            f"{self.url} on {host} does not take the API key in {path} (HTTP {status})",
            f"put the key with which the service was started into {path}; `engine.key_file` names that file",
        )

    async def ask(self, question: HttpQuestion, *, timeout_s: float) -> Answer:
        key, begun = self._key, self._clock()
        try:
            async with asyncio.timeout(timeout_s):  # httpx bounds each read alone: a stream could dribble for ever
                response = await self._client.request(
                    question.method, question.path, json=_body(question), timeout=timeout_s, headers=_header(key)
                )
            body = key.hide(response.content) if key else response.content
            return Answer(response.status_code, body, self._clock() - begun)
        except (httpx.TimeoutException, TimeoutError):
            return Answer(0, b"", self._clock() - begun, f"no answer within {timeout_s:g} s")
        except httpx.TransportError as error:
            return Answer(0, b"", self._clock() - begun, _told(error, key))

    async def listen(self, question: HttpQuestion, *, timeout_s: float) -> Heard:
        """The answer line by line as it comes; what came before a break is kept."""
        key, begun = self._key, self._clock()
        status, lines, error = 0, list[tuple[float, str]](), ""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._client.stream(
                    question.method, question.path, json=_body(question), timeout=timeout_s, headers=_header(key)
                ) as response:
                    status = response.status_code
                    async for line in response.aiter_lines():
                        lines.append((self._clock() - begun, key.hide_in(line) if key else line))
        except (httpx.TimeoutException, TimeoutError):
            error = f"no whole answer within {timeout_s:.4g} s"
        except httpx.TransportError as broken:
            error = _told(broken, key)
        return Heard(status if lines or not error else 0, tuple(lines), self._clock() - begun, error)

    async def __aenter__(self) -> "Endpoint":
        if self._key_file is not None:
            self._key = await read_key(self._host, self._key_file)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


def _header(key: ApiKey | None) -> Mapping[str, str]:
    return key.header if key else {}


def _told(error: httpx.TransportError, key: ApiKey | None) -> str:
    told = str(error) or type(error).__name__
    return key.hide_in(told) if key else told


def _body(question: HttpQuestion) -> Mapping[str, object] | None:
    return dict(question.body) if question.body is not None else None
