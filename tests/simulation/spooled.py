"""Invariants about spools: nothing that was relied on is lost, or forced in, or given up without a reason."""

from typing import TYPE_CHECKING

from state.errors import NotFound
from state.events import HoldAnswered, RolloutResumed
from state.leases import due
from state.store.spool import Owed, Record, SpooledEvents, SpooledEvidence, same

if TYPE_CHECKING:
    from tests.simulation.disks import Disk
    from tests.simulation.world import World

OF_OTHERS = (RolloutResumed.wire, HoldAnswered.wire)
"""What somebody else writes first into a rollout's stream."""


async def of_spools(world: "World") -> list[str]:
    """What is wrong with the machines' disks once every machine has had a command after the store was back."""
    found = [f"spool-left: {rollout} on {disk.name}" for disk in world.disks.values() for rollout in disk.files]
    for disk in world.disks.values():
        kept = [record for data in disk.kept.values() for record in disk.records(data)]
        for rollout, record in disk.acknowledged:
            if record not in kept and not await _is_stored(world, record):
                found.append(f"spool-lost: of {rollout}: {_told(record)}")
        found += [line for data in disk.kept.values() for line in await _kept_with_reason(world, disk, data)]
    return found


async def _is_stored(world: "World", record: Record) -> bool:
    match record:
        case SpooledEvents(stream, after, events):
            stored = (await world.store.read(stream, after))[: len(events)]
            return len(stored) == len(events) and all(map(same, events, stored))
        case SpooledEvidence(digest):
            try:
                await world.evidence.get(digest)
            except NotFound:
                return False
            return True
        case Owed(stream, event):
            return not due(await world.store.read(stream), event)


def _told(record: Record) -> str:
    match record:
        case SpooledEvents(_, after, events):
            return f"{', '.join(event.type for event in events)} after {after}"
        case SpooledEvidence(digest):
            return f"evidence {digest[:12]}"
        case Owed(stream, event):
            return f"{event.type} in {stream}"


async def _kept_with_reason(world: "World", disk: "Disk", data: bytes) -> list[str]:
    """A spool is set aside only where somebody else wrote to the stream first."""
    for record in disk.records(data):
        if isinstance(record, SpooledEvents):
            stored = (await world.store.read(record.stream, record.after_version))[: len(record.events)]
            others = [there for mine, there in zip(record.events, stored, strict=False) if not same(mine, there)]
            if others:
                return [] if others[0].type in OF_OTHERS else [f"spool-kept: {others[0].type} is no reason"]
    return ["spool-kept: nobody else has written to its stream"]
