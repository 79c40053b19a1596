"""The page of what operators ask shows the table that the tests run, row for row."""

from pathlib import Path

import pytest

from tests.flows.operator_asks import ASKS, RECORDED, ROWS, UNDECIDED, Row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "operator-asks.md").read_text(encoding="utf-8")
TESTS = (ROOT / "tests" / "flows" / "test_operator_asks.py").read_text(encoding="utf-8")


def line(row: Row) -> str:
    who = {"claim": f"claim `{row.name}`", "action": f"action `{row.name}`", "warning": "preflight"}[row.by]
    held = row.whole + (" (also on container hosts)" if row.lab else "")
    return f"| {row.ask} | `{row.id}` | {row.broken} | {who} | {row.result} | {held} |"


def recorded() -> str:
    return (
        f"| {RECORDED.ask} | `{RECORDED.id}` | {RECORDED.broken} | {RECORDED.name} | {RECORDED.result} | "
        f"{RECORDED.whole} |"
    )


def inside(name: str) -> list[str]:
    return PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0].strip().splitlines()


def test_the_table_is_that_of_the_tests() -> None:
    wanted = [*(line(row) for row in ROWS), recorded()]
    assert inside("asks")[2:] == wanted


def test_what_is_left_undecided_is_told_with_its_reason() -> None:
    assert inside("undecided") == [f"- **{ask}**: {why}" for ask, why in UNDECIDED.items()]


@pytest.mark.parametrize("ask", ASKS)
def test_an_ask_is_on_the_page(ask: str) -> None:
    assert f"| {ask} |" in PAGE or f"**{ask}**" in PAGE


@pytest.mark.parametrize("name", ["test_what_is_broken_is_told_by_the_one_who_should", "test_what_is_whole_is_held"])
def test_the_tests_that_the_page_names_exist(name: str) -> None:
    assert f"`{name}" in PAGE
    assert f"def {name}(" in TESTS
