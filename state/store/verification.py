"""Every digest of the whole history, checked."""

from dataclasses import dataclass

from state.errors import HistoryCorrupt
from state.store.port import EventStore


@dataclass(frozen=True, slots=True)
class Verification:
    """How much was read whole, and the first fault of each stream that was not."""

    streams: int
    events: int
    faults: tuple[HistoryCorrupt, ...]


async def verify_history(store: EventStore, prefix: str = "") -> Verification:
    """Read every stream whose name begins with `prefix`, checking its chain."""
    names, events, faults = await store.streams(prefix), 0, []
    for name in names:
        try:
            events += len(await store.read(name))
        except HistoryCorrupt as fault:
            faults.append(fault)
    return Verification(len(names), events, tuple(faults))
