"""docs/reference/failures.md says what happens: each of its cells is run again."""

import pytest

from tests.simulation.table import EVENTS, PAGE, STEPS, cell


def shown(action: str, event: str) -> str:
    """What the page says in that cell."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    (row,) = [cells for cells in rows if cells[0] == event]
    return row[rows[0].index(STEPS[action])]


@pytest.mark.parametrize("action", list(STEPS), ids=list(STEPS.values()))
def test_the_page_says_what_happens(action: str) -> None:
    found = {event: cell(action, event) for event in EVENTS}
    assert {event: one.outcomes[0] for event, one in found.items()} == {event: shown(action, event) for event in EVENTS}
    assert {event: one.left for event, one in found.items()} == dict.fromkeys(EVENTS, ()), "it befell nothing"
    assert {event: one.broken for event, one in found.items()} == dict.fromkeys(EVENTS, ())
