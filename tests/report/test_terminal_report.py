"""The report on a terminal: what was found stands there as found, whichever way the experiment went."""

import io

import pytest
from rich.console import Console

from deployments.report.terminal import show_report
from state.rollout_report import Report
from tests.report.experiments import CLAIMS, experiment


def shown(report: Report, width: int = 400) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    show_report(console, report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("kind", sorted(CLAIMS))
def test_the_ending_and_every_claim_stand_there(kind: str) -> None:
    report = experiment(kind)
    text = shown(report)
    assert text.startswith(f"{report.outcome.upper()}  {report.service}: ")
    assert one_line(report.summary) in one_line(text)
    assert report.revision in text
    for proof in report.proofs:
        for verdict in (verdict for _, own in proof.planes for verdict in own):
            assert one_line(verdict.statement) in one_line(text)
            assert f"refuted by {verdict.refuting}"[:60] in text
    assert "Timeline" in text


@pytest.mark.parametrize("kind", sorted(CLAIMS))
def test_samples_are_bars_before_beside_after_with_their_outcome(kind: str) -> None:
    report = experiment(kind)
    levels = [level for proof in report.proofs for level in proof.levels if len(level.samples) > 1]
    assert levels
    text = shown(report)
    for level in levels:
        (line,) = [x for x in text.splitlines() if x.startswith(f"  {level.claim:24} ") and "to" in x]
        bars = sum(char in "▁▂▃▄▅▆▇█" for char in line)
        assert bars == len(level.baseline) + len(level.samples)
        assert ("before" in line) == bool(level.baseline)


def test_the_way_from_the_stop_to_the_proof_is_shown_in_seconds() -> None:
    report = experiment("held")
    text = shown(report)
    assert "From the stop to the proof" in text
    assert all(f"{phase.seconds:.2f} s" in text for phase in report.outage)


def test_a_rollback_shows_the_way_back_and_both_sides() -> None:
    text = shown(experiment("refuted"))
    assert "back: " in text
    assert text.count("Claims about ") == 2


def test_what_a_host_said_is_no_markup() -> None:
    report = experiment("held").model_copy(
        update={"summary": "[bold red]boo[/bold red] [link=http://x]", "next_argvs": ("[red]rm[/red]",)}
    )
    text = one_line(shown(report))
    assert "[bold red]boo[/bold red] [link=http://x]" in text
    assert "[red]rm[/red]" in text
