"""What the evidence says about speculation in SGLang: its log, our own requests' figures, and its metrics."""

from collections.abc import Iterator
from statistics import fmean

from state.claims import Fact
from state.evidence import JOURNAL, Evidence
from state.inspection.metrics import read_metrics
from state.inspection.report import Boot
from state.performance import accept_lengths

GENERATIONS, METRICS = "generations", "metrics"


def speculation_facts(evidence: Evidence) -> Iterator[Fact]:
    boot = evidence.boot
    yield _state(boot, evidence)
    yield from _metrics(boot, evidence)
    lengths = accept_lengths(evidence.records(GENERATIONS))
    if not lengths:
        return
    mean = fmean(lengths)
    shown = f"accept length {mean:.2f} over {len(lengths)} of our requests"
    cite = evidence.cite(GENERATIONS)
    yield Fact(
        metric="requests.accept_length",
        value=mean,
        sample=len(lengths),
        samples=tuple(lengths),
        text=shown,
        evidence=cite,
    )
    logged = boot.speculation.accept_length.mean if boot and boot.speculation.accept_length else None
    apart = abs(logged - mean) / max(logged, mean) if logged else None
    text = f"log {logged:.2f}, our requests {mean:.2f}" if logged else "the log has no accept length yet"
    yield Fact(
        metric="speculation.disagreement",
        value=apart,
        sample=len(lengths),
        text=text,
        evidence=evidence.cite(JOURNAL, GENERATIONS),
    )


def _state(boot: Boot | None, evidence: Evidence) -> Fact:
    speculation = boot.speculation if boot else None
    if speculation is None or speculation.state in (None, "configured"):
        return Fact(
            metric="speculation.state", sample=0, text="no decode record with or without acceptance figures yet"
        )
    length = speculation.accept_length
    figures = f": accept length {length.mean:.2f} over {speculation.samples} records" if length else ""
    if not length and speculation.accepted_tokens is not None:
        figures = f": {speculation.accepted_tokens} of {speculation.drafted_tokens} drafts accepted"
    sample = max(1, speculation.samples)
    return Fact(
        metric="speculation.state", value=speculation.state, sample=sample, text=f"{speculation.state}{figures}",
        evidence=evidence.cite(JOURNAL),
    )  # fmt: skip


def _metrics(boot: Boot | None, evidence: Evidence) -> Iterator[Fact]:
    """The gauge against the log's mean. A gauge of 0 is one that was never set, and says nothing."""
    if METRICS not in evidence:
        return
    told = read_metrics(evidence.text(METRICS), "sglang").speculation.accept_length
    gauge = told.mean if told else None
    logged = boot.speculation.accept_length.mean if boot and boot.speculation.accept_length else None
    apart = abs(logged - gauge) / max(logged, gauge) if logged and gauge else None
    shown = f"log {logged:.2f}" if logged else "no accept length in the log yet"
    text = f"{shown}, metrics {gauge:.2f}" if gauge else f"{shown}, none in the metrics"
    cited = evidence.cite(JOURNAL, METRICS)
    yield Fact(metric="metrics.disagreement", value=apart, sample=int(apart is not None), text=text, evidence=cited)
