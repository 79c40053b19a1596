"""Records sample histories, evidence included: `PYTHONPATH=. python tests/histories/record.py NAME [KIND]`.

A recorded file is never changed afterwards: each release's histories must be read, folded and judged alike for ever.
NAME goes before `-promoted.jsonl` and the other kinds; take the version of the release. With KIND only that one.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.quarantine import clear
from state.rollout import Rollout
from state.store.export import export_lines
from tasks.practice.scene import GUEST_GPUS
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.flows.test_hold import answered, holding
from tests.practice.virtual_time import VirtualTimeLoop

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "NEXTN"}}
KINDS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "promoted": (),
    "rolled-back": (IGNORED,),
    "rolled-back+quarantine": (),
    "promoted+hold": (),
}


async def record(name: str, *kinds: str) -> None:
    for kind in kinds or KINDS:
        async with rehearsal(faults=KINDS[kind]) as stage:
            ended = await WAYS.get(kind, Rehearsal.roll_out)(stage)
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


async def with_a_question(stage: Rehearsal) -> Rollout:
    """It asks a person, who lets it be promoted, after a soak."""
    async with holding(stage, soak="10s") as driven:
        await answered(stage, "promote", reason="3.4 is what we wanted")
        return await driven


WAYS: Mapping[str, Callable[[Rehearsal], Awaitable[Rollout]]] = {
    "rolled-back+quarantine": with_a_stuck_device,
    "promoted+hold": with_a_question,
}


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(record(*sys.argv[1:]))
