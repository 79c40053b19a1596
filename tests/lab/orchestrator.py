"""An orchestrator in a process of its own that is killed, as by `kill -9`, the moment an event is recorded.

python -m tests.lab.orchestrator MANIFEST EVENT ACTION
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from flows import requests
from flows.ports import Watch
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import RecordedEvent


async def run(text: str, manifest: str, event: str, action: str) -> None:
    def killed_at(_: Rollout, recorded: RecordedEvent) -> None:
        if (recorded.type, recorded.data.get("action")) == (event, action):
            os.kill(os.getpid(), signal.SIGKILL)

    wanted = load_manifest(text, manifest)
    async with wired(Settings(), Watch(recorded=killed_at)) as (ports, _):
        await begin(ports, requests.from_manifest(ports, wanted, "rollout", "to be killed"))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]).read_text(encoding="utf-8"), *sys.argv[1:]))
