"""How fast and how large the simulated engine is: `stand-in.json` beside the installation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

STAGE_SECONDS: Mapping[str, float] = {
    "arguments": 0.10,
    "distributed": 0.05,
    "weights": 0.40,
    "draft-weights": 0.10,
    "kv-cache": 0.05,
    "graphs": 0.30,
    "http": 0.05,
    "warm-up": 0.15,
}
"""About 1.2 s of start in all; the real engine takes minutes."""


class SettingsInvalid(ValueError):
    """The settings file names something that is no setting."""


@dataclass(frozen=True)
class Settings:
    """Seconds, GB (2^30 bytes) and tokens. `mean_accept_length` is the one at 5 steps; fewer steps give less."""

    stage_seconds: Mapping[str, float] = field(default_factory=lambda: dict(STAGE_SECONDS))
    forward_seconds: float = 0.003
    draft_cost: float = 0.3  # of a forward, for each draft step
    token_cost: float = 0.02  # of a forward, for each token of every further request: drafts are verified too
    noise: float = 0.0  # relative spread of the speed, drawn anew each `noise_seconds`
    noise_seconds: float = 1.0
    prefill_seconds: float = 0.008
    mean_accept_length: float = 3.4
    seed: int = 7
    gpu_gb: float = 94.97
    health_seconds: float = 0.05  # 1 s in the real engine
    health_timeout_seconds: float = 20.0
    drain_poll_seconds: float = 0.1  # 5 s in the real engine
    log_stats_seconds: float = 10.0  # vLLM's windows of statistics, unless VLLM_LOG_STATS_INTERVAL says otherwise
    exit_seconds: float = 0.15  # 3 s in the real engine


def parse_settings(text: str) -> Settings:
    """Defaults, with what the JSON object gives. Raises SettingsInvalid."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise SettingsInvalid(f"the settings are not JSON: {error}") from error
    names = {setting.name for setting in fields(Settings)}
    if not isinstance(given, dict) or not set(given) <= names:
        raise SettingsInvalid(f"the settings must be an object with some of {', '.join(sorted(names))}")
    stages = given.pop("stage_seconds", {})
    if not isinstance(stages, dict) or not set(stages) <= set(STAGE_SECONDS):
        raise SettingsInvalid(f"stage_seconds must be an object with some of {', '.join(STAGE_SECONDS)}")
    return replace(Settings(), stage_seconds={**STAGE_SECONDS, **stages}, **given)
