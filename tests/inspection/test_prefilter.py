"""The quick look at a line never passes over one that a reader understands."""

from collections.abc import Iterator

import pytest

from state.inspection.engines import readings
from state.inspection.reading import Line, Reading
from tests.inspection import failure_cases
from tests.inspection.test_notices import ADJUSTMENTS, NOTICES, QUIET


def lines() -> Iterator[str]:
    for _, _, text in (*failure_cases.SGLANG, *failure_cases.VLLM):
        yield from text.split("\n")
    for case in (*NOTICES, *QUIET):
        for text in case[-1]:
            yield from text.split("\n")
    for text, _ in ADJUSTMENTS:
        yield f"[2026-10-07 10:00:00] {text}"


@pytest.mark.parametrize("reading", [pytest.param(reading, id=reading.name) for reading in readings()])
def test_no_line_that_is_understood_is_passed_over(reading: Reading) -> None:
    passed_over = [
        line
        for line in lines()
        if reading.line_reader().read(Line(line.encode(), 1)) and not reading.worth(line.encode())
    ]
    assert passed_over == []
