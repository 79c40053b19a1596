"""What an engine package has to know so that its artefacts can be read. Each exports one `Reading` as `READING`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from state.inspection.events import Event
from state.inspection.report import AnswerReport, MetricsReport, ServerInfoReport
from state.inspection.shapes import Slot

Located = tuple[int, Event]
"""An event and the line of the input that it stands on."""

NO_EVIDENCE, WEAK, STRONG = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its transport prefix, colours and line end.

    `whole` is False for a last line without its end, which may have been cut anywhere. `time` is the transport's.
    """

    raw: bytes
    number: int
    whole: bool = True
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a Prometheus text: `name{labels} value`."""

    name: str
    labels: Mapping[str, str]
    value: float


class LineReader(Protocol):
    """Follows the lines of one source; keeps what a traceback needs and no more."""

    @property
    def busy(self) -> bool:
        """Whether a traceback is open, so that the next line may belong to it."""
        ...

    def read(self, line: Line) -> Sequence[Located]: ...

    def pending(self) -> Sequence[Located]:
        """What an unfinished traceback already says; asking does not end it."""
        ...


class Reading(Protocol):
    """Everything that inspection asks of one engine."""

    @property
    def name(self) -> str: ...

    def line_reader(self) -> LineReader: ...

    def evidence(self, line: bytes) -> int:
        """How surely the line is this engine's: NO_EVIDENCE, WEAK (may decide if nothing else does) or STRONG."""
        ...

    @property
    def words(self) -> Sequence[bytes]:
        """One of them, in any case of letters, stands in every line that is worth reading or opens a traceback."""
        ...

    def worth(self, line: bytes) -> bool:
        """Whether a line outside a traceback may say anything; must be quick, and may err towards True."""
        ...

    def stream(self, line: bytes) -> str:
        """Names a server of its own that may share the source, such as a router; empty for the engine itself."""
        ...

    def slots(self, line: bytes) -> Sequence[Slot]:
        """The pieces of a line that may differ without changing what it means, and the fields of a decode record."""
        ...

    def remedy(self, code: str) -> str:
        """What to do about a failure code, in one sentence."""
        ...

    def flags_at(self, argv: Sequence[str]) -> int | None:
        """Where this engine's own arguments begin in an argv that starts it; None if it does not."""
        ...

    def read_metrics(self, samples: Sequence[Sample]) -> MetricsReport | None: ...

    def read_server_info(self, data: Mapping[str, Any]) -> ServerInfoReport | None: ...

    def read_answer(self, data: Mapping[str, Any]) -> AnswerReport | None: ...
