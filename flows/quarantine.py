"""Taking a device out of quarantine: on its host, and in the history of the rollout that put it there."""

from flows.history import History
from flows.ports import Ports, opened
from flows.session import refuse_driven
from state.errors import NotFound
from state.events import DeviceCleared
from state.rollout import Rollout
from tasks import quarantine


async def clear(ports: Ports, rollout_id: str, address: str, reason: str) -> DeviceCleared:
    """Remove the host's mark, read back that it is gone, and record who said that the device is well.

    Raises LeaseHeld while the rollout is being driven; NotFound if it quarantined no such device; Refused while the
    unbind still waits in the kernel, or if another rollout quarantined it since.
    """
    history = History(ports, rollout_id)
    rollout = await history.load()
    await refuse_driven(ports, rollout_id)
    name = _host_of(rollout, address)
    assert rollout.requested is not None  # every stream begins with it
    async with opened(ports, {name: rollout.requested.hosts[name]}) as hosts:
        was_there = await quarantine.clear(hosts[name], address, rollout_id)
    if not was_there and address not in rollout.quarantined:
        raise _not_found(address)
    event = DeviceCleared(host=name, address=address, actor=ports.holder, reason=reason)
    await history.record(event)
    return event


def _host_of(rollout: Rollout, address: str) -> str:
    """An orchestrator that was killed may have marked the host and not recorded it."""
    if address in rollout.quarantined:
        return rollout.quarantined[address].host
    revision = rollout.requested.revision if rollout.requested else None
    if revision is None or revision.gpu_host is None:
        raise _not_found(address)
    return revision.gpu_host


def _not_found(address: str) -> NotFound:
    return NotFound("device in quarantine by this rollout:", address, hint="`interlock show ROLLOUT` names them")
