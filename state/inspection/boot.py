"""One server incarnation, folded from events; `snapshot` gives the report at any time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from state.inspection.acceptance import Acceptance
from state.inspection.causes import Causes, Entries
from state.inspection.events import (
    SIGNS_OF_LIFE,
    Adjusted,
    AlgorithmAsked,
    ArgumentsSeen,
    Configured,
    Decoded,
    Drafted,
    Ended,
    Event,
    Failed,
    Noticed,
    PidSeen,
    Ready,
    RoleSeen,
    SpeculationBuilt,
    StageEntered,
    StopAsked,
    VersionSeen,
    WeightsBegun,
    WeightsLoaded,
)
from state.inspection.judgement import outcome, speculation
from state.inspection.reading import Located
from state.inspection.report import STAGES, Adjustment, Boot, Role, Stage, Weight
from state.inspection.text import quote
from state.inspection.throughput import Load

_MOST_WEIGHTS = 4096
_MOST_ADJUSTMENTS = 64
_ENOUGH_RECORDS = 3
"""Decode records that together show that no graph is used; a single one may be a batch that no graph fits."""


@dataclass(slots=True)
class BootState:
    """Everything kept about a boot; its size does not grow with the length of the log."""

    pids: dict[int, None] = field(default_factory=dict)
    invocation: str | None = None
    unit: str | None = None
    version: str | None = None
    stage: Stage | None = None
    configured: Configured = field(default_factory=Configured)
    arguments: Mapping[str, Any] | None = None
    role: Role | None = None
    weights: list[Weight] = field(default_factory=list)
    loads: dict[str, int] = field(default_factory=dict)
    adjustments: dict[str, Adjustment] = field(default_factory=dict)
    causes: Causes = field(default_factory=Causes)
    soft: Causes = field(default_factory=Causes)
    notices: Entries = field(default_factory=Entries)
    acceptance: Acceptance = field(default_factory=Acceptance)
    load: Load = field(default_factory=Load)
    asked: str | None = None
    begun: bool = False
    ready: bool = False
    stop_asked: bool = False
    ended: bool = False
    alive: bool = False
    draft_seen: bool = False
    decoded_without: bool = False
    graph_records: int = 0
    without_graph: int = 0
    router: bool = False
    closed: bool = False
    """Whether its service was started anew after it was over."""
    idents: set[str] = field(default_factory=set)
    last_line: int = 0
    """The last line with more than a sign of life, else its first one."""

    @property
    def over(self) -> bool:
        return self.stop_asked or self.ended or self.causes.any

    def apply(self, event: Event, line: int) -> None:
        if not (self.last_line and isinstance(event, SIGNS_OF_LIFE)):
            self.last_line = max(self.last_line, line)
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, line)

    def _arguments(self, event: ArgumentsSeen, line: int) -> None:
        self.begun = True
        self.arguments = {**(self.arguments or {}), **event.values}
        seen, known = event.speculation, self.configured
        self.configured = seen if seen.known or not known.known else replace(known, role=seen.role or known.role)
        self.role = seen.role or self.role
        if seen.graphs_off:
            self.notices.add("graphs-off", "the arguments switch decode graphs off", line)
        self._alias()

    def _asked(self, event: AlgorithmAsked, line: int) -> None:
        self.asked = event.name
        self._alias()

    def _alias(self) -> None:
        if self.asked == "NEXTN" and self.configured.algorithm == "EAGLE":
            self.adjustments.setdefault("algorithm-alias", Adjustment("algorithm-alias", "NEXTN becomes EAGLE"))

    def _version(self, event: VersionSeen, line: int) -> None:
        self.version = self.version or event.version

    def _stage(self, event: StageEntered, line: int) -> None:
        self.begun = True
        if self.stage is None or STAGES.index(event.stage) > STAGES.index(self.stage):
            self.stage = event.stage
            if event.stage != "arguments":
                self.soft = Causes()

    def _weights_begun(self, event: WeightsBegun, line: int) -> None:
        self.loads[event.rank] = self.loads.get(event.rank, 0) + 1
        self._stage(StageEntered("draft-weights" if self.loads[event.rank] > 1 else "weights"), line)

    def _weights_loaded(self, event: WeightsLoaded, line: int) -> None:
        before = sum(weight.rank == event.rank for weight in self.weights)
        draft = event.draft or before > 0
        self.loads[event.rank] = max(self.loads.get(event.rank, 0), before + 1)
        self.draft_seen = self.draft_seen or draft
        if len(self.weights) < _MOST_WEIGHTS:
            self.weights.append(Weight(event.class_, "draft" if draft else "target", event.rank, event.gb))
        self._stage(StageEntered("draft-weights" if draft else "weights"), line)

    def _adjusted(self, event: Adjusted, line: int) -> None:
        self.begun = True
        if len(self.adjustments) < _MOST_ADJUSTMENTS:
            self.adjustments.setdefault(event.code, Adjustment(event.code, event.text))

    def _failed(self, event: Failed, line: int) -> None:
        if self.stop_asked and not self.causes.any and event.code != "stop-timeout":
            self.ended = self.ended or event.code in ("killed", "exited")
            return
        if event.soft:
            if not self.ready:
                self.soft.add(event.code, event.text, line)
            return
        self.causes.add(event.code, event.text, line)
        if event.code == "port-in-use" and self.stage == "ready":
            self.stage = "warm-up"

    def _ended(self, event: Ended, line: int) -> None:
        self.ended = True
        if event.code is None:
            self.stop_asked = self.stop_asked or not self.causes.any
        elif not self.stop_asked or self.causes.any:
            for entry in self.soft.listed():
                self.causes.add(entry.code, entry.text, entry.line)
            self.soft = Causes()
            self.causes.add(event.code, event.text, line)

    def _noticed(self, event: Noticed, line: int) -> None:
        self.notices.add(event.code, event.text, line)

    def _decoded(self, record: Decoded, line: int) -> None:
        self.alive = True
        self.load.add(record)
        if record.has_acceptance:
            self.acceptance.add_record(record)
        elif record.has_acceptance is False:
            self.decoded_without = True
        self.graph_records += record.graphs is True
        self.without_graph += record.graphs is False

    def take_records(self, like: Decoded, columns: Mapping[str, Sequence[bytes]], count: int, last: int) -> None:
        """Many decode records of one shape: `like` is what they have in common, `columns` their fields, `last` the
        line of the last one."""
        self.alive = True
        self.last_line = max(self.last_line, last)
        self.graph_records += count if like.graphs is True else 0
        self.without_graph += count if like.graphs is False else 0
        self.decoded_without = self.decoded_without or like.has_acceptance is False
        counts = columns.get("tokens", ())
        drained = _places(counts, b"0")
        self.load.add_many(like, columns, drained)
        if like.has_acceptance:
            self.acceptance.add_many(like, columns, drained)

    def _drafted(self, window: Drafted, line: int) -> None:
        self.alive = True
        self.draft_seen = True
        if window.per_step and self.configured.num_steps is None:
            self.configured = replace(self.configured, num_steps=window.per_step)
        self.acceptance.add_window(window)

    def _role(self, event: RoleSeen, line: int) -> None:
        self.role = self.role or event.role

    def _built(self, event: SpeculationBuilt, line: int) -> None:
        self.draft_seen = True
        if event.num_draft_tokens is not None and self.configured.num_draft_tokens is None:
            self.configured = replace(self.configured, num_draft_tokens=event.num_draft_tokens)

    def _ready(self, event: Ready, line: int) -> None:
        self.begun = True
        if not self.causes.any:
            self.ready = True
            self._stage(StageEntered("ready"), line)

    def _stop(self, event: StopAsked, line: int) -> None:
        if not self.causes.any:
            self.stop_asked = True

    def _pid(self, event: PidSeen, line: int) -> None:
        self.pids.setdefault(event.pid)

    def snapshot(self, pending: Sequence[Located] = ()) -> Boot:
        """The boot as the input shows it so far; `pending` are causes of tracebacks that are not finished."""
        causes = Causes(dict(self.causes.by_code))
        if not causes.any and any(isinstance(event, StopAsked) for _, event in pending):
            self.stop_asked = True
        if not self.stop_asked:
            for line, event in pending:
                if isinstance(event, Failed) and not (event.soft and self.ready):
                    causes.add(event.code, event.text, line)
            for entry in self.soft.listed():
                causes.add(entry.code, entry.text, entry.line)
        notices = Entries(dict(self.notices.by_code))
        if self.without_graph >= _ENOUGH_RECORDS and not self.graph_records and "graphs-off" not in notices:
            notices.add("graphs-off", "no decode record used a graph", self.last_line)
        spec = speculation(self)
        if spec.state == "useless":
            notices.add("speculation-not-accepting", "drafts are made and none is ever accepted", self.last_line)
        return Boot(
            pids=tuple(self.pids),
            version=self.version,
            stage=self.stage,
            outcome=outcome(self, failed=causes.any),
            role=self.role,
            arguments=self.arguments,
            weights=tuple(self.weights),
            adjustments=tuple(self.adjustments.values()),
            failures=causes.listed(),
            notices=notices.listed(),
            speculation=spec,
            throughput=self.load.throughput(),
            queue=self.load.queue(),
            invocation=self.invocation,
        )

    def repeat(self, codes: Sequence[str], count: int, last: int) -> None:
        """Notices that the boot has already, so many times more; `last` is the line of the last one."""
        self.last_line = max(self.last_line, last)
        for code in codes:
            self.notices.repeat(code, count)

    def add_notice(self, code: str, text: str, line: int) -> None:
        self.notices.add(code, quote(text), line)


def _places(values: Sequence[bytes], wanted: bytes) -> list[int]:
    """Where the wanted value stands; it is seldom there."""
    places: list[int] = []
    with suppress(ValueError):
        while True:
            places.append(values.index(wanted, places[-1] + 1 if places else 0))
    return places


_HANDLERS: dict[type, Callable[[BootState, Any, int], None]] = {
    ArgumentsSeen: BootState._arguments,
    AlgorithmAsked: BootState._asked,
    VersionSeen: BootState._version,
    StageEntered: BootState._stage,
    WeightsBegun: BootState._weights_begun,
    WeightsLoaded: BootState._weights_loaded,
    Adjusted: BootState._adjusted,
    Failed: BootState._failed,
    Ended: BootState._ended,
    Noticed: BootState._noticed,
    Decoded: BootState._decoded,
    Drafted: BootState._drafted,
    RoleSeen: BootState._role,
    SpeculationBuilt: BootState._built,
    Ready: BootState._ready,
    StopAsked: BootState._stop,
    PidSeen: BootState._pid,
}
