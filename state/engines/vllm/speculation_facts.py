"""What the evidence says about speculation in vLLM: windows of its log, counters around our traffic, our requests."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from state.claims import Fact
from state.engines.engine import Drafting
from state.engines.vllm.startup import Startup
from state.evidence import JOURNAL, Evidence
from state.inspection.metrics import read_metrics
from state.inspection.report import MetricsReport
from state.performance import accept_lengths

GENERATIONS, METRICS, BEFORE = "generations", "metrics", "metrics-before"


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted between two readings of `/metrics`: drafts, tokens drafted and tokens accepted."""

    drafts: float
    drafted: float
    accepted: float

    @property
    def length(self) -> float | None:
        """Mean acceptance length, the bonus token included."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None


def totals(metrics: str) -> Counted | None:
    """Totals since the start, over all engines that the series are labelled with; None without V1's counters."""
    report = read_metrics(metrics, "vllm")
    rows = [row for row in report.per_label if "drafts" in row and "accepted_tokens" in row]
    if not rows:
        return None
    drafts, drafted, accepted = (
        sum(float(row.get(name) or 0) for row in rows) for name in ("drafts", "drafted_tokens", "accepted_tokens")
    )
    return Counted(drafts, drafted, accepted)


def drafting(metrics: str) -> Drafting | None:
    found = totals(metrics)
    return Drafting(found.drafts, found.accepted) if found else None


def speculation_facts(evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    counted = _between(evidence)
    yield _state(evidence)
    yield from _depth(evidence, counted)
    lengths, source = _lengths(evidence, startup)
    if lengths:
        yield Fact(
            metric="requests.accept_length",
            value=fmean(lengths),
            sample=len(lengths) * (2 if source == PAIRS else 1),
            samples=tuple(lengths),
            text=f"accept length {fmean(lengths):.2f} over {len(lengths)} {source}",
            evidence=evidence.cite(GENERATIONS if source != WINDOWS else JOURNAL),
        )
    yield _agreement(evidence, counted, accept_lengths(evidence.records(GENERATIONS)))


WINDOWS, PAIRS = "windows of the log", "pairs of our requests"


def _lengths(evidence: Evidence, startup: Startup) -> tuple[list[float], str]:
    """Of our own requests, or pairs of them; of the log's windows where nothing else was counted."""
    records = evidence.records(GENERATIONS)
    own = accept_lengths(records)
    if own:
        alone = any(record.get("verify_calls") for record in records)
        return own, "of our requests" if alone else PAIRS
    return [w.accept_length for w in startup.windows if w.accept_length is not None and w.drafted], WINDOWS


def _between(evidence: Evidence) -> Counted | None:
    """From before our first traffic to now; None where a counter went back, since then it is another process's."""
    first, last = totals(evidence.earliest(BEFORE)), totals(evidence.text(METRICS))
    if first is None or last is None:
        return None
    found = Counted(last.drafts - first.drafts, last.drafted - first.drafted, last.accepted - first.accepted)
    return found if min(found.drafts, found.drafted, found.accepted) >= 0 else None


def _state(evidence: Evidence) -> Fact:
    """The log's word, or the counters' where no window has ended yet."""
    logged = evidence.boot.speculation if evidence.boot else None
    told = read_metrics(evidence.text(METRICS), "vllm")
    state: str | None = logged.state if logged else None
    metric = _told(told)
    if state in (None, "configured") or metric == "active":
        state = metric or state
    if state in (None, "configured"):
        text = "no record of drafts in the log or the metrics yet"
        return Fact(metric="speculation.state", sample=0, text=text)
    length = logged.accept_length if logged else None
    shown = f": accept length {length.mean:.2f} over {logged.samples} windows" if logged and length else ""
    counts = told.speculation
    if not shown and counts.accepted_tokens is not None:
        shown = f": {counts.accepted_tokens} of {counts.drafted_tokens} drafted tokens accepted"
    cite = evidence.cite(JOURNAL, METRICS)
    return Fact(metric="speculation.state", value=state, text=f"{state}{shown}", evidence=cite)


def _told(report: MetricsReport) -> str | None:
    """The counters are there only where speculation is configured."""
    if report.engine is None:
        return None
    state = report.speculation.state
    return "off" if state is None else None if state == "configured" else state


def _depth(evidence: Evidence, counted: Counted | None) -> Iterator[Fact]:
    if counted and counted.drafts > 0:
        depth = counted.drafted / counted.drafts
        text = f"{depth:.2f} tokens drafted for each of {counted.drafts:.0f} steps"
        cite = evidence.cite(BEFORE, METRICS)
        yield Fact(metric="speculation.depth", value=depth, sample=int(counted.drafts), text=text, evidence=cite)


def _agreement(evidence: Evidence, counted: Counted | None, own: list[float]) -> Fact:
    """The largest difference among what the log, the counters and our requests say; the log must be among them."""
    boot = evidence.boot
    logged = boot.speculation.accept_length.mean if boot and boot.speculation.accept_length else None
    figures = {
        "log": logged,
        "counters": counted.length if counted else None,
        "our requests": fmean(own) if own else None,
    }
    known = {name: value for name, value in figures.items() if value}
    text = ", ".join(f"{name} {value:.2f}" for name, value in known.items()) or "no accept length anywhere yet"
    apart = None
    if logged and len(known) > 1:
        apart = (max(known.values()) - min(known.values())) / max(known.values())
    elif not logged:
        text += "; the log has no window with drafts yet"
    return Fact(
        metric="speculation.disagreement",
        value=apart,
        sample=len(known),
        text=text,
        evidence=evidence.cite(JOURNAL, BEFORE, METRICS, GENERATIONS),
    )
