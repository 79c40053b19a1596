"""What benchmarks make of their figures: the outage that a prober saw, medians and spread, the page's table."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import page
from benchmarks.__main__ import BESIDE, SUITE
from benchmarks.record import Row, sample
from benchmarks.stage import outage


def probes(path: Path, *answers: tuple[float, bool]) -> Path:
    path.write_text("".join(f"{json.dumps([at - 0.001, at, good])}\n" for at, good in answers), encoding="utf-8")
    return path


def test_the_outage_is_the_longest_time_without_a_good_answer(tmp_path: Path) -> None:
    seen = outage(probes(tmp_path / "p", (1.0, True), (1.2, True), (1.3, False), (4.5, True), (4.6, True)))
    assert (seen.last_good, seen.first_good) == (1.2, 4.5)


@pytest.mark.parametrize(
    "answers",
    [pytest.param((), id="nothing"), pytest.param(((1.0, True), (2.0, False)), id="one-good-answer")],
)
def test_there_is_no_outage_between_less_than_two_good_answers(
    tmp_path: Path, answers: tuple[tuple[float, bool], ...]
) -> None:
    with pytest.raises(ValueError, match="saw no service"):
        outage(probes(tmp_path / "p", *answers))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param([2.0, 1.0, 9.0], "2.00 s (1.00–9.00)", id="extremes-of-few"),
        pytest.param([1.0, 2.0, 3.0, 4.0, 5.0], "3.00 s (2.00–4.00)", id="quartiles-of-more"),
    ],
)
def test_a_figure_is_told_with_its_spread(values: list[float], text: str) -> None:
    assert sample(values).text() == text


def result(name: str, *rows: Row) -> dict[str, object]:
    return {"benchmark": name, "machine": "a machine", "date": "2026-01-01", "rows": [asdict(row) for row in rows]}


def test_rows_come_in_the_order_of_the_budgets_and_say_whether_they_are_met() -> None:
    found = [
        result("many-hosts", Row("hosts", "200", "200", met=True)),
        result("job", Row("downtime", "≤ 1", "2", "1", {"a tool": "3"}, False, "why")),
    ]
    table = page.table(found).splitlines()
    assert table[2:4] == ["| downtime | ≤ 1 | 2 | 1 | a tool 3 | **no** |", "| hosts | 200 | 200 | — | — | yes |"]
    assert "  downtime: why" in table


def test_the_page_keeps_what_stands_outside_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    page.rewrite(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "| what | goal |" in text


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no place"):
        page.rewrite(path)
    assert path.read_text(encoding="utf-8") == "nothing\n"


def test_the_page_of_the_project_has_a_place_for_the_table() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text.index(page.BEGIN) < text.index(page.END)


def test_every_benchmark_is_described() -> None:
    told = (Path(page.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in SUITE | BESIDE if f"| `{name}` |" not in told] == []
