"""The pages of Prefect that `interlock serve` brings along: a form filled, a run watched, its report read.

With INTERLOCK_SCREENSHOTS=1 the pictures of docs/guides/serve.md are made anew.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.practice import stage
from tests.serve.home import PREFECT_CAME_UP, SERVICE, Served, eventually, served

pytestmark = [pytest.mark.browser, pytest.mark.prefect]
IMAGES = Path(__file__).parents[2] / "docs" / "images"
WAIT_MS = 60_000


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Comes before the browser: while that is there, this thread has an event loop that runs."""
    slow = {"stage_seconds": {"weights": 2.0}}
    with (
        stage(tmp_path_factory.mktemp("serve"), settings=slow) as practice,
        served(practice, with_prefect=True) as made,
    ):
        made.until_it_says(PREFECT_CAME_UP)
        eventually(lambda: made.prefect("POST", "/deployments/filter", {}), lambda found: len(found) == 6)
        yield made


@pytest.fixture
def page(server: Served, browser: Browser) -> Iterator[Page]:
    """A page that asks nobody but this machine for anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    opened, asked = context.new_page(), []
    own = (server.prefect_url, server.prefect_url.replace("http", "ws", 1), "data:", "blob:")
    opened.on("request", lambda request: asked.append(request.url) if not request.url.startswith(own) else None)
    opened.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    yield opened
    context.close()
    assert asked == []


def picture(page: Page, name: str) -> None:
    if os.environ.get("INTERLOCK_SCREENSHOTS") == "1":
        page.screenshot(path=IMAGES / f"serve-{name}.png")


def test_a_rollout_is_started_by_its_form_watched_and_its_report_read(server: Served, page: Page) -> None:
    page.goto(f"{server.prefect_url}/v2/deployments")
    page.get_by_role("link", name="rollout", exact=True).first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    expect(page.get_by_text("What the service is taken to")).to_be_visible()
    fill_target(page, f"{SERVICE}/day")
    picture(page, "form")
    page.get_by_role("button", name="Submit").click()

    rollout = server.until_it_says("asked by ")["rollout"]
    run = eventually(lambda: runs(server), lambda found: len(found) == 1)[0]
    page.goto(f"{server.prefect_url}/v2/runs/flow-run/{run}")
    expect(page.get_by_text("Running").first).to_be_visible()
    expect(page.get_by_text("promoted").first).to_be_visible()
    assert server.rollout(rollout)["state"] == "promoted"
    page.get_by_role("tab", name="Task Runs").click()
    expect(page.get_by_text("await-readiness").first).to_be_visible()
    picture(page, "run")

    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text(f"report-{SERVICE}").first.click()
    expect(page.get_by_role("heading", name=f"{SERVICE}: promoted")).to_be_visible()
    expect(page.get_by_text("it is still the start that was made")).to_be_visible()
    picture(page, "report")


def fill_target(page: Page, target: str) -> None:
    """The first select of the form."""
    page.get_by_text("Select", exact=True).first.click()
    page.get_by_role("option", name=target).click()


def runs(server: Served) -> list[str]:
    found = server.prefect("POST", "/flow_runs/filter", {"sort": "START_TIME_DESC"})
    return [run["id"] for run in found if run["state"]["type"] in ("RUNNING", "COMPLETED")]
