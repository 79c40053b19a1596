"""How endings are told, and with which exit code."""

from collections.abc import Sequence

import pytest
from core_samples import UNDO, done, failed, failure, requested
from test_next_action_table import ANSWERED, ASKED, BEGIN, CANCEL, GUARDED, LOST, OPEN, REFUSED, REFUTED

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
        pytest.param(
            [requested(inconclusive="accept"), *OPEN],
            "promoted",
            0,
            "0 of 1 claims held; c stayed open: because; the policy accepts that",
            id="a doubt that the policy accepts is named",
        ),
        pytest.param(
            [*ASKED, ANSWERED],
            "promoted",
            0,
            "0 of 1 claims held; c stayed open: because; ada answered promote: so",
            id="a doubt that a person accepts is named with the person",
        ),
        pytest.param(
            [*ASKED, REFUSED],
            "rolled-back",
            1,
            "c inconclusive: because; ada answered rollback: so. The old state is back",
            id="an answer that turns it back is named with the doubt",
        ),
        pytest.param(
            [*ASKED, CANCEL], "rolled-back", 130, "cancelled by a person", id="cancelled while it asks is 130"
        ),
    ],
)
def test_endings_for_people(history: Sequence[Event], ending: str, code: int, words: str) -> None:
    rollout: Rollout = fold(history)
    assert exit_code(rollout, ending) == code  # type: ignore[arg-type]  # tables hold plain strings
    assert words in summary(rollout, ending)  # type: ignore[arg-type]  # the same
