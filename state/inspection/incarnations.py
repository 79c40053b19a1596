"""Telling server incarnations apart: which boot a record belongs to.

By PID first, then by invocation id (journald stamps an old process's late lines with the new invocation), then by
container; where the input has none of them, by a repeated start-up after a stop, a failure or an earlier ready line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from state.inspection.boot import BootState
from state.inspection.events import (
    Adjusted,
    Alive,
    ArgumentsSeen,
    Banner,
    Decoded,
    Drafted,
    Event,
    Failed,
    Noticed,
    PidSeen,
    Ready,
    StageEntered,
    WeightsBegun,
    WeightsLoaded,
)
from state.inspection.reading import Located
from state.inspection.report import STAGES
from state.inspection.services import Services
from state.inspection.transport import Prefix

_LIVES = (Alive, Decoded, Drafted, Ready, StageEntered, WeightsBegun, WeightsLoaded)
_MOST_RUNNING = 16
_MOST_EARLY = 8
_SERVES = (Alive, Decoded, Drafted)


@dataclass(slots=True)
class Incarnations:
    """The boots in order of appearance, and how records find theirs."""

    boots: list[BootState] = field(default_factory=list)
    by_pid: dict[int, BootState] = field(default_factory=dict)
    by_invocation: dict[str, BootState] = field(default_factory=dict)
    by_source: dict[str, BootState] = field(default_factory=dict)
    ranks: dict[int, str] = field(default_factory=dict)
    early: tuple[Located, ...] = ()
    services: Services = field(default_factory=Services)

    def find(self, prefix: Prefix, stream: str, located: Sequence[Located]) -> BootState | None:
        """The boot of an engine's record; None where it says nothing that could begin one."""
        if stream or prefix.source:
            return self._of_source(prefix, f"{prefix.source}/{stream}", located)
        inline = next((e for _, e in located if isinstance(e, PidSeen)), None)
        pid = inline.pid if inline is not None and prefix.pid is None else prefix.pid
        boot = self._known(prefix, pid)
        if boot is None or self._anew(boot, located):
            boot = self._other(prefix, pid, inline, located)
        if boot is not None:
            self._remember(boot, prefix, pid, located)
        else:
            self._keep(located)
        return boot

    def of_systemd(self, prefix: Prefix, *, create: bool) -> BootState | None:
        """The boot that a line of systemd speaks of: by invocation or PID, else the last one, else one of its own."""
        boot = self.by_invocation.get(prefix.invocation or "")
        if boot is None and prefix.pid is not None and prefix.pid != 1:
            boot = self.by_pid.get(prefix.pid)
        if boot is None and prefix.invocation is None:
            if prefix.unit and not self.services.is_ours(prefix.unit):
                return None
            boot = self._last
            if boot is not None and boot.unit and prefix.unit and boot.unit != prefix.unit:
                return None
            if boot is not None and boot.closed and boot.pids:
                boot = None
        if boot is None and create:
            boot = self._new(prefix)
        if boot is not None and prefix.unit:
            self.services.ours.add(prefix.unit)
        return boot

    def started(self, prefix: Prefix) -> None:
        """systemd starts the service: what unknown processes say from now on is of no boot that is over."""
        boot = self._last
        ours = prefix.unit is not None and self.services.is_ours(prefix.unit)
        if boot is not None and boot.over and ours:
            boot.closed = boot.closed or boot.unit in (None, prefix.unit)

    def expected(self, prefix: Prefix, stream: str) -> BootState | None:
        """The boot that a process belongs to which has begun to tell of a failure; none is made."""
        if stream or prefix.source:
            return self.by_source.get(f"{prefix.source}/{stream}")
        boot = self._known(prefix, prefix.pid)
        if boot is None and prefix.pid is not None:
            boot = self._parent(prefix, prefix.pid, None, ())
        if boot is not None and prefix.pid is not None:
            self.by_pid.setdefault(prefix.pid, boot)
            boot.pids.setdefault(prefix.pid)
        return boot

    @property
    def _last(self) -> BootState | None:
        """The newest boot of a server."""
        return next((boot for boot in reversed(self.boots) if not boot.router), None)

    def _of_source(self, prefix: Prefix, name: str, located: Sequence[Located]) -> BootState | None:
        boot = self.by_source.get(name)
        if boot is None or self._anew(boot, located):
            if not self._begins(located) and boot is None:
                return None
            boot = self._new(prefix)
            boot.router = name.endswith("/router")
            self.by_source[name] = boot
        if prefix.pid is not None:
            boot.pids.setdefault(prefix.pid)
        return boot

    def _known(self, prefix: Prefix, pid: int | None) -> BootState | None:
        if pid is not None and pid in self.by_pid:
            return self.by_pid[pid]
        if prefix.invocation is not None:
            return self.by_invocation.get(prefix.invocation)
        if pid is None and self._last is not None and not self._last.closed:
            return self._last
        return None

    def _other(
        self, prefix: Prefix, pid: int | None, inline: PidSeen | None, located: Sequence[Located]
    ) -> BootState | None:
        """The boot of a record whose process was not seen before, or that starts anew."""
        last = self._last
        if pid is not None and pid not in self.by_pid:
            parent = self._parent(prefix, pid, inline, located)
            if parent is not None:
                return parent
        if not self._begins(located) or (last is not None and self._of_another(prefix, located)):
            return None
        boot = self._new(prefix)
        if last is not None and pid is not None and not last.over and _serves(located) and last.pids:
            boot.add_notice("overlapping-boots", f"already serving while {next(iter(last.pids))} was", last.last_line)
        return boot

    def _parent(self, prefix: Prefix, pid: int, inline: PidSeen | None, located: Sequence[Located]) -> BootState | None:
        """The boot that an unknown process may be a rank or helper of: of several, the one started last before it."""
        last = self._last
        running = (boot for boot in reversed(self.boots) if not boot.router and (boot is last or not boot.over))
        found = [
            boot
            for boot in islice(running, _MOST_RUNNING)
            if _agrees(boot, located) and self._joins(boot, prefix, inline, located)
        ]
        before = [boot for boot in found if boot.pids and min(boot.pids) < pid]
        if len(found) > 1 and before:
            return max(before, key=lambda boot: min(boot.pids))
        return found[0] if found else None

    def _joins(self, boot: BootState, prefix: Prefix, inline: PidSeen | None, located: Sequence[Located]) -> bool:
        """Whether an unknown process is a rank or helper of the running boot rather than a server of its own."""
        if prefix.invocation is not None and boot.invocation not in (None, prefix.invocation):
            return False
        if boot.closed or (boot.idents and prefix.ident and prefix.ident not in boot.idents):
            return False
        if (boot.over or boot.ready) and any(isinstance(e, Failed) and e.opens for _, e in located):
            return False
        if any(_starts(event) for _, event in located):
            return not boot.pids and not boot.over and not boot.ready and boot.arguments is None
        if (boot.over or boot.ready) and any(isinstance(e, Adjusted) and e.at_start for _, e in located):
            return False
        if inline is not None:
            return not inline.main and not boot.stop_asked
        if boot.over:
            return not any(isinstance(e, _LIVES) for _, e in located)
        if any(isinstance(e, Decoded) for _, e in located) and not boot.ready and not _may_decode(boot):
            return False
        rank = _rank(located)
        if rank is not None and any(self.ranks.get(known) == rank for known in boot.pids):
            return False
        return boot.arguments is not None or (rank is not None and any(known in self.ranks for known in boot.pids))

    def _of_another(self, prefix: Prefix, located: Sequence[Located]) -> bool:
        """Whether all there is is an exception of a program that no boot is known to be."""
        known = {ident for boot in self.boots for ident in boot.idents}
        strange = prefix.ident and known and prefix.ident not in known
        return bool(strange) and all(isinstance(event, Failed) and event.soft for _, event in located)

    @staticmethod
    def _anew(boot: BootState, located: Sequence[Located]) -> bool:
        """Whether the record is a start-up of the process after that boot."""
        over = boot.over or boot.ready
        for _, event in located:
            match event:
                case Banner() if over:
                    return True
                case ArgumentsSeen(opens=True) if over:
                    return True
                case ArgumentsSeen(opens=True) if boot.arguments is not None and _beyond_arguments(boot):
                    return True
                case Adjusted(at_start=True) if over:
                    return True
                case Failed(opens=True) if boot.stop_asked or boot.ready:
                    return True
                case StageEntered() | WeightsBegun() if boot.stop_asked and boot.ended:
                    return True
        return False

    @staticmethod
    def _begins(located: Sequence[Located]) -> bool:
        """Whether the record may be the first of a boot."""
        return any(
            not isinstance(event, PidSeen | Noticed | Alive)
            or (isinstance(event, Noticed) and event.opens)
            or (isinstance(event, Alive) and not event.weak)
            for _, event in located
        )

    def _keep(self, located: Sequence[Located]) -> None:
        """A script that shows how it is about to start the engine speaks of the next boot."""
        said = [(line, e) for line, e in located if isinstance(e, Noticed) and e.code == "simulated-acceptance"]
        self.early = (*self.early, *said)[:_MOST_EARLY]

    def _new(self, prefix: Prefix) -> BootState:
        boot = BootState(invocation=prefix.invocation, unit=prefix.unit)
        for line, event in self.early:
            boot.apply(event, line)
        self.early = ()
        self.boots.append(boot)
        if prefix.invocation is not None:
            self.by_invocation[prefix.invocation] = boot
        return boot

    def _remember(self, boot: BootState, prefix: Prefix, pid: int | None, located: Sequence[Located]) -> None:
        for known in (pid, prefix.pid):
            if known is not None:
                self.by_pid[known] = boot
                boot.pids.setdefault(known)
        if prefix.ident:
            boot.idents.add(prefix.ident)
        rank = _rank(located)
        if pid is not None and rank is not None:
            self.ranks.setdefault(pid, rank)
        boot.invocation = boot.invocation or prefix.invocation
        boot.unit = boot.unit or prefix.unit
        self._overlap(boot, pid, located)

    def _overlap(self, boot: BootState, pid: int | None, located: Sequence[Located]) -> None:
        """A record of an older process at work, after a newer one has started."""
        if pid is None or boot is self.boots[-1] or not any(isinstance(event, _LIVES) for _, event in located):
            return
        newer = next((known for known in reversed(self.boots) if known.pids), None)
        if newer is not None and newer is not boot and (None in (boot.unit, newer.unit) or boot.unit == newer.unit):
            newer.add_notice(
                "overlapping-boots", f"{pid} still writes after {next(iter(newer.pids))} started", located[-1][0]
            )


