"""What vLLM's log of one start says beyond what boots are folded to: arguments by source, each record of acceptance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from state.engines.vllm.arguments import read_arguments
from state.engines.vllm.metrics_lines import read_speculation
from state.inspection.events import Drafted

DRAFTER = "Loading drafter model"
_V1 = "Initializing a V1 "


@dataclass(frozen=True, slots=True)
class Startup:
    """`asked` are the arguments that differ from their defaults, None where the log does not show them whole;
    `config` is the engine's own configuration line; `v1` is None where there is no such line."""

    asked: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    v1: bool | None = None
    drafter: bool = False
    windows: tuple[Drafted, ...] = ()


def read_startup(messages: Sequence[str]) -> Startup:
    asked: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    v1: bool | None = None
    for text in messages:
        if "non-default args: {" in text and (found := read_arguments(text)):
            asked = found[0].values if found[0].whole else None
        elif "with config: " in text and (found := read_arguments(text)):
            config, v1 = found[0].values, _V1 in text
    drafter = any(DRAFTER in text for text in messages)
    return Startup(asked, config, v1, drafter, tuple(_windows(messages)))


def _windows(messages: Sequence[str]) -> Iterator[Drafted]:
    """Each record of V1 with its own counts; V0's are totals since the start, which are no samples."""
    for text in messages:
        if "SpecDecoding metrics:" in text:
            yield from (event for event in read_speculation(text, whole=True) if isinstance(event, Drafted))
