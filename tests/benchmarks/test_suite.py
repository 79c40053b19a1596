"""What benchmarks make of their figures: the outage that a prober saw, medians and spread, the page's table."""

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import page, record
from benchmarks.__main__ import BESIDE, SUITE, main
from benchmarks.inspect_journal import run
from benchmarks.options import Missing, count, is_trial, needs
from benchmarks.peers import PeerMissing, installed
from benchmarks.ratios import Ratio
from benchmarks.record import NotKept, Row, sample
from benchmarks.stage import outage, own_environment


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
    kept = {"benchmark": name, "machine": "a machine", "date": "2026-01-01", "rounds": 5}
    return {**kept, "rows": [asdict(row) for row in rows]}


def test_rows_come_in_the_order_of_the_budgets_and_say_whether_they_are_met() -> None:
    found = [
        result("many-hosts", Row("hosts", "200", "200", met=True)),
        result("job", Row("downtime", "≤ 1", "2", "1", {"a tool": "3"}, False, "why")),
    ]
    table = page.table(found).splitlines()
    assert table[2:4] == ["| downtime | ≤ 1 | 2 | 1 | a tool 3 | **no** |", "| hosts | 200 | 200 | — | — | yes |"]
    assert "  downtime: why" in table
    assert "- `make bench BENCH=job`: 2026-01-01, 5 rounds, a machine." in table


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


@pytest.mark.parametrize(
    "name",
    ["INTERLOCK_DATABASE_URL", "INTERLOCK_DATA_DIR", "INTERLOCK_LEASE_S", "PREFECT_API_URL", "PYTHONDONTWRITEBYTECODE"],
)
def test_no_measured_process_inherits_a_store_or_a_server_of_ones_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "sqlite:////srv/production.db")
    monkeypatch.setenv("LANG", "C.UTF-8")
    found = own_environment()
    assert name not in found
    assert found["LANG"] == "C.UTF-8"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["job", "--runs", "0"], "argument --runs: `0` is not a whole number of at least 1", id="none"),
        pytest.param(["job", "--runs", "-1"], "argument --runs: `-1` is not a whole number", id="below-none"),
        pytest.param(["inspection", "--size", "much"], "argument --size: `much` is not a whole number", id="a-word"),
        pytest.param(["store", "--count", "10"], "argument --count: a run is of 80 events at least", id="no-stream"),
        pytest.param(["many-hosts", "--hosts", "2", "2"], "linear takes three numbers or more", id="two-points"),
        pytest.param(["large-store", "--events", "200"], "argument --events: 10000 at least", id="few-events"),
        pytest.param(["replays", "--pairs", "0"], "argument --pairs: `0` is not a whole number", id="no-pairs"),
        pytest.param(["ratios", "--pairs", "0"], "argument --pairs: `0` is not a whole number", id="no-ratio"),
        pytest.param(["--help"], "say which benchmark `--help` is for: job, overhead", id="an-option-without-a-name"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err + str(ended.value)
    assert sentence in said


def test_a_program_that_is_needed_is_missed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Missing, match="`grep` is not installed here, or not in PATH"):
        needs("grep")


def parsed(*words: str) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=count, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=count, nargs="+", default=[25, 200])
    return parser, parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "trial"),
    [
        pytest.param((), False, id="the-whole"),
        pytest.param(("--runs", "9"), False, id="more"),
        pytest.param(("--runs", "2"), True, id="less"),
        pytest.param(("--seed", "0"), False, id="another-seed"),
        pytest.param(("--hosts", "2", "4"), True, id="others"),
    ],
)
def test_what_measures_less_is_a_trial(words: tuple[str, ...], trial: bool) -> None:
    assert is_trial(*parsed(*words)) is trial


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("trial", [pytest.param(True, id="a-trial"), pytest.param(False, id="the-whole")])
def test_a_trial_takes_nothing_s_place(results: Path, trial: bool, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "job.json").write_text('{"rounds": 5}', encoding="utf-8")
    record.write("job", "a machine", [Row("a", "b", "c")], {}, rounds=1, trial=trial)
    assert json.loads((results / "job.json").read_text())["rounds"] == (5 if trial else 1)
    assert ("a trial: the table keeps the whole `make bench BENCH=job`" in capsys.readouterr().err) is trial


def test_a_result_that_is_no_json_is_named(results: Path) -> None:
    (results / "job.json").write_text("{", encoding="utf-8")
    with pytest.raises(NotKept, match=r"job\.json is no JSON .*measure it again, or remove it"):
        record.results()


def test_a_peer_that_cannot_be_installed_is_named_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_BENCH_DIR", str(tmp_path / "peers"))
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        with pytest.raises(PeerMissing, match=r"temporalio==\S+ could not be installed"):
            installed("temporal")


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        pytest.param((9.0, 1.0, 1.0), True, id="one-slow-pair"),
        pytest.param((9.0, 9.0, 1.0), False, id="one-lucky-pair"),
    ],
)
def test_a_ratio_is_kept_by_its_median(found: tuple[float, ...], kept: bool) -> None:
    assert Ratio("ours / theirs", found, 3.0).kept is kept


def test_a_program_s_peak_is_its_own_not_that_of_who_measures_it() -> None:
    large = bytearray(os.urandom(1) * 200_000_000)
    found = run((sys.executable, "-S", "-c", "print('done')"))
    assert found.output == b"done\n"
    assert 1 < found.peak_mb < 100 < len(large) / 1e6


def test_a_program_that_fails_is_not_measured() -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        run((sys.executable, "-S", "-c", "raise SystemExit(3)"))
