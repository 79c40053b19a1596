"""An engine of three stages and no model: what a simulated rollout starts, stops and loses, on asyncio time only."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from tasks.practice.process import Emit

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine

STAGES = ("loading weights", "capturing graphs", "warming up")
PORT = 30_000
API_KEY = "sk-c0ffee5ec2e7c0ffee5ec2e7"
"""Stands in the argv of the old unit and in what the engine prints; it must be nowhere in what is stored."""


@dataclass(frozen=True)
class Script:
    """How starts go: `crash_at` is the stage that ends the process, `dies_after_s` counts from the open port, `stop_s`
    is how long a stop takes, and a `deaf` process heeds SIGKILL alone."""

    stage_s: float = 2.0
    crash_at: int | None = None
    dies_after_s: float | None = None
    stop_s: float = 0.5
    deaf: bool = False


class SmallEngine:
    """Implements `Program`."""

    def __init__(self, machine: "PracticeMachine", script: Script) -> None:
        self.pid = machine.new_pid()
        self._script = script
        self._open = False
        self._stopping = asyncio.Event()

    async def run(self, emit: Emit) -> int:
        try:
            return await self._live(emit)
        finally:
            self._open = False

    async def _live(self, emit: Emit) -> int:
        emit(f"server_args: api_key='{API_KEY}'".encode())
        for number, stage in enumerate(STAGES):
            emit(stage.encode())
            if await self._stopped_within(self._script.stage_s):
                return -signal.SIGTERM
            if number == self._script.crash_at:
                emit(f"failed {stage}".encode())
                return 1
        self._open = True
        emit(b"ready")
        if await self._stopped_within(self._script.dies_after_s):
            await asyncio.sleep(self._script.stop_s)
            return 0
        return 1

    async def _stopped_within(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    def signal(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT) and not self._script.deaf:
            self._stopping.set()

    def listening(self) -> set[int]:
        return {PORT} if self._open else set()

    def children(self) -> Mapping[int, Sequence[str]]:
        return {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"{}", request=request)


class NoProgram:
    """What any other argv of the engine's Python does: it ends at once with status 1."""

    def __init__(self, machine: "PracticeMachine") -> None:
        self.pid = machine.new_pid()

    async def run(self, _emit: Emit) -> int:
        return 1

    def signal(self, number: int) -> None:
        """It has ended."""

    def listening(self) -> set[int]:
        return set()

    def children(self) -> Mapping[int, Sequence[str]]:
        return {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("All connection attempts failed", request=request)
