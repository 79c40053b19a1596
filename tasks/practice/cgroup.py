"""A unit's control group: every process that this or an earlier start left in it."""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence

from tasks.practice.process import Group

_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.25


class ControlGroup:
    """Groups of all starts that still have a living process. `frozen` says which PIDs no signal reaches (state D)."""

    def __init__(self, frozen: Callable[[int], bool]) -> None:
        self._groups: list[Group] = []
        self._frozen = frozen

    def add(self, group: Group) -> None:
        self._groups = [*self.groups(), group]

    def groups(self) -> list[Group]:
        self._groups = [group for group in self._groups if group.members()]
        return list(self._groups)

    def members(self) -> Mapping[int, Sequence[str]]:
        return {pid: argv for group in self.groups() for pid, argv in group.members().items()}

    def signal(self, pid: int, number: int) -> None:
        if self._frozen(pid):
            return
        for group in self._groups:
            if pid in group.members():
                group.signal(pid, number)

    def targets(self, kill_mode: str, main: int, *, final: bool) -> list[int]:
        """The PIDs that KillMode= has signalled: SIGTERM's, or with `final` SIGKILL's."""
        everyone = list(self.members())
        if kill_mode == "control-group" or (kill_mode == "mixed" and final):
            return everyone
        return [main] if kill_mode in ("mixed", "process") and main in everyone else []

    async def empty(self) -> None:
        """Return when no process is left."""
        pause = _FIRST_LOOK_S
        while self.members():  # only the kernel tells systemd when a control group gets empty
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LAST_LOOK_S)

    def kill_all(self) -> None:
        """Power off: nothing survives, whatever state it is in."""
        for group in self.groups():
            for pid in list(group.members()):
                group.signal(pid, signal.SIGKILL)
