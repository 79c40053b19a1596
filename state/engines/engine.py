"""The `Engine` port: what verification needs to know of an engine, whichever it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from state.checkpoint import Loading
from state.claims import Claim, Fact, Undecidable
from state.engines.registry import NAMES, part
from state.errors import UsageInvalid
from state.evidence import Evidence
from state.target import Target


@dataclass(frozen=True, slots=True)
class HttpQuestion:
    """A request to the engine's endpoint: method, path and JSON body (None: no body)."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a generating request brought: its text, how many tokens, why it ended, and tool calls as pairs of a name and
    its arguments in JSON."""

    text: str
    tokens: int | None
    finish_reason: str | None
    tool_calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Drafting:
    """How often drafts were made, and how many of their tokens were accepted."""

    drafts: float
    accepted: float


class Engine(Protocol):
    """Pure knowledge of one engine: `verification.ENGINE` in its folder, and a line in `state.engines.registry`."""

    @property
    def kind(self) -> str: ...

    def derive(self, target: Target) -> tuple[Claim, ...]:
        """The claims that follow from what the target asks of the engine."""
        ...

    def undecidable(self, target: Target) -> tuple[Undecidable, ...]:
        """The claims that would follow as well, had this engine, version and configuration evidence of them."""
        ...

    def facts(self, target: Target, evidence: Evidence) -> tuple[Fact, ...]:
        """What the evidence says about the engine's part; a metric without evidence has value None."""
        ...

    def model_name(self, target: Target) -> str:
        """The name under which the target should serve its model."""
        ...

    def record_interval_s(self, target: Target) -> float:
        """Seconds between two log records of decoding, where they come by time: traffic must outlast one to be in any.
        0 where they come with the work itself."""
        ...

    def counters(self, metrics: str) -> Drafting | None:
        """Totals of speculation since the start in a `/metrics` answer; None where there are none, or where answers
        tell the same of single requests."""
        ...

    def probes(self) -> Mapping[str, HttpQuestion]:
        """Questions by evidence name (`server-info`, `models`, `metrics`), all without side effects."""
        ...

    def generation(self, prompt: str, tokens: int, *, exact: bool) -> HttpQuestion:
        """A request that generates at temperature 0; `exact` asks for exactly that many tokens."""
        ...

    def chat(
        self, model: str, prompt: str, tokens: int, *, stream: bool, extra: Mapping[str, Any] | None = None
    ) -> HttpQuestion:
        """A chat request at temperature 0; `extra` is added to its body (`response_format`, `tools`)."""
        ...

    def load(self, model: str, prompt: str, tokens: int) -> HttpQuestion:
        """A streamed request for exactly that many tokens, whose lines `state.engines.openai_chat.chunk` reads."""
        ...

    def reply(self, body: bytes) -> Reply | None:
        """What a generation or chat answer (streamed ones too) brought; None if the body is no such answer."""
        ...

    def loading(self, arguments: Mapping[str, Any]) -> Loading:
        """Which checkpoints a start with these arguments loads, and on how much of how many GPUs."""
        ...

    def version_argv(self, command: tuple[str, ...]) -> tuple[str, ...] | None:
        """How to ask the installed engine for its version without starting it; None where there is no quick way."""
        ...

    def read_version(self, stdout: str, stderr: str) -> str | None:
        """The version in what `version_argv` printed when it succeeded; None where there is none."""
        ...

    def help_argvs(self, command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """How to ask the installed engine which flags it accepts; the first that it understands counts."""
        ...


def engine_for(kind: str) -> Engine:
    """`ENGINE` of `state.engines.KIND.verification`; raises UsageInvalid for an engine that cannot be verified yet."""
    engine: Engine | None = part(kind, "verification", "ENGINE")
    if engine is None:
        known = ", ".join(name for name in NAMES if part(name, "verification", "ENGINE"))
        raise UsageInvalid(f"Rollouts of engine `{kind}` cannot be proven yet", hint=f"`engine.kind` can be {known}")
    return engine
