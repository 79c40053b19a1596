"""Records sample histories, evidence included: `PYTHONPATH=. python tests/histories/record.py NAME`.

A recorded file is never changed afterwards: each release's histories must be read, folded and judged alike for ever.
NAME goes before `-promoted.jsonl` and `-rolled-back.jsonl`; take the version of the release.
"""

import asyncio
import sys
from pathlib import Path

from state.store.export import export_lines
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import VirtualTimeLoop

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "NEXTN"}}
KINDS = {"promoted": (), "rolled-back": (IGNORED,)}


async def record(name: str) -> None:
    for kind, faults in KINDS.items():
        async with rehearsal(faults=faults) as stage:
            ended = await stage.roll_out()
            assert ended.concluded is not None
            assert ended.concluded.outcome == kind
            (stream,) = await stage.store.streams("rollout-")
            lines = [line async for line in export_lines(stage.store, stream, stage.evidence)]
        path = Path(__file__).with_name(f"{name}-{kind}.jsonl")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(record(sys.argv[1]))
