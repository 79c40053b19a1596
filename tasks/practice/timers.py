"""Timers that fire once, as `systemd-run --on-active=` makes them, or as a unit file says."""

import asyncio
from typing import TYPE_CHECKING

from tasks.practice.files import Files
from tasks.practice.records import Records
from tasks.practice.unitfile import parse_span, read_unit_text
from tasks.practice.units import ServiceUnit, changed_on_disk

if TYPE_CHECKING:
    from tasks.practice.systemd import Systemd


class Timer:
    """Fires once, `on_active_us` after its start; unloaded then, with RemainAfterElapse=no."""

    def __init__(self, systemd: "Systemd", unit: ServiceUnit, on_active_us: int) -> None:
        self.name, self.description, self.on_active_us = unit.name, unit.description, on_active_us
        self.unit, name = unit, unit.name
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

    def needs_reload(self) -> bool:
        return not self.unit.transient and changed_on_disk(self._systemd.files, self.unit)

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


def timer_on_disk(systemd: "Systemd", name: str) -> Timer | None:
    """The timer that a unit file describes; None where there is none, or one that sets more than is played here."""
    path = f"/etc/systemd/system/{name}"
    if not name.endswith(".timer") or not systemd.files.exists(path):
        return None
    text = read_unit_text(_text(systemd.files, path))
    span, remain = text.last("Timer", "OnActiveSec"), text.last("Timer", "RemainAfterElapse")
    if not span or remain != "no":
        return None
    stamps = ((path, systemd.files.stat(path).mtime_ns),)
    description = text.last("Unit", "Description", name)
    unit = ServiceUnit(name, "loaded", description=description, fragment=path, stamps=stamps)
    return Timer(systemd, unit, parse_span(span))


def _text(files: Files, path: str) -> str:
    return files.read(path).decode("utf-8", "replace")
