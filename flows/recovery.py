"""What orchestrators left behind: the rollouts that have not ended, and those that ended stranded."""

from typing import NamedTuple

from flows.history import History, stream_of
from flows.ports import Ports
from flows.session import is_stranded
from flows.spooled import flush_left
from state.errors import HistoryCorrupt


class Behind(NamedTuple):
    """Ids of rollouts, oldest first: with something left to do, and ended so that a person must mend something."""

    unfinished: tuple[str, ...]
    stranded: tuple[str, ...]


async def left_behind(ports: Ports) -> Behind:
    """All of them, whoever drives them; what this machine has spooled comes into the store first. One whose history
    cannot be read is unfinished: going on with it says why. Raises StoreUnavailable."""
    await flush_left(ports)
    unfinished, stranded = list[str](), list[str]()
    for stream in await ports.events.unfinished():
        name = stream.removeprefix(stream_of(""))
        try:
            rollout = await History(ports, name).load()
        except HistoryCorrupt:
            unfinished.append(name)
            continue
        if not rollout.ended:
            unfinished.append(name)
        elif is_stranded(rollout):
            stranded.append(name)
    return Behind(tuple(unfinished), tuple(stranded))


async def unfinished_rollouts(ports: Ports) -> tuple[str, ...]:
    """`left_behind` with something left to do."""
    return (await left_behind(ports)).unfinished
