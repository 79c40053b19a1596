"""What orchestrators left behind: the rollouts that have not ended."""

from flows.history import History, stream_of
from flows.ports import Ports
from flows.spooled import flush_left
from state.errors import HistoryCorrupt


async def unfinished_rollouts(ports: Ports) -> tuple[str, ...]:
    """The ids of all rollouts with something left to do, oldest first, whoever drives them; what this machine has
    spooled comes into the store first. One whose history cannot be read is among them: going on with it says why.
    Raises StoreUnavailable."""
    await flush_left(ports)
    names = [stream.removeprefix(stream_of("")) for stream in await ports.events.unfinished()]
    return tuple([name for name in names if not await _has_ended(ports, name)])


async def _has_ended(ports: Ports, name: str) -> bool:
    try:
        return (await History(ports, name).load()).ended
    except HistoryCorrupt:
        return False
