"""What llama-server's log of one start says beyond what boots are folded to (builds 4500 to 11000).

Only words behind the engine's own prefix count: `0.10.242.711 I srv    load_model: ` since early 2026, without the time
before. Layers, caches and implementations are printed by default in older builds, by `--verbosity 4` in newer ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from state.engines.llamacpp.log_lines import ACCEPTANCE

_PREFIX = re.compile(
    r"(?:\d+\.\d\d\.\d{3}\.\d{3} )?(?:[IWED] )?(?:(?:srv|slot|main|que|cmn|spec) +)?"
    r"(?:[\w()~]+: +)?(?:id +-?\d+ \| task -?\d+ \| )?"
)
_SLOTS = re.compile(
    r"initializing(?: slots)?, n_slots = (?P<slots>\d+)"
    r"(?:, n_ctx_slot = (?P<context>\d+))?(?:, kv_unified = '(?P<unified>true|false)')?"
)
_SLOT = re.compile(r"new slot,? (?:n_ctx_slot|n_ctx) = (\d+)")
_LAYERS = re.compile(r"offloaded (?P<layers>\d+)/(?P<all>\d+) layers to GPU")
_CACHE = re.compile(r"K \((?P<k>\w+)\): .*?V \((?P<v>\w+)\): ")
_ATTENTION = re.compile(r"flash_attn += (?P<value>\w+)")
_TYPE = re.compile(r"adding speculative implementation '(?P<type>[\w-]+)'")
_DEPTH = re.compile(r"- n_max=(?P<depth>\d+)\b")
_STATISTICS = re.compile(r"statistics +(?P<type>[\w-]+): ")
_DRAFTS, _TOKENS = re.compile(r"#gen drafts = +(\d+)\b"), re.compile(r"#gen tokens = +(\d+)\b")
_SERVED = re.compile(r"eval time = +[\d.]+ ms / +\d+ (?:tokens|runs)")
_CHANGED = re.compile(r".*(?:it will be disabled|exceeds the training context of the model .* - capping)")
_OFF = (
    "speculative decoding not supported by this context",
    "failed to initialize speculative decoding context",
    "no implementations specified for speculative decoding",
    "context type MTP requested but model doesn't contain MTP layers",
)
"""After these the server goes on without speculation, and is healthy."""
_DRAFT = ("loading draft model '", "creating MTP draft context")
_BUILT = "speculative decoding context initialized"


@dataclass(slots=True)
class Startup:
    """`model` is None where the log does not show even the model's loading, then it proves no absence. `arguments` are
    those in effect; `slot_context` tokens of each slot; `layers` on GPUs of all; `requests` (accepted, drafted) of
    each request with drafts, `served` all that ended; `statistics` (drafts, drafted tokens) so far, by type."""

    model: str | None = None
    listening: bool = False
    slots: int | None = None
    slot_context: int | None = None
    unified: bool | None = None
    layers: tuple[int, int] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    draft: str = ""
    built: bool = False
    off: str = ""
    types: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    requests: list[tuple[int, int]] = field(default_factory=list)
    served: int = 0
    statistics: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_startup(messages: Sequence[str]) -> Startup:
    found = Startup()
    for message in messages:
        prefix = _PREFIX.match(message)
        text = message[prefix.end() if prefix else 0 :].strip()
        if text:
            _read_start(found, text)
            _read_work(found, text)
    return found


def _read_start(found: Startup, text: str) -> None:
    if text.startswith("loading model '") and found.model is None:
        found.model = text.removeprefix("loading model '").rstrip("'")
    elif text.startswith(_DRAFT):
        found.draft = text
    elif text.startswith(_OFF):
        found.off = found.off or text
    elif text.startswith(_BUILT):
        found.built = True
    elif text.startswith(("server is listening on http", "listening on http")):
        found.listening = True
    elif match := _SLOTS.match(text):
        found.slots = int(match["slots"])
        found.slot_context = int(match["context"]) if match["context"] else found.slot_context
        found.unified = match["unified"] == "true" if match["unified"] else found.unified
    elif match := _SLOT.match(text):
        found.slot_context = int(match[1])
    else:
        _read_details(found, text)


def _read_details(found: Startup, text: str) -> None:
    """What comes again for a draft is taken of the model alone, which is loaded first."""
    own = found.model is not None and not found.draft
    if match := _LAYERS.match(text):
        found.layers = (int(match["layers"]), int(match["all"])) if own else found.layers
    elif text.startswith("size =") and own and (match := _CACHE.search(text)):
        found.arguments.setdefault("cache_type_k", match["k"])
        found.arguments.setdefault("cache_type_v", match["v"])
    elif match := _ATTENTION.match(text):
        found.arguments.setdefault("flash_attn", {"enabled": "on", "disabled": "off"}.get(match["value"], "auto"))
    elif match := _TYPE.match(text):
        found.types.append(match["type"])
    elif match := _DEPTH.match(text):
        found.arguments.setdefault("draft_max", int(match["depth"]))
    elif _CHANGED.match(text):
        found.changed.append(text)


def _read_work(found: Startup, text: str) -> None:
    if match := ACCEPTANCE.match(text):
        accepted, drafted = int(match["accepted"]), int(match["drafted"])
        if accepted <= drafted:
            found.requests.append((accepted, drafted))
    elif match := _STATISTICS.match(text):
        drafts, tokens = _DRAFTS.search(text), _TOKENS.search(text)
        if drafts and tokens:
            found.statistics[match["type"]] = (int(drafts[1]), int(tokens[1]))
    elif _SERVED.match(text):
        found.served += 1
