"""Figures that no claim is about and every report shows: answers like those of before, and weights in memory."""

from typing import Any

import pytest
from core_evidence import booted, evidence, facts, journal

BEFORE = [
    {"prompt": "2 + 2?", "stream": False, "shown": "4"},
    {"prompt": "2 + 2?", "stream": True, "shown": "4."},
    {"prompt": "capital of France?", "stream": False, "shown": "Paris"},
]


def now(*shown: str) -> list[dict[str, Any]]:
    return [
        {**before, "shown": text, "right": True, "status": 200} for before, text in zip(BEFORE, shown, strict=False)
    ]


@pytest.mark.parametrize(
    ("answers", "same", "asked", "told"),
    [
        pytest.param(now("4", "4.", "Paris"), 3, 3, "all answers at temperature 0", id="all-alike"),
        pytest.param(now("4", "four", "Paris"), 2, 3, "2 of 3 answers at temperature 0", id="one-differs"),
        pytest.param(now("4"), 1, 1, "all answers", id="only-what-was-asked-again-counts"),
        pytest.param(
            [*now("4"), {"prompt": "new?", "stream": False, "shown": "yes", "right": True}], 1, 1, "all answers",
            id="a-new-question-has-nothing-to-be-compared-with",
        ),
        pytest.param(now("4.", "4"), 0, 2, "0 of 2", id="streamed-and-whole-are-two-questions"),
    ],
)  # fmt: skip
def test_answers_are_compared_with_those_of_before(
    answers: list[dict[str, Any]], same: int, asked: int, told: str
) -> None:
    found = facts(evidence(answers=answers, **{"baseline-answers": BEFORE}))["answers.same"]
    assert (found.value, found.sample) == (same, asked)
    assert found.text.startswith(told)
    assert len(found.evidence) == 2, "both are cited"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"answers": now("4")}, id="nothing-was-asked-before"),
        pytest.param({"answers": None, "baseline-answers": BEFORE}, id="nothing-was-asked-since"),
        pytest.param({"answers": now("4"), "baseline-answers": BEFORE[2:]}, id="other-questions-before"),
    ],
)
def test_without_the_same_questions_nothing_is_said(given: dict[str, Any]) -> None:
    assert "answers.same" not in facts(evidence(**given))


@pytest.mark.parametrize(
    ("drafts", "gb"),
    [
        pytest.param((1.91,) * 4, 31.91, id="target-and-draft-together"),
        pytest.param((1.9, 2.4, 1.9, 1.9), 32.4, id="the-fullest-rank"),
        pytest.param((), 30.0, id="no-draft"),
    ],
)
def test_the_weights_of_the_fullest_rank_are_told(drafts: tuple[float, ...], gb: float) -> None:
    found = facts(evidence(journal=journal(booted(drafts=drafts))))["memory.weights_gb"]
    assert (found.value, found.sample) == (pytest.approx(gb), 4)
    assert found.text == f"{gb:.2f} GB of weights on the fullest of 4 ranks"


def test_a_start_that_tells_no_weights_has_no_such_figure() -> None:
    assert "memory.weights_gb" not in facts(evidence(journal=journal([booted()[0]])))
