"""The journal that started the project: two processes, and evidence that is only the newer one's."""

from pathlib import Path

import pytest

from state.inspection.log import read_log
from state.inspection.report import LogReport

JOURNAL = Path(__file__).parent / "data" / "journal-restart.log"


@pytest.fixture
def report() -> LogReport:
    with JOURNAL.open("rb") as lines:
        return read_log(lines)


def test_the_two_processes_are_told_apart(report: LogReport) -> None:
    assert [boot.pids for boot in report.boots] == [(14363,), (14403,)]


def test_the_older_process_proves_nothing_about_speculation(report: LogReport) -> None:
    speculation = report.boots[0].speculation
    assert (speculation.state, speculation.samples, speculation.drafted_tokens) == (None, 0, None)


def test_the_newer_process_accepted_five_of_five_drafts(report: LogReport) -> None:
    speculation = report.boots[1].speculation
    assert speculation.state == "active"
    assert (speculation.accepted_tokens, speculation.drafted_tokens, speculation.samples) == (5, 5, 1)
    assert speculation.accept_rate is not None
    assert (speculation.accept_rate.mean, speculation.accept_rate.definition) == (1.0, "strict")
    assert speculation.accept_length is None


def test_the_overlap_is_said(report: LogReport) -> None:
    """The newer one serves already and its start is not in the excerpt, so the older one wrote after it had started."""
    assert [entry.code for boot in report.boots for entry in boot.notices] == ["overlapping-boots"]
    assert report.boots[1].notices[0].line == 1


def test_no_end_and_no_start_is_claimed(report: LogReport) -> None:
    assert [(boot.outcome, boot.stage, boot.arguments) for boot in report.boots] == [(None, None, None)] * 2
