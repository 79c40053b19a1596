"""A session: one orchestrator driving one rollout from wherever its history stands, to a safe end, whatever interrupts it."""

import asyncio
from collections.abc import Callable

import anyio

from flows.drive import Act, Perform, drive
from flows.history import History
from flows.keepalive import kept_alive
from flows.perform import performer
from flows.ports import Ports, opened
from flows.retrying import retrying
from state.errors import VersionConflict
from state.events import CancelRequested, RolloutRequested, RolloutResumed
from state.rollout import Rollout

Skin = Callable[[History, Perform], Act]
"""How an action's attempts are made: `flows.retrying.retrying`, or Prefect's in `flows.prefect_skin`."""


async def begin(ports: Ports, requested: RolloutRequested, skin: Skin = retrying) -> Rollout:
    """Record the request and drive it to its end. Cancellation is turned into a safe end first, then raised again."""
    history = History(ports, requested.rollout)
    await history.record(requested)
    return await _driven(history, skin)


async def resume(ports: Ports, rollout_id: str, skin: Skin = retrying) -> Rollout:
    """Go on with a rollout that another orchestrator left. Raises NotFound, HistoryCorrupt."""
    history = History(ports, rollout_id)
    rollout = await history.load()
    if rollout.concluded is None or (rollout.leased and rollout.concluded.outcome != "stranded"):
        await history.record(RolloutResumed(session=rollout.session + 1, actor=ports.holder))
    return await _driven(history, skin)


async def _driven(history: History, skin: Skin) -> Rollout:
    requested = history.rollout.requested
    assert requested is not None  # every stream begins with it
    async with opened(history.ports, requested.hosts) as hosts:
        act = skin(history, performer(history.ports, hosts))
        async with kept_alive(history, hosts):
            return await _to_a_safe_end(history, act)


async def _to_a_safe_end(history: History, act: Act) -> Rollout:
    try:
        return await drive(history, act)
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
