"""Rollouts on many hosts at once from one process, bare.

    python -m benchmarks.drive_many MANIFESTS.json

The file is a JSON list of manifests' texts. Prints one JSON object: seconds of all of them together, processor seconds,
peak memory in MB before them and after, and how many ended as which outcome.
"""

import asyncio
import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from flows import requests
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.manifest.load import load_manifest
from state.store.migrate import upgrade


def peak_mb() -> float:
    """Of this process so far; getrusage(2) gives KiB on Linux."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def run(texts: list[str]) -> dict[str, object]:
    settings = Settings()
    await upgrade(settings.store_url)
    async with wired(settings) as (ports, _):
        asked = [
            requests.from_manifest(ports, load_manifest(text, f"{number}.yaml"), "rollout", "benchmark")
            for number, text in enumerate(texts)
        ]
        before, begun, cpu = peak_mb(), time.perf_counter(), time.process_time()
        ended = await asyncio.gather(*(begin(ports, one) for one in asked))
        took, used = time.perf_counter() - begun, time.process_time() - cpu
    outcomes = Counter(one.concluded.outcome for one in ended if one.concluded)
    return {"seconds": took, "cpu": used, "before_mb": before, "peak_mb": peak_mb(), "outcomes": dict(outcomes)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))))
