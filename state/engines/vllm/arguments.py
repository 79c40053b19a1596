"""vLLM's arguments at start: `non-default args: {...}`, `args: Namespace(...)` and the engine-config line."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from state.inspection.events import ArgumentsSeen, Configured
from state.inspection.literals import read_bare_pairs, read_pairs
from state.inspection.report import Role
from state.inspection.text import without_secrets

_NON_DEFAULT = re.compile(r"non-default args: (?=\{)")
_NAMESPACE = re.compile(r"\bargs: Namespace\(")
_CONFIG = re.compile(
    r"Initializing (?:an?|the) (?:V\d )?(?:LLM |\w+ )?[Ee]ngine \(v?(?P<version>[^)\s]+)\) with config: "
)
_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode"}


def read_arguments(text: str) -> tuple[ArgumentsSeen, str | None] | None:
    """The arguments that the line shows and the version that stands on it."""
    if found := _CONFIG.search(text):
        values = read_bare_pairs(text[found.end() :])
        return _seen(values, whole=True, opens=False, absent_is_none=False), found["version"]
    if found := _NON_DEFAULT.search(text):
        values, whole = read_pairs(text[found.end() :])
        return _seen(values, whole=whole, opens=True, absent_is_none=whole), None
    if found := _NAMESPACE.search(text):
        values, whole = read_pairs(text[found.end() :])
        return _seen(values, whole=whole, opens=True, absent_is_none=False), None
    return None


def _seen(values: Mapping[str, Any], *, whole: bool, opens: bool, absent_is_none: bool) -> ArgumentsSeen:
    shown = cast(Mapping[str, Any], without_secrets(dict(values)))
    return ArgumentsSeen(shown, configured(shown, absent_is_none=absent_is_none), whole=whole, opens=opens)


def configured(values: Mapping[str, Any], *, absent_is_none: bool) -> Configured:
    """Speculation, role and graphs. `num_speculative_tokens` drafts are made for each target step."""
    role = _role(values.get("kv_transfer_config"))
    graphs_off = values.get("enforce_eager") is True
    config: Any = values.get("speculative_config")
    if isinstance(config, str):
        config = _parsed(config)
    if config is None and isinstance(values.get("speculative_model"), str):
        v0 = "NGRAM" if values["speculative_model"] == "[ngram]" else None
        return Configured(
            v0 is not None, v0, _count(values, "num_speculative_tokens"), role=role, graphs_off=graphs_off
        )
    if isinstance(config, Mapping):
        method = config.get("method")
        steps = _count(config, "num_speculative_tokens", "num_spec_tokens")
        name = method.upper() if isinstance(method, str) and method else None
        return Configured(name is not None, name, steps, role=role, graphs_off=graphs_off)
    known = config is None and ("speculative_config" in values or "speculative_model" in values or absent_is_none)
    return Configured(known, role=role, graphs_off=graphs_off)


def has_speculation(values: Mapping[str, Any]) -> bool:
    """Whether a speculative configuration was given, by whatever name."""
    return bool(values.get("speculative_config") or values.get("speculative_model"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _count(values: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _role(config: Any) -> Role | None:
    shown = _parsed(config) if isinstance(config, str) else config
    role = shown.get("kv_role") if isinstance(shown, Mapping) else None
    return cast(Role, _ROLES[role]) if role in _ROLES else None
