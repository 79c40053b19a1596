"""The simulated engine without its own waiting, for tests in real time that show something else."""

from collections.abc import Mapping
from typing import Any

from tasks.practice.engine.settings import STAGE_SECONDS

QUICK: Mapping[str, Any] = {
    "stage_seconds": dict.fromkeys(STAGE_SECONDS, 0.01),
    "forward_seconds": 0.0003,
    "prefill_seconds": 0.001,
    "health_seconds": 0.001,
    "drain_poll_seconds": 0.01,
    "exit_seconds": 0.01,
}


def quick(**changes: Any) -> dict[str, Any]:
    """QUICK with these settings instead; `stage_seconds` names only the stages that take their time."""
    return {**QUICK, **changes, "stage_seconds": {**QUICK["stage_seconds"], **changes.get("stage_seconds", {})}}
