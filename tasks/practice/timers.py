"""Transient timers, as `systemd-run --on-active=` makes them."""

import asyncio
from typing import TYPE_CHECKING

from tasks.practice.records import Records
from tasks.practice.units import ServiceUnit

if TYPE_CHECKING:
    from tasks.practice.systemd import Systemd


class Timer:
    """Fires once, `on_active_us` after its start; gone then, for systemd-run sets RemainAfterElapse=no."""

    def __init__(self, systemd: "Systemd", name: str, description: str, on_active_us: int) -> None:
        self.name, self.description, self.on_active_us = name, description, on_active_us
        self.unit = ServiceUnit(name, "loaded", description=description, fragment=f"/run/systemd/transient/{name}")
        self.service = f"{name.removesuffix('.timer')}.service"
        self.active, self.sub = "inactive", "dead"
        self.next_us = self.last_us = 0
        self.invocation = ""
        self._systemd = systemd
        self._records = Records(systemd.journal, name)
        self._wait: asyncio.Task[None] | None = None

    async def start(self) -> bool:
        if self.active != "active":
            self.invocation = self._records.invocation = self._systemd.new_invocation()
            self.active, self.sub = "active", "waiting"
            self.next_us = self._systemd.clock.monotonic_us() + self.on_active_us
            self._wait = self._systemd.task(self._elapse())
            self._records.started(self.unit)
        return True

    async def stop(self) -> bool:
        if self.active == "active":
            self._disarm()
            self._end()
            self._records.stopped(self.unit)
        return True

    def power_off(self) -> None:
        self._disarm()

    async def _elapse(self) -> None:
        await asyncio.sleep(self.on_active_us / 1e6)
        self.last_us, self.next_us = self._systemd.clock.realtime_us(), 0
        self.sub = "running"
        await self._systemd.start(self.service)
        self._end()
        self._systemd.forget(self.name)

    def _end(self) -> None:
        self.active, self.sub, self.next_us = "inactive", "dead", 0
        self._records.ended("success")

    def _disarm(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None and wait is not asyncio.current_task():
            wait.cancel()
