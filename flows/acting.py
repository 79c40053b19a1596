"""Who does an action. Planning and ending need little: all else is loaded once there is something to do."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache

from flows import conclude, looking
from flows.ports import Hosts, Ports
from flows.work import Work
from state.action import Action
from state.events import Event
from state.inspection.engines import readings
from state.rollout import Rollout

Acting = Callable[[Work], Awaitable[Event | None]]


def performer(ports: Ports, hosts: Hosts) -> Callable[[Action, int, Rollout], Awaitable[Event | None]]:
    async def perform(action: Action, attempt: int, rollout: Rollout) -> Event | None:
        return await _acting(action.kind)(Work(ports, hosts, action, attempt, rollout))

    return perform


def _acting(kind: str) -> Acting:
    return _AT_ONCE[kind] if kind in _AT_ONCE else _all()[kind]


@cache
def _all() -> Mapping[str, Acting]:
    """All others, with what they read logs by: loaded for the first of them, a lease or a verification, so before
    anything is dark."""
    from flows.perform import ACTIONS

    readings()
    return ACTIONS


_AT_ONCE: Mapping[str, Acting] = {"plan": looking.plan, "conclude": conclude.conclude, "release": conclude.release}
