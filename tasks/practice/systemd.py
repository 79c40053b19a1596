"""The practice machine's service manager: loaded units, jobs, transient units."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Protocol

from tasks.practice.clock import Clock
from tasks.practice.faults import Faults
from tasks.practice.files import Files
from tasks.practice.jobs import Jobs, Outcome
from tasks.practice.journal import Journal
from tasks.practice.process import Group
from tasks.practice.service import Service
from tasks.practice.timers import Timer
from tasks.practice.units import ServiceUnit, changed_on_disk, load_service

TRANSIENT = "/run/systemd/transient"


class Spawn(Protocol):
    """Runs an ExecStart of a unit. Raises SpawnFailed."""

    async def __call__(self, path: str, argv: Sequence[str], env: Mapping[str, str], unit: ServiceUnit) -> Group: ...


class Systemd:
    """PID 1. Units stay loaded once they are (as enabled ones do), so a file changed later needs a daemon-reload."""

    def __init__(
        self, *, files: Files, journal: Journal, clock: Clock, faults: Faults, hostname: str,
        spawn: Spawn, new_pid: Callable[[], int],
    ) -> None:  # fmt: skip
        self.files, self.journal, self.clock, self.faults = files, journal, clock, faults
        self.hostname, self.spawn, self.new_pid = hostname, spawn, new_pid
        self.services: dict[str, Service] = {}
        self.timers: dict[str, Timer] = {}
        self.strays: list[Group] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.jobs = Jobs(self.task)

    def task(self, body: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task of the machine's own: it outlives whoever asked for it."""
        task = asyncio.get_running_loop().create_task(body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_invocation(self) -> str:
        return uuid.uuid4().hex

    def service(self, name: str) -> Service | None:
        """The unit as it is loaded, read from the disk where it was not; None where there is none."""
        known = self.services.get(name)
        if known is None or known.unit.load_state in ("not-found", "bad-setting", "error"):
            unit = load_service(self.files, name, self.hostname)
            if unit.load_state == "not-found":
                return known if known is not None and known.status.active != "inactive" else None
            if known is None:
                known = self.services[name] = Service(self, unit)
            known.unit = unit
        return known

    def needs_reload(self, service: Service) -> bool:
        return changed_on_disk(self.files, service.unit)

    def daemon_reload(self) -> None:
        for name, service in list(self.services.items()):
            service.unit = load_service(self.files, name, self.hostname)
            if service.unit.load_state == "not-found":
                self.collect(service)

    async def start(self, name: str) -> Outcome:
        """Queue a start job and wait for it; KeyError for a unit that is not there."""
        return await asyncio.shield(self.enqueue(name, "start"))

    async def stop(self, name: str) -> Outcome:
        return await asyncio.shield(self.enqueue(name, "stop"))

    async def restart(self, name: str) -> Outcome:
        return await asyncio.shield(self.enqueue(name, "restart"))

    def enqueue(self, name: str, kind: str) -> "asyncio.Future[Outcome]":
        """Queue a job of a `kind` (start, stop, restart); KeyError for a unit that is not there."""
        unit = self.timers.get(name) or self.service(name)
        if unit is None:
            raise KeyError(name)

        async def restart() -> bool:
            return await unit.stop() and await unit.start()

        async def stop() -> bool:
            done = await unit.stop()
            if isinstance(unit, Timer):
                self.forget(name)
            return done

        return self.jobs.enqueue(name, kind, {"start": unit.start, "stop": stop, "restart": restart}[kind])

    def add_transient(self, name: str, text: str) -> Service:
        """A transient service; FileExistsError where the name is taken."""
        if name in self.services or load_service(self.files, name, self.hostname).load_state != "not-found":
            raise FileExistsError(name)
        self.files.write(f"{TRANSIENT}/{name}", text, mode=0o644)
        service = self.service(name)
        if service is None:
            raise FileNotFoundError(name)
        return service

    def add_timer(self, name: str, description: str, on_active_us: int, text: str) -> Timer:
        if name in self.timers:
            raise FileExistsError(name)
        self.files.write(f"{TRANSIENT}/{name}", text, mode=0o644)
        timer = self.timers[name] = Timer(self, name, description, on_active_us)
        return timer

    def collect(self, service: Service) -> None:
        """Unload a unit that nothing holds any more: transient or without a file, and not running."""
        name, status = service.unit.name, service.status
        if self.services.get(name) is not service or not (
            service.unit.transient or service.unit.load_state == "not-found"
        ):
            return
        held = any(timer.service == name and timer.active == "active" for timer in self.timers.values())
        gone = status.active == "inactive" or (
            status.active == "failed" and service.unit.collect == "inactive-or-failed"
        )
        if gone and not held:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Unload a transient unit and remove its file; a timer's service goes with it unless it runs."""
        timer = self.timers.pop(name, None)
        service = self.services.pop(name, None) if timer is None else None
        if self.files.exists(f"{TRANSIENT}/{name}"):
            self.files.remove(f"{TRANSIENT}/{name}")
        if timer is not None and (ours := self.services.get(timer.service)) is not None:
            self.collect(ours)
        if service is not None and service.cgroup.groups():
            self.strays.extend(service.cgroup.groups())

    def groups(self) -> list[Group]:
        """Every living process group of every unit, those of unloaded units included."""
        self.strays = [group for group in self.strays if group.members()]
        return [group for service in self.services.values() for group in service.cgroup.groups()] + self.strays

    def power_off(self) -> "list[asyncio.Task[None]]":
        """Everything that lives in memory is gone; the tasks that are still ending."""
        self.jobs.cancel_all()
        for service in self.services.values():
            service.power_off()
        for timer in self.timers.values():
            timer.power_off()
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        self.services.clear()
        self.timers.clear()
        self.strays.clear()
        return ending
