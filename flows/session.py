"""A session: one orchestrator drives a rollout from where its history stands to a safe end, whatever interrupts it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from flows import lease
from flows.acting import performer
from flows.drive import Act, Perform, Until, drive, never
from flows.history import History
from flows.keepalive import kept_alive
from flows.ports import Ports, opened
from flows.retrying import retrying
from flows.spooled import (
    can_come_in,
    flush_left,
    flushed_at_the_end,
    is_driven_here,
    let_go_at_the_end,
    refuse_ahead,
    spooling,
)
from flows.uncut import in_spite_of_cancellation
from flows.unrecorded import told_where_it_broke_off
from state.errors import (
    DeadlineExceeded,
    HostAhead,
    HostUnreachable,
    LeaseHeld,
    PrivilegeRefused,
    TakenOver,
    VersionConflict,
)
from state.events import CancelRequested, RolloutRequested, RolloutResumed, decode
from state.next_action import begun_steps, next_action
from state.rollout import Rollout, fold
from state.store.port import RecordedEvent

Skin = Callable[[History, Perform], Act]
"""How an action's attempts are made: `flows.retrying.retrying`, or Prefect's in `flows.prefect_skin`."""


async def begin(ports: Ports, requested: RolloutRequested, skin: Skin = retrying) -> Rollout:
    """Record the request and drive it to its end. Cancellation is turned into a safe end first, then raised again.

    Raises TakenOver if another orchestrator went on with it meanwhile.
    """
    return await go_on(await requested_history(ports, requested), skin)


async def requested_history(ports: Ports, requested: RolloutRequested) -> History:
    """The new stream, its request recorded."""
    history = History(ports, requested.rollout)
    await history.record(requested)
    return history


async def recover(ports: Ports, rollout_id: str, skin: Skin = retrying) -> Rollout:
    """Go on with a rollout whose orchestrator is gone.

    Raises LeaseHeld, naming the holder, while that may still be alive; NotFound, HistoryCorrupt.
    """
    await refuse_driven(ports, rollout_id)
    return await resume(ports, rollout_id, skin)


async def resume(ports: Ports, rollout_id: str, skin: Skin = retrying) -> Rollout:
    """Go on with a rollout that another orchestrator left, without asking whether it has."""
    return await go_on(await resumed_history(ports, rollout_id), skin)


async def resumed_history(ports: Ports, rollout_id: str) -> History:
    """The stream of a rollout that another orchestrator left, a new session of it begun.

    What this machine still has spooled of it comes into the store first. Raises NotFound, HistoryCorrupt; TakenOver if
    somebody else was first.
    """
    await flush_left(ports, rollout_id)
    history = History(ports, rollout_id)
    rollout = await history.load()
    if not rollout.ended or is_stranded(rollout):
        try:
            with told_where_it_broke_off(history):
                await _record_resumption(history)
        except VersionConflict as error:
            raise TakenOver(rollout_id) from error
    return history


async def _record_resumption(history: History) -> Rollout:
    while True:
        try:
            return await history.record(RolloutResumed(session=history.rollout.session + 1, actor=history.ports.holder))
        except VersionConflict:
            await history.take_in_answer()


async def refuse_driven(ports: Ports, rollout_id: str) -> None:
    """Raises LeaseHeld while the rollout's orchestrator may be alive: until its leases are over.

    Before it has any, and for a verification that takes none: until nothing was recorded for as long as a lease lasts.
    A process of this machine that spools its facts is alive whatever its leases say: it could not renew them. Raises
    HostAhead where the facts wait on another machine.
    """
    recorded = await History(ports, rollout_id).recorded()
    rollout = fold(map(decode, recorded))
    if rollout.ended or rollout.requested is None:
        return
    if is_driven_here(ports.spools, rollout_id):
        at_least = f"{ports.now().isoformat(timespec='seconds')}, at least"
        raise LeaseHeld(f"Rollout {rollout_id}", _driver(recorded), rollout.requested.reason, at_least)
    held = await lease.held_by(ports, rollout.requested)
    taken = not rollout.session or f"lease:{rollout.session}" in rollout.done
    leased = datetime.fromisoformat(held.until) if held.rollout else None
    if leased and (taken or leased > ports.now()):
        holder, until = held.holder, leased
    else:
        holder, until = _driver(recorded), recorded[-1].recorded_at + timedelta(seconds=ports.lease_s)
    if until > ports.now():
        raise LeaseHeld(f"Rollout {rollout_id}", holder, rollout.requested.reason, until.isoformat(timespec="seconds"))
    if begun_steps(rollout):
        await _refuse_ahead(ports, rollout.requested, recorded)


async def _refuse_ahead(ports: Ports, requested: RolloutRequested, recorded: Sequence[RecordedEvent]) -> None:
    """Raises HostAhead while the facts may still come in; a host that cannot be asked now will be when the lease is
    taken."""
    names = {name for names in lease.subjects(requested).values() for name in names}
    async with opened(ports, requested.hosts) as hosts:
        try:
            await refuse_ahead(hosts, sorted(names), requested.rollout, recorded)
        except HostAhead as ahead:
            if can_come_in(ahead.spool, recorded):
                raise
        except (HostUnreachable, DeadlineExceeded, PrivilegeRefused):
            return


def _driver(recorded: Sequence[RecordedEvent]) -> str:
    """Who began the newest session."""
    began = [e for e in map(decode, recorded) if isinstance(e, RolloutRequested | RolloutResumed)]
    return began[-1].actor


def unfinished(rollout: Rollout) -> bool:
    """Whether this session has something left to do; `Rollout.ended` says whether any session has."""
    return next_action(rollout) is not None


def is_stranded(rollout: Rollout) -> bool:
    """Going on with a stranded rollout tries the whole way back again: a person has mended something meanwhile."""
    return rollout.concluded is not None and rollout.concluded.outcome == "stranded"


async def go_on(history: History, skin: Skin, *, until: Until = never) -> Rollout:
    """Drive the rollout from where its history stands, to its end or to the first action that `until` names.

    Raises TakenOver; if the store is lost RolloutUnrecorded, or Refused before a host may have been changed.
    """
    spooling(history)
    with told_where_it_broke_off(history), let_go_at_the_end(history):
        rollout = await _gone_on(history, skin, until)
        await flushed_at_the_end(history)
        return rollout


async def _gone_on(history: History, skin: Skin, until: Until) -> Rollout:
    requested = history.rollout.requested
    assert requested is not None  # every stream begins with it
    async with opened(history.ports, requested.hosts) as hosts:
        act = skin(history, performer(history.ports, hosts))
        async with kept_alive(history, hosts):
            try:
                return await _to_a_safe_end(history, act, until)
            except VersionConflict as error:
                raise TakenOver(history.rollout_id) from error


async def cancel(history: History, skin: Skin = retrying) -> Rollout:
    """Turn the rollout back, wherever it stands, and drive it to a safe end, however often this is cancelled."""
    with told_where_it_broke_off(history):
        await in_spite_of_cancellation(_record_cancellation(history, history.rollout.session))
    return await in_spite_of_cancellation(go_on(history, skin))


async def _to_a_safe_end(history: History, act: Act, until: Until) -> Rollout:
    session = history.rollout.session
    try:
        return await drive(history, act, until)
    except asyncio.CancelledError:
        await in_spite_of_cancellation(_record_cancellation(history, session))
        await in_spite_of_cancellation(drive(history, act))
        raise


async def _record_cancellation(history: History, session: int) -> Rollout:
    """An append that was under way may land after the stream was read: then it is read again."""
    while True:
        rollout = await history.load()
        if rollout.session != session:
            raise TakenOver(history.rollout_id)
        if rollout.concluded is not None or rollout.cancelled:
            return rollout
        with suppress(VersionConflict):
            return await history.record(CancelRequested(actor=history.canceller or history.ports.holder))
