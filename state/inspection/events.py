"""What a single line can say. Engine readings turn lines into these; boots are folded from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from state.inspection.report import Role, Stage


@dataclass(frozen=True, slots=True)
class Banner:
    """The engine's first words in a start. `router` marks a gateway, which is a boot of its own."""

    router: bool = False


@dataclass(frozen=True, slots=True)
class ArgumentsSeen:
    """Effective arguments at start; `whole` is False where the line was cut, and then absence proves nothing."""

    values: Mapping[str, Any]
    speculation: "Configured"
    whole: bool = True
    opens: bool = True


@dataclass(frozen=True, slots=True)
class Configured:
    """Speculation as the arguments show it; `known` is False where they do not show it at all."""

    known: bool = False
    algorithm: str | None = None
    num_steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None
    role: Role | None = None
    graphs_off: bool = False


@dataclass(frozen=True, slots=True)
class VersionSeen:
    version: str


@dataclass(frozen=True, slots=True)
class StageEntered:
    stage: Stage


@dataclass(frozen=True, slots=True)
class WeightsBegun:
    rank: str


@dataclass(frozen=True, slots=True)
class WeightsLoaded:
    """`draft` is True where the class itself says so."""

    class_: str
    rank: str
    gb: float | None
    draft: bool


@dataclass(frozen=True, slots=True)
class Adjusted:
    """`at_start` is True for what is only printed while arguments are resolved, before they are shown."""

    code: str
    text: str
    at_start: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """`soft` causes count only if the boot does not get any further."""

    code: str
    text: str
    soft: bool = False
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Noticed:
    code: str
    text: str
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decode record with those of its fields that were whole.

    `has_acceptance` is None where the record was cut before it could have shown any. `group` is the data-parallel
    rank, `member` the rest of the rank; `time` is in whole seconds on the log's own clock.
    """

    group: str = ""
    member: str = ""
    time: float | None = None
    running: int | None = None
    queued: int | None = None
    tokens: int | None = None
    accept_length: float | None = None
    accept_rate: float | None = None
    has_acceptance: bool | None = None
    accepted: int | None = None
    drafted: int | None = None
    throughput: float | None = None
    graphs: bool | None = None
    bonus_hint: bool | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """Counts of one window, or running totals (`total`); `per_step` drafts were made for each target step."""

    accepted: int | None
    drafted: int | None
    accept_length: float | None = None
    accept_rate: float | None = None
    per_position: tuple[float, ...] | None = None
    per_step: int | None = None
    total: bool = False


@dataclass(frozen=True, slots=True)
class Alive:
    """The server is at work: a prefill record, an answered request."""

    weak: bool = False


@dataclass(frozen=True, slots=True)
class RoleSeen:
    role: Role


@dataclass(frozen=True, slots=True)
class SpeculationBuilt:
    """Something was built for speculation; `num_draft_tokens` where the line shows it."""

    num_draft_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class AlgorithmAsked:
    name: str


@dataclass(frozen=True, slots=True)
class Ready:
    pass


@dataclass(frozen=True, slots=True)
class StopAsked:
    pass


@dataclass(frozen=True, slots=True)
class Ended:
    """The process ended; `code` names the failure it is unless something earlier explains it, None if it was clean."""

    code: Literal["killed", "exited"] | None
    text: str


@dataclass(frozen=True, slots=True)
class PidSeen:
    """A PID inside the line; `main` marks the process that owns the start."""

    pid: int
    main: bool


Event = (
    Banner
    | ArgumentsSeen
    | VersionSeen
    | StageEntered
    | WeightsBegun
    | WeightsLoaded
    | Adjusted
    | Failed
    | Noticed
    | Decoded
    | Drafted
    | Alive
    | RoleSeen
    | SpeculationBuilt
    | AlgorithmAsked
    | Ready
    | StopAsked
    | Ended
    | PidSeen
)
SIGNS_OF_LIFE = Alive | PidSeen | RoleSeen
"""What says no more of a boot than that it is there."""
