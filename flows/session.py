"""A session: one orchestrator drives a rollout from where its history stands to a safe end, whatever interrupts it."""

import asyncio
from collections.abc import Callable

import anyio

from flows.drive import Act, Perform, Until, drive, never
from flows.history import History
from flows.keepalive import kept_alive
from flows.perform import performer
from flows.ports import Ports, opened
from flows.retrying import retrying
from state.errors import VersionConflict
from state.events import CancelRequested, RolloutRequested, RolloutResumed
from state.next_action import next_action
from state.rollout import Rollout

Skin = Callable[[History, Perform], Act]
"""How an action's attempts are made: `flows.retrying.retrying`, or Prefect's in `flows.prefect_skin`."""


async def begin(ports: Ports, requested: RolloutRequested, skin: Skin = retrying) -> Rollout:
    """Record the request and drive it to its end. Cancellation is turned into a safe end first, then raised again."""
    return await go_on(await requested_history(ports, requested), skin)


async def requested_history(ports: Ports, requested: RolloutRequested) -> History:
    """The new stream, its request recorded."""
    history = History(ports, requested.rollout)
    await history.record(requested)
    return history


async def resume(ports: Ports, rollout_id: str, skin: Skin = retrying) -> Rollout:
    """Go on with a rollout that another orchestrator left. Raises NotFound, HistoryCorrupt."""
    history = History(ports, rollout_id)
    rollout = await history.load()
    if not rollout.ended or is_stranded(rollout):
        await history.record(RolloutResumed(session=rollout.session + 1, actor=ports.holder))
    return await go_on(history, skin)


def unfinished(rollout: Rollout) -> bool:
    """Whether this session has something left to do; `Rollout.ended` says whether any session has."""
    return next_action(rollout) is not None


def is_stranded(rollout: Rollout) -> bool:
    """Going on with a stranded rollout tries the whole way back again: a person has mended something meanwhile."""
    return rollout.concluded is not None and rollout.concluded.outcome == "stranded"


async def go_on(history: History, skin: Skin, *, until: Until = never) -> Rollout:
    """Drive the rollout from where its history stands, to its end or to the first action that `until` names."""
    requested = history.rollout.requested
    assert requested is not None  # every stream begins with it
    async with opened(history.ports, requested.hosts) as hosts:
        act = skin(history, performer(history.ports, hosts))
        async with kept_alive(history, hosts):
            return await _to_a_safe_end(history, act, until)


async def _to_a_safe_end(history: History, act: Act, until: Until) -> Rollout:
    try:
        return await drive(history, act, until)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await _record_cancellation(history)
            await drive(history, act)
        raise


async def _record_cancellation(history: History) -> None:
    rollout = await history.load()
    if rollout.concluded is None and not rollout.cancelled:
        try:
            await history.record(CancelRequested(actor=history.ports.holder))
        except VersionConflict:
            await history.load()
