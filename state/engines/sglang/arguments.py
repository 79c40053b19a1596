"""SGLang's effective arguments: the `server_args=` line and what it shows about speculation, role and graphs.

0.4.6 to 0.5.18 print a dataclass repr, 0.5.19 and later a dict repr of the resolved view.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from state.inspection.events import ArgumentsSeen, Configured
from state.inspection.literals import read_pairs
from state.inspection.report import Role
from state.inspection.text import without_secrets

_START = re.compile(r"server_args=(?:ServerArgs\(|(?=\{))")
_ROLES = {"null": "unified", "prefill": "prefill", "decode": "decode"}


def read_arguments(text: str) -> ArgumentsSeen | None:
    """The arguments line, whole or cut; only whole fields are taken."""
    found = _START.search(text)
    if found is None:
        return None
    values, whole = read_pairs(text[found.end() :])
    if not values:
        return None
    shown = cast(Mapping[str, Any], without_secrets(values))
    return ArgumentsSeen(shown, configured(shown), whole=whole)


def configured(values: Mapping[str, Any]) -> Configured:
    """Speculation, role and graphs as resolved arguments show them; used for the log and for `/server_info`."""
    algorithm = values.get("speculative_algorithm")
    mode = values.get("disaggregation_mode")
    return Configured(
        known="speculative_algorithm" in values,
        algorithm=algorithm.upper() if isinstance(algorithm, str) else None,
        num_steps=_number(values, "speculative_num_steps"),
        topk=_number(values, "speculative_eagle_topk"),
        num_draft_tokens=_number(values, "speculative_num_draft_tokens"),
        role=cast(Role, _ROLES[mode]) if isinstance(mode, str) and mode in _ROLES else None,
        graphs_off=_graphs_off(values),
    )


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _graphs_off(values: Mapping[str, Any]) -> bool:
    if values.get("disable_cuda_graph") is True or values.get("cuda_graph_backend_decode") == "disabled":
        return True
    config = values.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, Mapping) else None
    return isinstance(decode, Mapping) and decode.get("backend") == "disabled"
