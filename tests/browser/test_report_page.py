"""The report's one HTML file in a real browser: whole, self-contained, and readable on a phone as on a desk."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from deployments.report.html import html
from state.rollout_report import Report
from tests.report.experiments import CLAIMS

pytestmark = pytest.mark.browser
WIDTHS = {"desk": 1280, "phone": 400}


def opened(browser: Browser, path: Path, width: int, scheme: str = "light") -> tuple[Page, list[str]]:
    """The page, and what it complained of or asked the network for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page, found = context.new_page(), []
    page.on("console", lambda message: found.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("request", lambda request: found.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    return page, found


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("kind", CLAIMS)
def test_the_page_is_whole_and_fits(
    browser: Browser, reports: Mapping[str, Report], tmp_path: Path, kind: str, width: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(reports[kind]))
    page, found = opened(browser, path, width)
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("svg").count() >= 4, "changes, samples, phases, stages"
    assert page.evaluate("[...document.querySelectorAll('svg')].every(s => s.getBoundingClientRect().height > 20)")
    assert page.locator("h1 .outcome").inner_text() == ("promoted" if kind == "held" else "rolled-back")
    assert page.locator("#new tbody tr", has_text="performance").count() == 1


def test_plots_stay_within_their_frames(browser: Browser, reports: Mapping[str, Report], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(reports["refuted"]))
    page, _ = opened(browser, path, 1280)
    outside = page.evaluate(
        """[...document.querySelectorAll('svg')].flatMap(svg => {
             const frame = svg.getBoundingClientRect();
             return [...svg.querySelectorAll('text, circle, rect')].filter(part => {
               const box = part.getBoundingClientRect();
               return box.left < frame.left - 1 || box.right > frame.right + 1
                   || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
             }).map(part => part.outerHTML);
           })"""
    )
    assert outside == []


def test_evidence_is_reached_by_its_links(browser: Browser, reports: Mapping[str, Report], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(reports["held"]))
    page, _ = opened(browser, path, 1280)
    link = page.locator("#new tbody tr", has_text="performance").locator("a").first
    target = link.get_attribute("href") or ""
    link.click()
    assert page.url.endswith(target)
    assert page.locator(f"[id='{target.removeprefix('#')}']").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(
    browser: Browser, reports: Mapping[str, Report], tmp_path: Path, scheme: str
) -> None:
    """WCAG's contrast of at least 4.5 for the text of verdicts and of the table."""
    path = tmp_path / "report.html"
    path.write_text(html(reports["refuted"]))
    page, _ = opened(browser, path, 1280, scheme)
    worst = page.evaluate(
        """(() => {
             const light = rgb => rgb.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
               .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
               .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
             const ground = light(getComputedStyle(document.body).backgroundColor);
             return Math.min(...[...document.querySelectorAll('td, p, h2 span')].map(part => {
               const ink = light(getComputedStyle(part).color);
               return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
             }));
           })()"""
    )
    assert worst >= 4.5
