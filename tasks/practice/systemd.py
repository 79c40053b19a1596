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
from tasks.practice.timers import Timer, timer_on_disk
from tasks.practice.units import ServiceUnit, changed_on_disk, load_service, wanted

TRANSIENT = "/run/systemd/transient"


class Spawn(Protocol):
    """Runs an ExecStart of a unit. Raises SpawnFailed."""

    async def __call__(self, path: str, argv: Sequence[str], env: Mapping[str, str], unit: ServiceUnit) -> Group: ...


class Systemd:
    """PID 1. A unit stays loaded while it runs, has failed or is wanted by a target (as enabled ones are): a file
    changed meanwhile needs a daemon-reload. One that is down and nothing refers to is unloaded, its past forgotten."""

    def __init__(
        self, *, files: Files, journal: Journal, clock: Clock, faults: Faults, hostname: str,
        spawn: Spawn, new_pid: Callable[[], int],
    ) -> None:  # fmt: skip
        self.files, self.journal, self.clock, self.faults = files, journal, clock, faults
        self.hostname, self.spawn, self.new_pid = hostname, spawn, new_pid
        self.services: dict[str, Service] = {}
        self.timers: dict[str, Timer] = {}
        self._wanted: frozenset[str] | None = None
        self._unsettled: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.jobs = Jobs(self.task, self._job_done)

    def task(self, body: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task of the machine's own: it outlives whoever asked for it."""
        task = asyncio.get_running_loop().create_task(body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_invocation(self) -> str:
        return uuid.uuid4().hex

    def loaded(self, name: str) -> Service | None:
        """The unit if it is loaded. One that was only asked for, or whose last leftover process is gone, is no more."""
        unsettled, self._unsettled = self._unsettled, set()
        for service in [self.services[n] for n in unsettled if n in self.services]:
            self.collect(service)
        return self.services.get(name)

    def service(self, name: str) -> Service | None:
        """The unit as it is loaded, read from the disk where it was not; None where there is none."""
        if name in self.timers or name.endswith(".timer"):
            return None
        known = self.loaded(name)
        if known is None or known.unit.load_state in ("not-found", "bad-setting", "error"):
            unit = load_service(self.files, name, self.hostname)
            if unit.load_state == "not-found":
                return known if known is not None and known.status.active != "inactive" else None
            if known is None:
                known = self.services[name] = Service(self, unit)
                self._unsettled.add(name)
            known.unit = unit
        return known

    def timer(self, name: str) -> Timer | None:
        """The timer as it is loaded, read from the disk where it was not; None where there is none."""
        return self.timers.get(name) or timer_on_disk(self, name)

    def needs_reload(self, service: Service) -> bool:
        return changed_on_disk(self.files, service.unit)

    def daemon_reload(self) -> None:
        self._wanted = wanted(self.files)
        for name, timer in list(self.timers.items()):
            self._reread(name, timer)
        for name, service in list(self.services.items()):
            service.unit = load_service(self.files, name, self.hostname)
            self.collect(service)

    def _reread(self, name: str, timer: Timer) -> None:
        """One that waits goes on; what its file says by now holds from its next start on."""
        if timer.unit.transient:
            return
        anew = timer_on_disk(self, name)
        if anew is not None:
            timer.unit, timer.on_active_us = anew.unit, anew.on_active_us
        elif timer.active != "active":
            self.forget(name)

    async def start(self, name: str) -> Outcome:
        """Queue a start job and wait for it; KeyError for a unit that is not there."""
        return await asyncio.shield(self.enqueue(name, "start"))

    async def stop(self, name: str) -> Outcome:
        return await asyncio.shield(self.enqueue(name, "stop"))

    async def restart(self, name: str) -> Outcome:
        return await asyncio.shield(self.enqueue(name, "restart"))

    def enqueue(self, name: str, kind: str) -> "asyncio.Future[Outcome]":
        """Queue a job of a `kind` (start, stop, restart); KeyError for a unit that is not there."""
        unit = self.timer(name) or self.service(name)
        if unit is None:
            raise KeyError(name)
        if isinstance(unit, Timer):
            self.timers[name] = unit  # until it ends

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
        self._unsettled.discard(name)  # its job, or its timer, comes next
        return service

    def add_timer(self, name: str, description: str, on_active_us: int, text: str) -> Timer:
        if name in self.timers:
            raise FileExistsError(name)
        self.files.write(f"{TRANSIENT}/{name}", text, mode=0o644)
        unit = ServiceUnit(name, "loaded", description=description, fragment=f"{TRANSIENT}/{name}")
        timer = self.timers[name] = Timer(self, unit, on_active_us)
        return timer

    def collect(self, service: Service) -> None:
        """Unload a unit that is down, has no job and no process left, and that nothing refers to."""
        name, status = service.unit.name, service.status
        down = status.active == "inactive" or (
            status.active == "failed" and service.unit.collect == "inactive-or-failed"
        )
        if self.services.get(name) is not service or not down or self.jobs.running(name) or self._referred(service):
            return
        if service.cgroup.members():
            self._unsettled.add(name)
        else:
            self.forget(name)

    def _referred(self, service: Service) -> bool:
        name = service.unit.name
        if self._wanted is None:
            self._wanted = wanted(self.files)
        held = any(timer.service == name for timer in self.timers.values())
        return held or (name in self._wanted and service.unit.load_state != "not-found")

    def _job_done(self, name: str) -> None:
        if (service := self.services.get(name)) is not None:
            self.collect(service)

    def forget(self, name: str) -> None:
        """Unload a unit, and remove a transient one's file; a timer's service goes with it unless it runs."""
        timer = self.timers.pop(name, None)
        if timer is None:
            self.services.pop(name, None)
        if self.files.exists(f"{TRANSIENT}/{name}"):
            self.files.remove(f"{TRANSIENT}/{name}")
        if timer is not None and (ours := self.services.get(timer.service)) is not None:
            self.collect(ours)

    def groups(self) -> list[Group]:
        """Every living process group of every unit."""
        return [group for service in self.services.values() for group in service.cgroup.groups()]

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
        self._wanted = None
        return ending
