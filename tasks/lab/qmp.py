"""QEMU's machine protocol (QMP): one command at a time over the machine's own socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tenacity import stop_after_delay, wait_fixed

from state.errors import StepFailed
from tasks.again import ask_again

ANSWER_TIMEOUT_S = 60.0


class Qmp:
    """A connection that has negotiated its capabilities."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def __call__(self, command: str, **arguments: object) -> Any:
        """What the command returns. Raises StepFailed with QEMU's words, TimeoutError, OSError."""
        asked = json.dumps({"execute": command, "arguments": arguments})
        self._writer.write(asked.encode() + b"\n")
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while line := await self._reader.readline():
                answer = json.loads(line)
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise StepFailed("lab-vm", f"QEMU refused {command}: {answer['error'].get('desc')}")
        raise StepFailed("lab-vm", f"QEMU ended instead of answering {command}")

    async def until(self, command: str, *, leaves: tuple[str, ...], timeout_s: float) -> str:
        """The status that a query tells once it is none of `leaves`, or the last of them when the time is up."""

        async def status() -> str:
            return str((await self(command)).get("status", leaves[0]))

        return await ask_again(status, leaves.__contains__, wait=wait_fixed(0.05), stop=stop_after_delay(timeout_s))


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[Qmp]:
    """Raises OSError where nothing listens."""
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        await reader.readline()  # the greeting
        qmp = Qmp(reader, writer)
        await qmp("qmp_capabilities")
        yield qmp
    finally:
        writer.close()
        await writer.wait_closed()
