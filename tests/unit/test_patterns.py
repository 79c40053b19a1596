"""Patterns that a manifest may have: those that could match for ever are refused before anything is done."""

import pytest

from state.manifest.patterns import costly


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"^(\w+[\s,]*)+!$", id="a repetition in a repetition"),
        pytest.param(r"(a+)+$", id="the classic"),
        pytest.param(r"(?:a*)*", id="without a group of its own"),
        pytest.param(r"(x|y+)+z", id="within an alternative"),
        pytest.param(r"(?=(a+)+b)", id="looked ahead for"),
        pytest.param(r"(a{2,}){3,}", id="counted without an end"),
        pytest.param(r".*a.*b.*c.*d.*e", id="five wide ones beside each other"),
    ],
)
def test_costly(pattern: str) -> None:
    assert costly(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"\b42\b", id="a word"),
        pytest.param(r"\b(7|seven)\b", id="alternatives"),
        pytest.param(r"\d+\s*,\s*\d+", id="four in a row"),
        pytest.param(r"(ab{1,3}){1,4}", id="bounded in bounded"),
        pytest.param(r"a+b+c+d+e+f+", id="each of one character"),
        pytest.param(r"^yes.*$", id="a rest"),
    ],
)
def test_plain(pattern: str) -> None:
    assert not costly(pattern)
