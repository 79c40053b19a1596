"""Replay: rebuild the projections, judge old evidence anew by today's rules, check every digest."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from flows.history import History, stream_of
from flows.ports import Ports
from flows.prove import judged
from state.errors import InterlockError
from state.events import BaselineRecorded, Event, EvidenceFrozen, EvidenceGathered, EvidenceItem, Judged, decode
from state.store.connect import Stores
from state.store.projections import catch_up, differences, rebuild
from state.store.read_models import PROJECTIONS
from state.store.verification import verify_history


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict that today's readers and rules would give otherwise."""

    rollout: str
    claim: str
    then: str
    now: str
    reason: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """`rebuilt`: sentences about rows that a rebuild would change; `faults`: about events that are not as recorded."""

    streams: int
    events: int
    faults: tuple[str, ...]
    rebuilt: tuple[str, ...]
    rejudged: int
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        return not (self.faults or self.rebuilt or self.differences)


async def replay_all(ports: Ports, stores: Stores) -> Replayed:
    """Digests first, of events and of evidence; where they are whole, the projections and every judgement."""
    checked = await verify_history(ports.events)
    faults = tuple(map(str, checked.faults)) or await _damaged_evidence(ports)
    if faults:
        return Replayed(checked.streams, checked.events, faults, (), 0, ())
    await catch_up(stores.engine, PROJECTIONS)
    rebuilt = await differences(stores.engine, PROJECTIONS)
    if rebuilt:
        await rebuild(stores.engine, PROJECTIONS)
    streams = await ports.events.streams("rollout-")
    judgements = 0
    found: list[Difference] = []
    for stream in streams:
        async for count, changed in rejudge(ports, stream.removeprefix("rollout-")):
            judgements += count
            found += changed
    return Replayed(checked.streams, checked.events, (), rebuilt, judgements, tuple(found))


async def _damaged_evidence(ports: Ports) -> tuple[str, ...]:
    """A sentence for each piece of evidence that the history names and the store does not have whole."""
    digests: dict[str, None] = {}
    for stream in await ports.events.streams(stream_of("")):
        for event in map(decode, await ports.events.read(stream)):
            digests |= dict.fromkeys(item.digest for item in _evidence(event).values())
    faults = []
    for digest in digests:
        try:
            await ports.evidence.get(digest)
        except InterlockError as error:
            faults.append(str(error))
    return tuple(faults)


def _evidence(event: Event) -> Mapping[str, EvidenceItem]:
    match event:
        case EvidenceGathered() | EvidenceFrozen():
            return event.items
        case BaselineRecorded():
            return event.evidence
    return {}


async def rejudge(ports: Ports, rollout_id: str) -> AsyncIterator[tuple[int, Sequence[Difference]]]:
    """For each judgement of a rollout: 1, and what today's readers and rules say otherwise of the same evidence."""
    history = History(ports, rollout_id)
    rollout = await history.load()
    for then in rollout.judged.values():
        items = rollout.gathered[f"{then.side}:{then.round}"]
        if rollout.plan is None:
            continue
        try:
            now = await judged(ports.evidence, rollout.plan, then.action, then.attempt, then.side, then.round, items)
        except InterlockError as error:
            yield 1, [Difference(rollout_id, "(evidence)", then.outcome, "unreadable", str(error))]
            continue
        yield 1, _compare(rollout_id, then, now)


def _compare(rollout: str, then: Judged, now: Judged) -> list[Difference]:
    """The claims are the plan's and in its order, both times."""
    return [
        Difference(rollout, after.claim, before.outcome, after.outcome, after.reason)
        for before, after in zip(then.verdicts, now.verdicts, strict=True)
        if before.outcome != after.outcome
    ]
