"""How systemd ends the processes of a unit: a signal, a bound, SIGKILL (systemd 252, service_enter_signal)."""

import asyncio
import signal

from tasks.practice.cgroup import ControlGroup
from tasks.practice.records import Records
from tasks.practice.status import ServiceStatus
from tasks.practice.unitfile import INFINITY
from tasks.practice.units import ServiceUnit


class Termination:
    """One ending of a unit's processes. `main` is the main PID or 0, `reaped` is set once its exit is recorded."""

    def __init__(
        self,
        unit: ServiceUnit,
        status: ServiceStatus,
        records: Records,
        cgroup: ControlGroup,
        main: int,
        reaped: asyncio.Event,
    ) -> None:
        self._unit, self._status, self._records, self._cgroup = unit, status, records, cgroup
        self._main, self._reaped = main, reaped

    async def run(self) -> None:
        """Signal whom KillMode= names, and wait; a second signal after TimeoutStopSec=. What survives both stays."""
        asked = self._cgroup.targets(self._unit.kill_mode, self._main, final=False)
        if asked:
            self._status.enter("deactivating", "stop-sigterm")
        for pid in asked:
            self._cgroup.signal(pid, self._unit.kill_signal)
        if not await self._gone_in_time(self._unit.kill_mode == "control-group"):
            self._status.result = "timeout"
            await self._kill()
        elif self._unit.kill_mode == "mixed" and self._cgroup.members():
            await self._kill_rest()

    async def _kill(self) -> None:
        if not self._unit.send_sigkill:
            self._records.about("State 'stop-sigterm' timed out. Skipping SIGKILL.")
            return
        self._records.about("State 'stop-sigterm' timed out. Killing.")
        await self._kill_rest()

    async def _kill_rest(self) -> None:
        """SIGKILL for whom KillMode= names; with `mixed` that is everybody, as soon as the main process is gone."""
        self._status.enter("deactivating", "stop-sigkill")
        members = self._cgroup.members()
        for pid in self._cgroup.targets(self._unit.kill_mode, self._main, final=True):
            self._records.killing(pid, members[pid][0])
            self._cgroup.signal(pid, signal.SIGKILL)
        if not await self._gone_in_time(self._unit.kill_mode in ("control-group", "mixed")):
            self._records.about("Processes still around after SIGKILL. Ignoring.")

    async def _gone_in_time(self, everybody: bool) -> bool:
        limit = self._unit.timeout_stop_us
        try:
            async with asyncio.timeout(None if limit >= INFINITY else limit / 1e6):
                if self._main and self._unit.kill_mode != "none":
                    await self._reaped.wait()
                if everybody:
                    await self._cgroup.empty()
        except TimeoutError:
            return False
        return True
