"""Keeping alive what must not run out while the orchestrator is: the leases, and the host's own timer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from flows import lease
from flows.history import History
from flows.ports import Hosts
from state.errors import InterlockError
from state.next_action import begun_steps
from state.rollout import Rollout
from state.steps import ArmTimer
from tasks import timer
from tasks.hosts.port import Host
from tasks.sequence import Fence

LEAST_S = 0.2


@asynccontextmanager
async def kept_alive(history: History, hosts: Hosts) -> AsyncIterator[None]:
    """Renew in the background until the block ends. A renewal that fails is tried again; if it came too late, the next
    step on the host is refused by its fence, and that is where it is dealt with. The hosts' timers do not wait for the
    store, nor the leases for a host: either may be slow."""
    ways = (lambda: _renew_leases(history), lambda: renew_timers(history.rollout, hosts, history.rollout.fencing))
    renewing = [asyncio.create_task(_for_ever(history, renew)) for renew in ways]
    try:
        yield
    finally:
        for task in renewing:
            task.cancel()
        await asyncio.gather(*renewing, return_exceptions=True)


async def _for_ever(history: History, renew: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval(history))
        if history.rollout.leased and history.rollout.requested:
            await renew()


def interval(history: History) -> float:
    """A third of whatever runs out first, in seconds."""
    requested = history.rollout.requested
    timer_s = requested.revision.policy.timer_s if requested else history.ports.lease_s
    return max(LEAST_S, min(timer_s, history.ports.lease_s) / 3)


async def _renew_leases(history: History) -> None:
    requested = history.rollout.requested
    assert requested is not None  # asked for by the caller
    with suppress(InterlockError):
        await lease.renew(history.ports, requested, history.rollout.session)


async def renew_timers(rollout: Rollout, hosts: Hosts, fencing: Mapping[str, int]) -> None:
    """Start the wait of every armed timer anew, where it is not too late; all at once, since a host may be slow."""
    assert rollout.requested is not None  # every stream begins with it
    name = rollout.requested.rollout
    armed = [(step.service, hosts[step.host], Fence(name, fencing[step.host])) for step in armed_timers(rollout)]
    await asyncio.gather(*(_renew_timer(*one) for one in armed))


async def _renew_timer(service: str, host: Host, fence: Fence) -> None:
    with suppress(InterlockError):
        await timer.renew(host, service, fence)


async def until_restored(rollout: Rollout, hosts: Hosts) -> None:
    """Wait for every host that restores itself: it would meet whatever is done to it. Each by the name of its own
    timer, which is another on a GPU host of its own. Raises DeadlineExceeded."""
    for step in rollout.plan.steps if rollout.plan else ():
        if isinstance(step, ArmTimer):
            await timer.restored(hosts[step.host], step.service)


def armed_timers(rollout: Rollout) -> tuple[ArmTimer, ...]:
    """The timers that may wait on their hosts (an intent counts), and that nothing has begun to take down."""
    if rollout.started("conclude:promoted"):
        return ()
    return tuple(
        step
        for index, step in begun_steps(rollout)
        if isinstance(step, ArmTimer) and not rollout.started(f"undo:{index}:{step.kind}")
    )
