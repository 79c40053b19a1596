"""A no-change `apply` of a revision with more files than its unit, in a process of its own.

    python -m benchmarks.apply_files MANIFEST FILES.json

FILES.json lists objects with `path` and `source`. Prints one JSON object: the outcome, the seconds after start-up, and
the round trips to the host. A manifest has no other files than the unit, a revision may have: the loop is the same, and
so is the start, which looks for no garbage while modules load.
"""
# ruff: noqa: E402  # what the command line does first comes first here too

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from deployments import collection

collection.hold()

from benchmarks.counted import Counted
from flows import requests
from flows.ports import Ports
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.events import RolloutRequested
from state.manifest.load import load_manifest
from state.manifest.model import HostSpec
from state.revision import FileContent


def wanted(ports: Ports, manifest: Path, files: Path) -> RolloutRequested:
    """The request of the manifest, its revision with these files beside its unit."""
    read = load_manifest(manifest.read_text(encoding="utf-8"), str(manifest))
    requested = requests.from_manifest(ports, read, "rollout", "benchmark")
    listed = json.loads(files.read_text(encoding="utf-8"))
    more = [FileContent(path=f["path"], content=Path(f["source"]).read_text(encoding="utf-8")) for f in listed]
    revision = requested.revision.model_copy(update={"files": (*requested.revision.files, *more)})
    return requested.model_copy(update={"revision": revision})


async def run(manifest: Path, files: Path) -> dict[str, object]:
    """The outcome, seconds after start-up, round trips."""
    begun, opened = time.perf_counter(), list[Counted]()
    async with wired(Settings()) as (ports, _):

        def open_host(name: str, spec: HostSpec) -> Counted:
            opened.append(Counted(ports.open_host(name, spec)))
            return opened[-1]

        ended = await begin(replace(ports, open_host=open_host), wanted(ports, manifest, files))
    took = time.perf_counter() - begun
    outcome = ended.concluded.outcome if ended.concluded else None
    asked = {
        "round_trips": sum(host.round_trips for host in opened),
        "questions": sum(host.questions for host in opened),
    }
    return {"outcome": outcome, "seconds": took, **asked}


if __name__ == "__main__":
    collection.begin()
    print(json.dumps(asyncio.run(run(Path(sys.argv[1]), Path(sys.argv[2])))))