def _agrees(boot: BootState, located: Sequence[Located]) -> bool:
    """Whether the boot may decode with, or without, speculation as the records say."""
    known, algorithm = boot.configured.known, boot.configured.algorithm
    for _, event in located:
        if isinstance(event, Decoded) and event.has_acceptance is not None and known:
            return event.has_acceptance is (algorithm is not None)
    return True


def _starts(event: Event) -> bool:
    match event:
        case Banner() | ArgumentsSeen(opens=True):
            return True
    return False


def _serves(located: Sequence[Located]) -> bool:
    return any(isinstance(event, _SERVES) for _, event in located)


def _rank(located: Sequence[Located]) -> str | None:
    for _, event in located:
        if isinstance(event, Decoded):
            return f"{event.group} {event.member}"
        if isinstance(event, WeightsBegun | WeightsLoaded):
            words = event.rank.split()
            group = " ".join(word for word in words if word.startswith("DP"))
            return f"{group} {' '.join(word for word in words if not word.startswith('DP'))}"
    return None


def _may_decode(boot: BootState) -> bool:
    """Whether the boot has got so far, for all that was seen, that one of its processes may decode."""
    return boot.alive or boot.stage is None or STAGES.index(boot.stage) >= STAGES.index("kv-cache")


def _beyond_arguments(boot: BootState) -> bool:
    return boot.stage is not None and STAGES.index(boot.stage) > 0
