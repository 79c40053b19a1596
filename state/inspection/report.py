"""What `interlock inspect` reports: one frozen record for each kind, with the attribute names of schema `inspection/1`.

A field that the artefact does not prove is None: unknown, never zero and never false.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

SCHEMA = "inspection/1"

Engine = str | None
Stage = Literal["arguments", "weights", "draft-weights", "kv-cache", "graphs", "warm-up", "ready"]
Outcome = Literal["ready", "starting", "failed", "stopped"]
Role = Literal["decode", "prefill", "unified"]
SpeculationState = Literal["active", "useless", "off", "configured", "not-applicable"]

STAGES: tuple[Stage, ...] = ("arguments", "weights", "draft-weights", "kv-cache", "graphs", "warm-up", "ready")
"""In the order in which a boot enters them."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One load of weights by one rank; `class_` is printed as `class`, `gb` is what the engine says it took."""

    class_: str
    role: Literal["target", "draft"]
    rank: str
    gb: float | None


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A setting that the engine changed by itself."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A failure or a notice: `line` is 1-based in the input, `count` how many lines were merged into it."""

    code: str
    text: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class AcceptLength:
    """Tokens emitted for each target step, bonus included; 1.00 means that nothing was accepted."""

    mean: float
    min: float | None = None
    max: float | None = None
    last: float | None = None


@dataclass(frozen=True, slots=True)
class AcceptRate:
    """`strict` is accepted drafts over drafts, 0..1; `bonus-included` counts the target's own token too."""

    mean: float
    definition: Literal["strict", "bonus-included"]


@dataclass(frozen=True, slots=True)
class Speculation:
    algorithm: str | None = None
    num_steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None
    state: SpeculationState | None = None
    samples: int = 0
    accept_length: AcceptLength | None = None
    accept_rate: AcceptRate | None = None
    accepted_tokens: int | None = None
    drafted_tokens: int | None = None
    per_position: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tokens per second over decode records, the first record of each burst left out."""

    gen_mean: float
    gen_max: float
    samples: int


@dataclass(frozen=True, slots=True)
class Queue:
    running_max: int | None
    queued_max: int | None


@dataclass(frozen=True, slots=True)
class Boot:
    """One server incarnation. `invocation` is its systemd invocation id, known to callers and not printed."""

    pids: tuple[int, ...] = ()
    version: str | None = None
    stage: Stage | None = None
    outcome: Outcome | None = None
    role: Role | None = None
    arguments: Mapping[str, Any] | None = None
    weights: tuple[Weight, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()
    failures: tuple[Entry, ...] = ()
    notices: tuple[Entry, ...] = ()
    speculation: Speculation = field(default_factory=Speculation)
    throughput: Throughput | None = None
    queue: Queue | None = None
    invocation: str | None = field(default=None, metadata={"printed": False})


@dataclass(frozen=True, slots=True)
class LogReport:
    engine: Engine
    boots: tuple[Boot, ...]
    schema: str = SCHEMA
    kind: str = "log"


@dataclass(frozen=True, slots=True)
class KernelFault:
    """`device` is `dddd:bb:dd.f`; `xid` is NVIDIA's number where the message has one."""

    code: str
    device: str | None
    xid: int | None
    text: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class KernelReport:
    faults: tuple[KernelFault, ...]
    schema: str = SCHEMA
    kind: str = "kernel"


@dataclass(frozen=True, slots=True)
class Unit:
    """Directives in force; a directive that is not set is None, times are seconds or the word `infinity`."""

    exec_start: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_files: tuple[str, ...] = ()
    user: str | None = None
    working_directory: str | None = None
    restart: str | None = None
    kill_mode: str | None = None
    type: str | None = None
    timeout_start_s: float | str | None = None
    timeout_stop_s: float | str | None = None


@dataclass(frozen=True, slots=True)
class UnitFinding:
    code: str
    severity: Literal["error", "warning"]
    directive: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class UnitReport:
    unit: Unit
    engine: Engine
    arguments: Mapping[str, Any]
    findings: tuple[UnitFinding, ...]
    schema: str = SCHEMA
    kind: str = "unit"


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """`per_label` has one object for each engine or rank found in the labels."""

    engine: Engine
    speculation: Speculation
    running: float | None
    queued: float | None
    per_label: tuple[Mapping[str, Any], ...] = ()
    schema: str = SCHEMA
    kind: str = "metrics"


@dataclass(frozen=True, slots=True)
class Memory:
    """Gigabytes; `graph_gb` by the kind of graph."""

    weights_gb: float | None = None
    kv_gb: float | None = None
    graph_gb: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerInfoReport:
    """`effective_differs` maps a field to [asked, effective]."""

    engine: Engine
    version: str | None
    arguments: Mapping[str, Any]
    effective_differs: Mapping[str, tuple[Any, Any]]
    speculation: Speculation
    memory: Memory
    schema: str = SCHEMA
    kind: str = "server-info"


@dataclass(frozen=True, slots=True)
class AnswerSpeculation:
    state: SpeculationState | None = None
    accept_length: AcceptLength | None = None
    accepted_tokens: int | None = None
    drafted_tokens: int | None = None
    verify_calls: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """A finished answer; `degenerate` is None where there is too little text to say."""

    engine: Engine
    completion_tokens: int | None
    finish_reason: str | None
    speculation: AnswerSpeculation
    degenerate: bool | None
    text_chars: int | None
    schema: str = SCHEMA
    kind: str = "answer"


Report = LogReport | KernelReport | UnitReport | MetricsReport | ServerInfoReport | AnswerReport


def to_json(report: Report) -> dict[str, Any]:
    """The report as one JSON object of schema `inspection/1`."""
    printed = _plain(report)
    head = {"schema": printed.pop("schema"), "kind": printed.pop("kind")}
    return {**head, **printed}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {
            f.name.rstrip("_"): _plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("printed", True)
        }
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value
