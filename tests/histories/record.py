"""Records sample histories, evidence included: `PYTHONPATH=. python tests/histories/record.py NAME`.

A recorded file is never changed afterwards: each release's histories must be read, folded and judged alike for ever.
NAME goes before `-promoted.jsonl`, `-rolled-back.jsonl` and `-rolled-back+quarantine.jsonl`; take the version of the
release.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.quarantine import clear
from state.rollout import Rollout
from state.store.export import export_lines
from tasks.practice.scene import GUEST_GPUS
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import VirtualTimeLoop

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "NEXTN"}}
KINDS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "promoted": (),
    "rolled-back": (IGNORED,),
    "rolled-back+quarantine": (),
}


async def record(name: str) -> None:
    for kind, faults in KINDS.items():
        async with rehearsal(faults=faults) as stage:
            ended = await (with_a_stuck_device(stage) if kind.endswith("+quarantine") else stage.roll_out())
            assert ended.concluded is not None
            assert ended.concluded.outcome == kind.partition("+")[0]
            (stream,) = await stage.store.streams("rollout-")
            lines = [line async for line in export_lines(stage.store, stream, stage.evidence)]
        path = Path(__file__).with_name(f"{name}-{kind}.jsonl")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


async def with_a_stuck_device(stage: Rehearsal) -> Rollout:
    """It is quarantined, lets go at last, and is cleared by a person."""
    stuck = stage.scene.hypervisor.pci.stuck_unbind
    stuck.add(GUEST_GPUS[1])
    ended = await stage.roll_out()
    stuck.clear()
    await asyncio.sleep(5)
    assert ended.requested is not None
    await clear(stage.ports("a person"), ended.requested.rollout, GUEST_GPUS[1], "its guest was ended")
    return ended


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(record(sys.argv[1]))
