"""What systemd remembers about a service: states, times, the main process, the start limit."""

from dataclasses import dataclass, field

from tasks.practice.clock import Clock
from tasks.practice.units import ServiceUnit

Times = tuple[int, int]
"""Realtime and monotonic, in microseconds; zeros for never."""


@dataclass(slots=True)
class ServiceStatus:
    """The run-time half of a unit. `exec_code` is CLD_EXITED 1, CLD_KILLED 2 or CLD_DUMPED 3."""

    clock: Clock
    active: str = "inactive"
    sub: str = "dead"
    result: str = "success"
    invocation: str = ""
    n_restarts: int = 0
    flush_restarts: bool = False
    main_pid: int = 0
    exec_pid: int = 0
    exec_code: int = 0
    exec_status: int = 0
    times: dict[str, Times] = field(default_factory=dict)

    def enter(self, active: str, sub: str) -> None:
        now = self._now()
        self.times["StateChange"] = now
        if active != self.active:
            for state, leave, arrive in _TIMES:
                if state == self.active:
                    self.times[leave] = now
                if state == active:
                    self.times[arrive] = now
        self.active, self.sub = active, sub

    def began(self, invocation: str) -> None:
        self.invocation, self.result = invocation, "success"
        self.main_pid = self.exec_pid = self.exec_code = self.exec_status = 0
        if self.flush_restarts:
            self.n_restarts, self.flush_restarts = 0, False

    def main_started(self, pid: int) -> None:
        self.main_pid = self.exec_pid = pid
        self.exec_code = self.exec_status = 0
        self.times["ExecMainStart"] = self._now()
        self.times["ExecMainExit"] = (0, 0)

    def main_ended(self, code: int, status: int) -> None:
        self.main_pid, self.exec_code, self.exec_status = 0, code, status
        self.times["ExecMainExit"] = self._now()

    def _now(self) -> Times:
        return self.clock.realtime_us(), self.clock.monotonic_us()


_TIMES = (
    ("active", "ActiveExit", "ActiveEnter"),
    ("inactive", "InactiveExit", "InactiveEnter"),
    ("failed", "InactiveExit", "InactiveEnter"),
)


@dataclass(slots=True)
class StartLimit:
    """systemd's rate limit: `burst` starts in an interval that begins with the first of them."""

    begin_us: int = 0
    count: int = 0

    def admit(self, now_us: int, unit: ServiceUnit) -> bool:
        if not unit.start_limit_interval_us or not unit.start_limit_burst:
            return True
        if not self.count or now_us >= self.begin_us + unit.start_limit_interval_us:
            self.begin_us, self.count = now_us, 1
            return True
        self.count += 1
        return self.count <= unit.start_limit_burst

    def forget(self) -> None:
        self.count = 0
