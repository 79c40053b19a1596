"""An orchestrator in a process of its own that starts a rollout each time it is told to, beside another one.

python -m tests.flows.one_of_two URL NAME

Reads `go` and `release` from standard input, a line each. At `go` it begins a rollout of the one service on a host in
memory, as far as the lease, and prints how that ended: `["proceeds", ID]`, or the outcome and its summary. At `release`
it turns back what it holds, and prints the outcome.
"""

import asyncio
import json
import sys

from flows import requests
from flows.history import History
from flows.ports import Ports, utc_now
from flows.retrying import retrying
from flows.session import cancel, go_on, requested_history
from state.action import Action
from state.manifest.load import load_manifest
from state.store.connect import open_stores
from tasks.practice.scene import Scene, scene


def beyond_the_lease(action: Action) -> bool:
    return action.kind == "preflight"


async def serve(url: str, name: str) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with scene(None, over_ssh=False) as made, open_stores(url, utc_now) as stores:
        ports = Ports(stores.events, stores.evidence, made.open_host, holder=name)
        print(json.dumps("ready"), flush=True)
        held: History | None = None
        async for line in lines:
            if line == b"go\n":
                held = await begin(ports, made)
                said = told(held)
            else:
                assert held is not None
                ended = await cancel(held)
                said = [ended.concluded.outcome if ended.concluded else "unfinished"]
            print(json.dumps(said), flush=True)


async def begin(ports: Ports, made: Scene) -> History:
    manifest = load_manifest(made.manifest(), "manifest.yaml")
    requested = requests.from_manifest(ports, manifest, "rollout", f"by {ports.holder}")
    history = await requested_history(ports, requested)
    await go_on(history, retrying, until=beyond_the_lease)
    return history


def told(history: History) -> list[str]:
    concluded = history.rollout.concluded
    return [concluded.outcome, concluded.summary] if concluded else ["proceeds", history.rollout_id]


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
