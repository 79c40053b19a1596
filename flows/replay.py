"""Replay: rebuild the projections, judge old evidence anew by today's rules, check every digest."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from flows.history import History
from flows.ports import Ports
from flows.prove import judged
from state.claims import Verdict
from state.errors import InterlockError
from state.events import Judged
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
    """Digests first; where history is whole, the projections and every judgement after them."""
    checked = await verify_history(ports.events)
    faults = tuple(str(fault) for fault in checked.faults)
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
    before = {verdict.claim: verdict for verdict in then.verdicts}
    return [
        Difference(rollout, verdict.claim, _outcome(before.get(verdict.claim)), verdict.outcome, verdict.reason)
        for verdict in now.verdicts
        if _outcome(before.get(verdict.claim)) != verdict.outcome
    ]


def _outcome(verdict: Verdict | None) -> str:
    return verdict.outcome if verdict else "absent"
