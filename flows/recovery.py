"""What orchestrators left behind: the rollouts that have not ended."""

from flows.history import History, stream_of
from flows.ports import Ports


async def unfinished_rollouts(ports: Ports) -> tuple[str, ...]:
    """The ids of all rollouts with something left to do, oldest first, whoever drives them. Raises StoreUnavailable,
    HistoryCorrupt."""
    names = [stream.removeprefix(stream_of("")) for stream in await ports.events.unfinished()]
    return tuple([name for name in names if not (await History(ports, name).load()).ended])
