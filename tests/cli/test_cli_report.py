"""`interlock report`: a file that is whole or not there, forms by name, mistakes in one sentence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.practice import Stage, stage


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """With the history of one refused rollout."""
    with stage(tmp_path_factory.mktemp("report"), started=False) as made:
        assert made.interlock("apply", made.manifest(), "--bare", "--plan", "0" * 8).code == 3
        yield made


def rollout(practice: Stage) -> str:
    (row,) = practice.interlock("history", "--json").json
    return str(row["rollout"])


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        pytest.param("r.html", "<!doctype html>", id="html"),
        pytest.param("r.md", "# qwen35-122b: refused", id="markdown"),
    ],
)
def test_the_files_name_says_the_form(practice: Stage, tmp_path: Path, name: str, begins: str) -> None:
    path = tmp_path / name
    ran = practice.interlock("report", rollout(practice), "--output", str(path))
    assert (ran.code, ran.out) == (0, "")
    assert path.read_text().startswith(begins)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        pytest.param((), "REFUSED", id="a page on the terminal"),
        pytest.param(("--form", "markdown"), "# qwen35-122b: refused", id="markdown"),
        pytest.param(("--form", "html"), "<!doctype html>", id="html"),
    ],
)
def test_forms_on_standard_output(practice: Stage, form: tuple[str, ...], begins: str) -> None:
    ran = practice.interlock("report", rollout(practice)[:6], *form)
    assert ran.code == 0
    assert ran.out.startswith(begins)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(("--form", "pdf"), "`pdf` is no form of a report", id="an unknown form"),
        pytest.param(("-o", "report.pdf"), "report.pdf does not say which form is wanted", id="an unknown ending"),
        pytest.param(("-o", "/nowhere/r.html"), "Cannot write the report to /nowhere/r.html", id="no such folder"),
        pytest.param(("-o", "/proc/r.html"), "Cannot write the report to /proc/r.html", id="nothing can be made there"),
    ],
)
def test_mistakes_have_one_sentence(practice: Stage, words: tuple[str, ...], sentence: str) -> None:
    ran = practice.interlock("report", rollout(practice), *words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_a_rollout_that_is_not_there(practice: Stage) -> None:
    ran = practice.interlock("report", "ffff")
    assert ran.code != 0
    assert "ffff" in ran.err
