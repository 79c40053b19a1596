"""Many practice hosts in one process, each behind an SSH server of its own on loopback.

    python -m benchmarks.farm COUNT KEY

KEY is an OpenSSH public key that all of them let in. Prints one JSON list of manifests once all services answer, then
serves until its standard input ends.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.stage import SPECULATION
from state.manifest.model import HostSpec
from tasks.practice.scene import USER, Scene, manifest_text, scene, seed_manifest
from tasks.practice.sshd import PracticeSshd

PORT = 30_000
SETTINGS = {"forward_seconds": 0.001, "stage_seconds": {"weights": 2.0}}


@asynccontextmanager
async def host(number: int, key: str) -> AsyncIterator[str]:
    """One host with a service that runs; its manifest, which asks for another fraction of memory."""
    async with scene(None, over_ssh=False, settings=SETTINGS, port=PORT) as made:
        await made.until_it_answers(600.0)
        door = PracticeSshd(made.serving, users={USER}, authorized_keys=[key], in_memory=lambda: _listening(made))
        async with door:
            spec = HostSpec(
                address="127.0.0.1", port=door.port, user=USER, become="sudo", host_key=door.host_public_key
            )
            seed = seed_manifest({"serving": spec}, PORT)
            changes = {"gpus": None, "claims": None, "service": f"service-{number}", "readiness": {"timeout": "900s"}}
            yield manifest_text(seed, dict.fromkeys(SPECULATION), **changes, policy={"timer": "900s"})


def _listening(made: Scene) -> set[int]:
    return {port for group in made.serving.systemd.groups() for port in group.listening()}


async def serve(count: int, key: str) -> None:
    """All at once: each start waits for its engine's stages, and a hundred of them can wait together."""
    over, ready = asyncio.Event(), asyncio.Queue[tuple[int, str]]()

    async def one(number: int) -> None:
        async with host(number, key) as manifest:
            ready.put_nowait((number, manifest))
            await over.wait()

    async with asyncio.TaskGroup() as running:
        for number in range(count):
            running.create_task(one(number))
        manifests = sorted([await ready.get() for _ in range(count)])
        print(json.dumps([text for _, text in manifests]), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        over.set()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
