"""Which engines there are. A new engine is its own folder under `state/engines/` and one line here."""

import importlib
import importlib.util
from typing import Any

NAMES: tuple[str, ...] = ("sglang", "vllm", "llamacpp")
"""Folder names. What a folder holds decides what can be done with the engine: `reading` (its artefacts are inspected),
`rendering` (its command line is written and read), `verification` (rollouts are proven)."""


def part(name: str, module: str, attribute: str) -> Any:
    """`attribute` of `state.engines.NAME.MODULE`; None for an unknown engine, or one without that module."""
    path = f"state.engines.{name}.{module}"
    if name not in NAMES or importlib.util.find_spec(path) is None:
        return None
    return getattr(importlib.import_module(path), attribute)
