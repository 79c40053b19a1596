"""A rollout's report: what it says, in which order, and that nothing from a host is markup in it."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from deployments.report.html import html
from deployments.report.markdown import markdown
from deployments.report.plots import bar, samples_plot
from deployments.report.words import figure, number
from state.claims import Estimate, Verdict
from state.events import ActionStarted, ReadinessReached, StepSucceeded, encode
from state.outage import phases
from state.rollout_report import Level, Report, by_plane, report_of
from state.store.export import import_lines
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import RecordedEvent
from tests.report.experiments import CLAIMS, experiment

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))


LINES = {path: path.read_text(encoding="utf-8").splitlines() for path in HISTORIES}


async def recorded(path: Path) -> Report:
    store = MemoryEventStore(lambda: datetime.now(UTC))
    stream = await import_lines(store, LINES[path], MemoryEvidenceStore())
    return report_of(await store.read(stream))


class Tags(HTMLParser):
    """Elements that are open but never closed, identifiers, and links within the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.ids |= {known["id"] or ""} if "id" in known else set()
        self.links |= {known["href"] or ""} if tag == "a" else set()
        self.fetched += [known[name] or "" for name in ("src", "srcset", "action") if name in known]
        if tag not in ("meta", "circle", "rect", "line", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag


def read(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_every_recorded_history_has_a_whole_page(path: Path) -> None:
    page = html(await recorded(path))
    tags = read(page)
    assert tags.open == []
    assert tags.fetched == []
    assert {link.removeprefix("#") for link in tags.links} <= tags.ids, "evidence is linked"
    assert "<script" not in page


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_every_row_says_what_would_refute_it(path: Path) -> None:
    report = await recorded(path)
    verdicts = [v for proof in report.proofs for _, own in proof.planes for v in own]
    assert all(v.refuting for v in verdicts)
    rows = [line for line in markdown(report).splitlines() if re.match(r"\| (identity|control|data|resource)", line)]
    assert rows
    assert all(row.count(" | ") == 5 for row in rows)


@pytest.mark.parametrize("kind", CLAIMS)
def test_the_seeds_story_has_its_report(kind: str) -> None:
    """NEXTN with 5 steps and a gain that is claimed: held, refuted, left open."""
    report = experiment(kind)
    outcome = "promoted" if kind == "held" else "rolled-back"
    page, text = html(report), markdown(report)
    assert report.outcome == outcome
    assert text.startswith(f"# qwen35-122b: {outcome}\n")
    (level,) = [x for x in report.proofs[0].levels if x.claim == "throughput-change-1"]
    assert level.outcome == kind
    assert len(level.baseline) == 8
    assert len(level.samples) >= 4
    assert "Before and after" in page
    assert 'aria-label="from the stop to the proof"' in page
    row = next(line for line in text.splitlines() if "| performance |" in line)
    assert f"{CLAIMS[kind][0].rstrip('%')}.0%" in row, "the bound"
    assert " to " in row, "the interval"
    assert ("**throughput-change-1**" in text) is (kind != "held"), "a remedy where it is not held"


def test_a_report_of_a_rollback_shows_both_proofs_and_the_way_back() -> None:
    report = experiment("refuted")
    assert [proof.side for proof in report.proofs] == ["new", "old"]
    names = [(phase.side, phase.name) for phase in report.outage]
    assert names.index(("new", "stop")) < names.index(("new", "verify")) < names.index(("old", "stop"))
    assert names[-1] == ("old", "verify")
    assert all(phase.seconds >= 0 for phase in report.outage)


HOSTILE = "<img src=x onerror=alert(1)>|`*_[x](javascript:1)\"'"


def test_text_from_a_host_is_never_markup() -> None:
    sound = experiment("refuted")
    proof = sound.proofs[0]
    hostile = Verdict(
        claim="c", plane="function", statement=HOSTILE, outcome="refuted", reason=HOSTILE, remedy=HOSTILE, refuting="x"
    )
    report = sound.model_copy(
        update={
            "summary": HOSTILE,
            "reason": HOSTILE,
            "service": HOSTILE,
            "proofs": (proof.model_copy(update={"planes": (("function", (hostile,)),)}),),
        }
    )
    page, text = html(report), markdown(report)
    assert "<img" not in page
    assert "onerror=alert(1)&gt;" in page
    assert not re.search(r"(?<!\\)[<`|]img|(?<!\\)\[x", text)


@pytest.mark.parametrize(
    ("estimate", "told"),
    [
        pytest.param(None, "", id="no figure"),
        pytest.param(Estimate(value=0, unit=""), "0", id="a count"),
        pytest.param(Estimate(value=0.9, bound=0.75), "0.9000; bound 0.7500", id="a value against its bound"),
        pytest.param(
            Estimate(value=3.12, low=2.98, high=3.26, bound=2, sample=12),
            "3.12, 2.98 to 3.26; bound 2 (12 samples)",
            id="a mean",
        ),
        pytest.param(
            Estimate(value=0.31, low=0.22, high=0.4, bound=0.12, unit="%", sample=4),
            "+31.0%, +22.0% to +40.0%; bound +12.0% (4 samples)",
            id="a change",
        ),
        pytest.param(Estimate(value=0.81, unit="s", bound=1), "0.8100; bound 1 s", id="with its unit"),
    ],
)  # fmt: skip
def test_figures_in_words(estimate: Estimate | None, told: str) -> None:
    assert figure(estimate) == told


def test_numbers_keep_what_matters() -> None:
    assert [number(v) for v in (0.00123, 1.5, 1500.0, -0.25)] == ["0.0012", "1.50", "1500", "-0.2500"]


def test_what_is_not_held_comes_first_within_its_plane() -> None:
    def verdict(claim: str, plane: str, outcome: str) -> Verdict:
        return Verdict.model_validate(
            {"claim": claim, "plane": plane, "statement": "s", "outcome": outcome, "reason": "r"}
        )

    found = by_plane([verdict("a", "function", "held"), verdict("b", "function", "refuted"),
                      verdict("c", "identity", "held"), verdict("d", "function", "inconclusive")])  # fmt: skip
    assert [(plane, [v.claim for v in own]) for plane, own in found] == [
        ("identity", ["c"]),
        ("function", ["b", "d", "a"]),
    ]


LEVEL = Level(
    claim="c",
    statement="a < b",
    outcome="held",
    unit="s",
    samples=(1.0, 2.0, 3.0),
    value=2.0,
    low=1.0,
    high=3.0,
    bound=0.5,
)


@pytest.mark.parametrize(
    "level",
    [
        pytest.param(LEVEL, id="a mean"),
        pytest.param(LEVEL.model_copy(update={"baseline": (1.0, 1.0)}), id="with a baseline"),
        pytest.param(LEVEL.model_copy(update={"samples": (2.0,) * 5, "low": 2.0, "high": 2.0}), id="without spread"),
        pytest.param(LEVEL.model_copy(update={"samples": (0.0, 0.0), "low": None, "high": None}), id="zeros"),
        pytest.param(LEVEL.model_copy(update={"samples": (1e-9, 1e9)}), id="far apart"),
    ],
)
def test_every_sample_is_a_point_within_the_plot(level: Level) -> None:
    drawn = samples_plot(level)
    places = [(float(x), float(y)) for x, y in re.findall(r'<circle class="\w+" cx="([\d.-]+)" cy="([\d.-]+)"', drawn)]
    assert len(places) == len(level.samples) + len(level.baseline)
    assert all(96 <= x <= 624 and 24 <= y <= 176 for x, y in places)
    assert "a &lt; b" in drawn


def test_a_bar_of_nothing_is_no_fall() -> None:
    assert "stop 0.00 s" in bar([("stop", 0.0), ("load", 0.0)], "t")


def history(*events: tuple[float, object]) -> list[RecordedEvent]:
    begin = datetime(2026, 3, 9, 12, tzinfo=UTC)
    found = []
    for version, (after, event) in enumerate(events, 1):
        new = encode(event)  # type: ignore[arg-type]  # events, as a table
        found.append(
            RecordedEvent(
                position=version, stream="rollout-x", version=version, type=new.type, schema_version=new.schema_version,
                data=new.data, metadata={}, recorded_at=begin + timedelta(seconds=after), digest="",
            )
        )  # fmt: skip
    return found


def test_an_outage_that_was_cut_short_has_the_phases_that_it_reached() -> None:
    stop, start = "do:2:stop-service", "do:5:start-service"
    ready = ReadinessReached(
        action="await-readiness:new", attempt=1, side="new", seconds=9.0, stages=(("weights", 1.0), ("warm-up", 7.0))
    )
    events = (
        (0.0, ActionStarted(action="plan", attempt=1)),
        (1.0, ActionStarted(action=stop, attempt=1)),
        (3.5, StepSucceeded(action=stop, attempt=1, step=2, direction="do")),
        (4.0, ActionStarted(action=start, attempt=1)),
        (4.5, StepSucceeded(action=start, attempt=1, step=5, direction="do")),
        (5.0, ActionStarted(action="await-readiness:new", attempt=1)),
        (14.0, ready),
    )
    told = [(p.name, p.begin_s, p.end_s) for p in phases(history(*events))]
    assert told == [("stop", 1.0, 3.5), ("start", 4.0, 4.5), ("load", 5.0, 12.0), ("warm-up", 12.0, 14.0)]
    assert [p.name for p in phases(history(*events[:4]))] == ["stop"]
