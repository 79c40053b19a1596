"""How endings are told, and with which exit code."""

from collections.abc import Sequence

import pytest
from core_samples import UNDO, done, failed, failure
from test_next_action_table import BEGIN, CANCEL, GUARDED, LOST, REFUTED

from flows.conclude import exit_code, summary
from state.events import Event
from state.rollout import Rollout, fold


@pytest.mark.parametrize(
    ("history", "ending", "code", "words"),
    [
        pytest.param(
            [*BEGIN, *failed("plan", LOST, attempts=3)],
            "refused",
            3,
            "host-unreachable happened",
            id="unreachable is refused",
        ),
        pytest.param(
            [*BEGIN, *failed("plan", failure(exit_code=2))], "refused", 2, "step-failed", id="usage keeps its code"
        ),
        pytest.param(
            [*BEGIN, *failed("preflight")], "refused", 3, "", id="nothing touched is 3, whatever the error's own"
        ),
        pytest.param([*REFUTED, CANCEL], "rolled-back", 130, "c refuted: because. The old", id="both causes are heard"),
        pytest.param([*GUARDED, CANCEL], "cancelled", 130, "cancelled by a person", id="cancelled is 130"),
        pytest.param(
            [*REFUTED, *done("freeze"), *failed(UNDO[5])],
            "stranded",
            4,
            "start-service: step-failed",
            id="stranded is 4",
        ),
    ],
)
def test_endings_for_people(history: Sequence[Event], ending: str, code: int, words: str) -> None:
    rollout: Rollout = fold(history)
    assert exit_code(rollout, ending) == code  # type: ignore[arg-type]  # tables hold plain strings
    assert words in summary(rollout, ending)  # type: ignore[arg-type]  # the same
