"""Where the time without an answer went: stop, rebind, install, load, warm-up, verify; read from a history."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from state.events import ActionFailed, ActionStarted, Judged, ReadinessReached, Side, StepSucceeded, decode
from state.model import Value
from state.store.port import RecordedEvent

PHASES = ("stop", "rebind", "install", "start", "load", "warm-up", "verify")
_STEPS = {"stop-service": "stop", "rebind-gpus": "rebind", "install-files": "install", "start-service": "start"}


class Phase(Value):
    """Part of an outage; seconds since the rollout was asked for. `side` is whose start it belongs to."""

    name: str
    side: Side
    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


def phases(history: Iterable[RecordedEvent]) -> tuple[Phase, ...]:
    """In their order; those of the way back have side `old`. What was not reached is left out."""
    return tuple(_Reader().read(history))


class _Reader:
    def __init__(self) -> None:
        self._begun: dict[str, datetime] = {}
        self._started: dict[str, datetime] = {}
        self._ready: dict[str, datetime] = {}
        self._zero: datetime | None = None

    def read(self, history: Iterable[RecordedEvent]) -> Iterator[Phase]:
        for recorded in history:
            self._zero = self._zero or recorded.recorded_at
            match event := decode(recorded):
                case ActionStarted():
                    self._begun.setdefault(event.action, recorded.recorded_at)
                case StepSucceeded() | ActionFailed():
                    yield from self._step(event.action, recorded.recorded_at)
                case ReadinessReached():
                    yield from self._boarding(event, recorded.recorded_at)
                case Judged() if event.side in self._ready:
                    yield self._phase("verify", event.side, self._ready.pop(event.side), recorded.recorded_at)

    def _step(self, action: str, at: datetime) -> Iterator[Phase]:
        kind, begun = action.rpartition(":")[2], self._begun.get(action)
        if kind not in _STEPS or begun is None:
            return
        side: Side = "old" if action.startswith("undo:") else "new"
        name = _undone(_STEPS[kind]) if side == "old" else _STEPS[kind]
        if name == "start":
            self._started[side] = at
        yield self._phase(name, side, begun, at)

    def _boarding(self, event: ReadinessReached, at: datetime) -> Iterator[Phase]:
        """Loading is what comes before the warm-up, or all of it where no stage is called so."""
        begun = self._begun.get(event.action)
        self._ready[event.side] = at
        if begun is None:
            return
        warm = dict(event.stages).get("warm-up")
        turned = at if warm is None else min(at, _after(begun, warm))
        yield self._phase("load", event.side, begun, turned)
        if warm is not None:
            yield self._phase("warm-up", event.side, turned, at)

    def _phase(self, name: str, side: Side, begin: datetime, end: datetime) -> Phase:
        zero = self._zero or begin
        return Phase(name=name, side=side, begin_s=(begin - zero).total_seconds(), end_s=(end - zero).total_seconds())


def _undone(name: str) -> str:
    """The way back stops what was started and starts what was stopped."""
    return {"start": "stop", "stop": "start"}.get(name, name)


def _after(begin: datetime, seconds: float) -> datetime:
    return begin + timedelta(seconds=seconds)
