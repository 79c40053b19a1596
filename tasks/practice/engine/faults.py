"""Faults that the stand-in can be told to have, as data from a JSON file.

The file is a list of objects: `fault` names one, `when` (optional) gives arguments that must have these values, as
asked for or in effect, and every other key is an option of the fault. Adding a fault that ends the start is one entry
in `failures.py`; one that changes how the engine behaves is read where that behaviour is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NAMES = (
    "flag-ignored", "crash-loading-draft", "hang-after-ready", "garbage-answers", "accept-nothing",
    "slow-stop-leftover", "old-process-keeps-logging", "kv-too-small", "cuda-oom", "graph-capture-failed",
    "slow-load", "exit-after-ready", "wrong-mem-fraction", "fewer-drafts-on-one-rank", "warm-up-failed", "host-oom",
    "nccl-failed", "wrong-answers", "schema-ignored", "tool-parser-missing", "slower", "overloaded",
    "streams-break", "garbage-in-company", "metrics-apart", "unknown-log-shape", "autotune-noise", "driver-mismatch",
)  # fmt: skip


class FaultsInvalid(ValueError):
    """The faults file is not a list of known faults."""


@dataclass(frozen=True)
class Fault:
    name: str
    when: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)

    def number(self, option: str, default: float) -> float:
        value = self.options.get(option, default)
        return float(value) if isinstance(value, (int, float)) else default

    def matches(self, asked: Mapping[str, object], effective: Mapping[str, object]) -> bool:
        return all(asked.get(name) == value or effective.get(name) == value for name, value in self.when.items())


class Faults:
    """The faults in force for one start."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._faults = tuple(faults)

    def get(self, name: str) -> Fault | None:
        return next((fault for fault in self._faults if fault.name == name), None)

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def matching(self, asked: Mapping[str, object], effective: Mapping[str, object]) -> Faults:
        return Faults([fault for fault in self._faults if fault.matches(asked, effective)])

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)


def parse_faults(text: str) -> Faults:
    """Raises FaultsInvalid, naming the entry."""
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise FaultsInvalid(f"the faults are not JSON: {error}") from error
    if not isinstance(entries, list):
        raise FaultsInvalid("the faults must be a list")
    return Faults([_fault(entry) for entry in entries])


def _fault(entry: object) -> Fault:
    if not isinstance(entry, dict) or entry.get("fault") not in NAMES:
        raise FaultsInvalid(f"no such fault: {entry!r}; known are {', '.join(NAMES)}")
    when = entry.get("when", {})
    if not isinstance(when, dict):
        raise FaultsInvalid(f"`when` must be an object: {entry!r}")
    options = {key: value for key, value in entry.items() if key not in ("fault", "when")}
    return Fault(str(entry["fault"]), when, options)


def ignore_flags(asked: Mapping[str, object], defaults: Mapping[str, object], fault: Fault) -> dict[str, object]:
    """`asked` with the arguments that begin with `prefix` (default `speculative_`) put back to their defaults."""
    prefix = str(fault.options.get("prefix", "speculative_"))
    return {name: defaults.get(name) if name.startswith(prefix) else value for name, value in asked.items()}
