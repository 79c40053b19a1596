"""What the evidence says about speculation in llama-server: the log's requests, our own, and counters."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from state.claims import Fact
from state.engines.llamacpp.startup import Startup
from state.evidence import JOURNAL, Evidence
from state.inspection.metrics import read_metrics
from state.performance import accept_lengths

GENERATIONS, METRICS, BEFORE = "generations", "metrics", "metrics-before"
OWN = "our requests"


@dataclass(frozen=True, slots=True)
class Drafted:
    """Tokens accepted and drafted, and in how many drafts, None where nobody counts those."""

    accepted: float
    drafted: float
    drafts: float | None = None

    @property
    def rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted > 0 else None


def speculation_facts(evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    sources = {
        "log": _summed(startup.requests),
        "counters": _between(evidence),
        OWN: _own(evidence.records(GENERATIONS)),
    }
    yield _state(evidence, startup, sources)
    yield from _depth(evidence, startup, sources["counters"])
    lengths = accept_lengths(evidence.records(GENERATIONS))
    if lengths:
        yield Fact(
            metric="requests.accept_length",
            value=fmean(lengths),
            sample=len(lengths),
            samples=tuple(lengths),
            text=f"accept length {fmean(lengths):.2f} over {len(lengths)} of our requests",
            evidence=evidence.cite(GENERATIONS),
        )
    yield _agreement(evidence, sources)


def _summed(pairs: list[tuple[int, int]]) -> Drafted | None:
    return Drafted(sum(a for a, _ in pairs), sum(d for _, d in pairs)) if pairs else None


def _own(records: list[dict[str, Any]]) -> Drafted | None:
    """Those that tell both figures, as they can be."""
    pairs = [(one.get("accepted"), one.get("drafted")) for one in records if one.get("status") == 200]
    told = [(a, d) for a, d in pairs if type(a) is int and type(d) is int and 0 <= a <= d]
    return _summed(told)


def _between(evidence: Evidence) -> Drafted | None:
    """Counters from before our first traffic to now; None where one went back: then it is another process's."""
    first, last = _totals(evidence.earliest(BEFORE)), _totals(evidence.text(METRICS))
    if first is None or last is None:
        return None
    drafts = last.drafts - first.drafts if last.drafts is not None and first.drafts is not None else None
    found = Drafted(last.accepted - first.accepted, last.drafted - first.drafted, drafts)
    return found if min(found.accepted, found.drafted, drafts or 0) >= 0 else None


def _totals(metrics: str) -> Drafted | None:
    told = read_metrics(metrics, "llamacpp").speculation
    if told.accepted_tokens is None or told.drafted_tokens is None:
        return None
    mean = told.accept_length.mean if told.accept_length else None
    drafts = told.accepted_tokens / (mean - 1) if mean and mean > 1 else None
    return Drafted(told.accepted_tokens, told.drafted_tokens, drafts)


def _state(evidence: Evidence, startup: Startup, sources: dict[str, Drafted | None]) -> Fact:
    """By the log and the counters; our own requests have a claim of their own. A request that ended in the log without
    figures of drafts had none; without a request nothing is known."""
    told = {name: one for name, one in sources.items() if one is not None and one.drafted > 0 and name != OWN}
    cite = evidence.cite(JOURNAL, METRICS)
    if told:
        state = "active" if any(one.accepted for one in told.values()) else "useless"
        name, most = max(told.items(), key=lambda item: item[1].drafted)
        text = f"{state}: {most.accepted:.0f} of {most.drafted:.0f} drafted tokens accepted ({name})"
        return Fact(metric="speculation.state", value=state, sample=len(told), text=text, evidence=cite)
    if startup.served:
        text = f"off: {startup.served} requests in the log, none with drafts"
        return Fact(metric="speculation.state", value="off", sample=startup.served, text=text, evidence=cite)
    return Fact(metric="speculation.state", sample=0, text="no request that ended is in the log yet")


def _depth(evidence: Evidence, startup: Startup, counted: Drafted | None) -> Iterator[Fact]:
    """Tokens of a draft on average, of models and heads alone: what repeats itself is drafted at other lengths."""
    told = [both for kind, both in startup.statistics.items() if kind.startswith("draft")]
    drafts, tokens = sum(one for one, _ in told), float(sum(two for _, two in told))
    cite = evidence.cite(JOURNAL)
    if not drafts and counted and counted.drafts:
        drafts, tokens, cite = round(counted.drafts), counted.drafted, evidence.cite(BEFORE, METRICS)
    if drafts:
        text = f"{tokens / drafts:.2f} tokens in each of {drafts} drafts"
        yield Fact(metric="speculation.depth", value=tokens / drafts, sample=drafts, text=text, evidence=cite)


def _agreement(evidence: Evidence, sources: dict[str, Drafted | None]) -> Fact:
    """The largest difference among the shares accepted, relative to the largest; two sources at least."""
    rates = {name: one.rate for name, one in sources.items() if one is not None and one.rate is not None}
    known = {name: rate for name, rate in rates.items() if rate is not None}
    text = ", ".join(f"{name} {rate:.2f}" for name, rate in known.items()) or "no draft was counted anywhere yet"
    apart = None
    if len(known) > 1:
        most = max(known.values())
        apart = (most - min(known.values())) / most if most else 0.0
    return Fact(
        metric="speculation.disagreement",
        value=apart,
        sample=len(known),
        text=text,
        evidence=evidence.cite(JOURNAL, BEFORE, METRICS, GENERATIONS),
    )
