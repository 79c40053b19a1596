"""What vLLM's log of one start says beyond what boots are folded to: arguments by source, each record of acceptance."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from state.engines.vllm.arguments import read_arguments
from state.engines.vllm.metrics_lines import read_speculation
from state.inspection.events import Drafted

DRAFTER, WINDOW, ASKED = "Loading drafter model", "SpecDecoding metrics:", "non-default args: {"
_CONFIG = re.compile(r"Initializing (?:an?|the) (?P<engine>V\d )?\w* ?(?:\w+ )?engine \(v", re.IGNORECASE)
_PREFIX = re.compile(r"(?:\([A-Za-z]\w*[^()]* pid=\d+\) )*(?:(?:DEBUG|INFO|WARNING) [\d:., -]+\[?[\w./-]+:\d+\] )?")


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
    """Only words that stand right behind the engine's own prefix count: elsewhere they may be somebody's prompt."""
    asked: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    v1: bool | None = None
    own = [text[_end(text) :] for text in messages]
    for text in own:
        if text.startswith(ASKED) and (found := read_arguments(text)):
            asked = found[0].values if found[0].whole else None
        elif (line := _CONFIG.match(text)) and (found := read_arguments(text)):
            config, v1 = found[0].values, line["engine"] is not None and line["engine"].strip().upper() == "V1"
    drafter = any(text.startswith(DRAFTER) for text in own)
    return Startup(asked, config, v1, drafter, tuple(_windows(own)))


def _end(text: str) -> int:
    """Where the prefix ends: processes, level, time, and where in the source."""
    found = _PREFIX.match(text)
    return found.end() if found else 0


def _windows(own: Sequence[str]) -> Iterator[Drafted]:
    """Each record of V1 with its own counts; V0's are totals since the start, which are no samples."""
    for text in own:
        if text.startswith(WINDOW):
            yield from (event for event in read_speculation(text, whole=True) if isinstance(event, Drafted))
