"""One service's life: start, stop and restart as systemd 252 does them."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tasks.practice.cgroup import ControlGroup
from tasks.practice.ends import EXEC_FAILED, STEPS, exec_main_code, restarts, result_of
from tasks.practice.environment import EnvironmentUnreadable, unit_environment
from tasks.practice.process import EmitAs, Group, SpawnFailed
from tasks.practice.records import Records, comm
from tasks.practice.status import ServiceStatus, StartLimit
from tasks.practice.termination import Termination
from tasks.practice.unitfile import INFINITY, expand_variables
from tasks.practice.units import Exec, ServiceUnit

if TYPE_CHECKING:
    from tasks.practice.systemd import Systemd


class Service:
    """A loaded service unit. `start` and `stop` are the bodies of jobs; a life goes on when its job is cancelled."""

    def __init__(self, systemd: "Systemd", unit: ServiceUnit) -> None:
        self.unit = unit
        self.status = ServiceStatus(systemd.clock)
        self.cgroup = ControlGroup(lambda pid: pid in systemd.faults.unkillable)
        self.records = Records(systemd.journal, unit.name)
        self.limit = StartLimit()
        self._systemd = systemd
        self._life: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._again: asyncio.Task[None] | None = None
        self._main: Group | None = None
        self._main_gone = asyncio.Event()
        self._forked = asyncio.Event()
        self._settled = asyncio.Event()
        self._forking = asyncio.Lock()
        self._stop_asked = False
        self._up = False
        self._over = False
        self._identifier = ""

    async def start(self) -> bool:
        """The job's success. A oneshot's job lasts until its program has ended."""
        if self._ending is not None:
            await asyncio.shield(self._ending)
        if self.status.active == "active":
            return True
        if self.status.active != "activating" or self._again is not None:
            if not self._admitted():
                return False
            self._begin()
        oneshot = self.unit.type == "oneshot"
        await (self._settled if oneshot else self._forked).wait()
        return self.status.result == "success" if oneshot else self._up

    async def stop(self) -> bool:
        if self._again is not None:
            self._forget_restart()
            self.status.flush_restarts = True
            self.records.stopped(self.unit)
        if self.status.active in ("inactive", "failed") and self._ending is None:
            return True
        if self.status.sub != "exited" or self.cgroup.members() or self.unit.exec_stop:
            self.records.stopping(self.unit)
        self._stop_asked = True
        self._end()
        if self._ending is not None:
            await asyncio.shield(self._ending)
        self.records.stopped(self.unit)
        return True

    def reset_failed(self) -> None:
        self.limit.forget()
        self.status.n_restarts = 0
        if self.status.active == "failed":
            self.status.result = "success"
            self.status.enter("inactive", "dead")
            self._systemd.collect(self)

    def power_off(self) -> None:
        """The machine loses its power: no record, no signal handler, no restart."""
        for task in (self._life, self._ending, self._again):
            if task is not None:
                task.cancel()
        self.cgroup.kill_all()

    def _admitted(self) -> bool:
        if self.limit.admit(self._systemd.clock.monotonic_us(), self.unit):
            return True
        self._forget_restart()
        self.records.about("Start request repeated too quickly.")
        self.status.result = "start-limit-hit" if self.status.result == "success" else self.status.result
        self.status.enter("failed", "failed")
        self.records.ended(self.status.result)
        self.records.start_failed(self.unit)
        return False

    def _begin(self) -> None:
        self._forget_restart()
        self.status.began(self._systemd.new_invocation())
        self.records.invocation = self.status.invocation
        self._forked.clear()
        self._settled.clear()
        self._main, self._stop_asked, self._up, self._over = None, False, False, False
        self._identifier = self.unit.identifier or comm(self.unit.exec_start[0].path)
        for pid, argv in self.cgroup.members().items():
            self.records.left_over(pid, argv[0])
        if self.unit.exec_start_pre or self.unit.type in ("oneshot", "exec"):
            self.records.starting(self.unit)
            self.status.enter("activating", "start-pre" if self.unit.exec_start_pre else "start")
        self._life = self._systemd.task(self._live())

    async def _live(self) -> None:
        """From the first fork to the last exit."""
        with self._bounded():
            for command in self.unit.exec_start_pre:
                if not await self._control(command) and not self._over:
                    self._end()
                if self._over:
                    return
        for command in self.unit.exec_start:
            status = await self._run_main(command)
            if self._over:
                return
            if self.status.result != "success" and not command.ignore_failure:
                break
            self.status.result = "success" if command.ignore_failure and status else self.status.result
        if self.unit.remain_after_exit and self.status.result == "success":
            self.status.enter("active", "exited")
            if self.unit.type == "oneshot":
                self.records.started(self.unit)
            self._settled.set()
            return
        self._end()

    async def _run_main(self, command: Exec) -> int:
        self._main_gone.clear()
        group = await self._fork(command)
        if isinstance(group, int):
            status = group
            if self.status.result == "resources":
                return status
        else:
            with self._bounded():
                status = await group.wait(self._printer())
        self._main_gone.set()
        self.status.main_ended(exec_main_code(status), abs(status))
        result = result_of(status, self.unit.success_exit, daemon=self.unit.type != "oneshot")
        if result != "success":
            self.records.exited(status)
            self.status.result = result if self.status.result == "success" else self.status.result
        self._forked.set()
        return status

    async def _fork(self, command: Exec) -> Group | int:
        """The main process, or the status it ended with before exec. For Type=simple the unit is up with the fork."""
        try:
            env = self._environment()
            if self.unit.type != "oneshot" and self.unit.type != "exec":
                self._running()
            group = await self._spawn(command, env)
        except SpawnFailed as refused:
            pid = self._systemd.new_pid()
            self.status.main_started(pid)
            self.records.spawn_failed(pid, refused)
            return STEPS[refused.step].status
        except EnvironmentUnreadable as refused:
            self.records.about(f"{refused}", priority=3)
            self.records.about(f"Failed to run 'start' task: {refused.reason}", priority=4)
            self.status.result = "resources"
            self.status.enter("activating", "start")
            return EXEC_FAILED
        self._main = group
        self.status.main_started(group.pid)
        if self.unit.type == "exec":
            self._running()
        elif self.unit.type == "oneshot":
            self.status.enter("activating", "start")
        self._forked.set()
        return group

    def _running(self) -> None:
        self._up = True
        self.status.enter("active", "running")
        self.records.started(self.unit)

    def _environment(self) -> Mapping[str, str]:
        return unit_environment(self._systemd.files, self.unit, self.status.invocation)

    async def _spawn(self, command: Exec, env: Mapping[str, str]) -> Group:
        argv = expand_variables(list(command.argv), env)
        async with self._forking:
            group = await self._systemd.spawn(command.path, argv, env, self.unit)
            self.cgroup.add(group)
        return group

    async def _control(self, command: Exec) -> bool:
        """Run ExecStartPre= or ExecStop= to its end."""
        try:
            group = await self._spawn(command, self._environment())
            status = await group.wait(self._printer())
        except SpawnFailed as refused:
            self.records.spawn_failed(self._systemd.new_pid(), refused)
            status = STEPS[refused.step].status
        except EnvironmentUnreadable as refused:
            self.records.about(f"{refused}", priority=3)
            self.status.result = "resources"
            return False
        result = result_of(status, frozenset(), daemon=False)
        if result == "success" or command.ignore_failure:
            return True
        self.records.exited(status, "Control process")
        self.status.result = result
        return False

    def _printer(self) -> EmitAs:
        # journald stamps a line with the unit's invocation of now, so a leftover's lines carry the next start's.
        return self._systemd.journal.printer(self.unit.name, lambda: self.status.invocation, self._identifier)

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        limit, words = self.unit.runtime_max_us, "Service reached runtime time limit. Stopping."
        if self.status.active != "active":
            limit, words = self.unit.timeout_start_us, "start operation timed out. Terminating."
        timer = None
        if limit < INFINITY:
            timer = asyncio.get_running_loop().call_later(limit / 1e6, self._expire, words)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self, words: str) -> None:
        if self._ending is None:
            self.records.about(words)
            self.status.result = "timeout"
            self._end()

    def _end(self) -> None:
        self._over = True
        if self._ending is None:
            self._ending = self._systemd.task(self._wind_down())

    async def _wind_down(self) -> None:
        was_starting = self.status.active == "activating" and self.status.sub != "auto-restart"
        if self._stop_asked and self._main_alive():
            await self._stop_commands()
        async with self._forking:  # a fork that is under way is waited for, so that nobody comes to life afterwards
            main = self._main.pid if self._main is not None else 0
        await Termination(self.unit, self.status, self.records, self.cgroup, main, self._main_gone).run()
        self._life = None
        self._dead(was_starting)

    async def _stop_commands(self) -> None:
        if self.unit.exec_stop:
            self.status.enter("deactivating", "stop")
        for command in self.unit.exec_stop:
            await self._control(command)

    def _main_alive(self) -> bool:
        return self._main is not None and self._main.pid in self._main.members()

    def _dead(self, was_starting: bool) -> None:
        self._ending = None
        self.status.main_pid = 0
        result = self.status.result
        again = not self._stop_asked and restarts(self.unit.restart, result) and self.unit.type != "oneshot"
        self.records.ended(result)
        for pid, argv in self.cgroup.members().items():
            self.records.remains(pid, argv[0])
        self.status.enter(*(("inactive", "dead") if result == "success" else ("failed", "failed")))
        if was_starting and not self._stop_asked:
            (self.records.started if result == "success" else self.records.start_failed)(self.unit)
        self._settled.set()
        self._forked.set()
        if again:
            self.status.enter("activating", "auto-restart")
            self._again = self._systemd.task(self._start_again())
        else:
            self.status.flush_restarts = True
            self._systemd.collect(self)

    async def _start_again(self) -> None:
        await asyncio.sleep(self.unit.restart_us / 1e6)
        self.status.n_restarts += 1
        self.records.restart_scheduled(self.status.n_restarts)
        self.records.stopped(self.unit)
        if self._admitted():
            self._begin()

    def _forget_restart(self) -> None:
        again, self._again = self._again, None
        if again is not None and again is not asyncio.current_task():
            again.cancel()
            self.status.enter("inactive", "dead")
