"""Pages are looked at where somebody asks for it (`make browser`): it needs Debian's Chromium."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from state.rollout_report import Report
from tests.report.experiments import CLAIMS, experiment

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and os.environ.get("INTERLOCK_BROWSER") != "1":
            item.add_marker(pytest.mark.skipif(True, reason="pages are looked at with INTERLOCK_BROWSER=1"))


@pytest.fixture(scope="session")
def reports() -> Mapping[str, Report]:
    """By kind. Made before the browser is there: while it is, this thread has an event loop that runs."""
    return {kind: experiment(kind) for kind in CLAIMS}


@pytest.fixture(scope="session")
def browser(reports: Mapping[str, Report]) -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "there is no Chromium; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
