"""vLLM's `/metrics`: counters of speculation, V1 with drafts, V0 with emitted tokens and ready-made gauges."""

from collections.abc import Mapping, Sequence
from typing import Any

from state.inspection.prometheus import Series
from state.inspection.reading import Sample
from state.inspection.report import AcceptLength, AcceptRate, MetricsReport, Speculation, SpeculationState
from state.inspection.text import without_secrets

_SPEC = "vllm:spec_decode_"


def read_metrics(samples: Sequence[Sample]) -> MetricsReport | None:
    """None where no series is vLLM's. The series are registered only where speculation is configured."""
    own = [sample for sample in samples if sample.name.startswith("vllm:")]
    if not own:
        return None
    series = Series.of(own)
    return MetricsReport(
        engine="vllm",
        speculation=_speculation(series),
        running=series.total("vllm:num_requests_running"),
        queued=series.total("vllm:num_requests_waiting"),
        per_label=_per_label(series),
    )


def _counter(series: Series, name: str) -> float | None:
    value = series.total(f"{_SPEC}{name}_total")
    return value if value is not None else series.total(f"{_SPEC}{name}")


def _speculation(series: Series) -> Speculation:
    if not any(name.startswith(_SPEC) for name in series.by_name):
        return Speculation()
    drafts, drafted = _counter(series, "num_drafts"), _counter(series, "num_draft_tokens")
    accepted = _counter(series, "num_accepted_tokens")
    state: SpeculationState = "configured"
    if drafted and accepted is not None:
        state = "active" if accepted > 0 else "useless"
    rate = _rate(drafted, accepted, series)
    if drafted is None and rate is not None:
        state = "active"
    return Speculation(
        state=state,
        samples=1 if drafted else 0,
        num_steps=_steps(drafts, drafted),
        accept_length=_length(drafts, drafted, accepted),
        accept_rate=rate,
        accepted_tokens=int(accepted) if accepted is not None else None,
        drafted_tokens=int(drafted) if drafted is not None else None,
        per_position=_per_position(series, drafts),
    )


def _steps(drafts: float | None, drafted: float | None) -> int | None:
    steps = drafted / drafts if drafts and drafted else 0.0
    return int(steps) if steps and steps == int(steps) else None


def _length(drafts: float | None, drafted: float | None, accepted: float | None) -> AcceptLength | None:
    """1 + accepted/drafts; V0 has no drafts counter, and only where nothing was accepted that makes no difference."""
    if accepted is not None and (drafts or (drafted and not accepted)):
        mean = round(1 + accepted / drafts, 6) if drafts else 1.0
        return AcceptLength(mean, mean, mean, mean)
    return None


def _rate(drafted: float | None, accepted: float | None, series: Series) -> AcceptRate | None:
    if drafted and accepted is not None:
        return AcceptRate(round(accepted / drafted, 6), "strict")
    gauge = series.gauges(f"{_SPEC}draft_acceptance_rate")
    shown = [value for value in gauge.values() if 0 < value <= 1]
    return AcceptRate(round(sum(shown) / len(shown), 6), "strict") if shown else None


def _per_position(series: Series, drafts: float | None) -> tuple[float, ...] | None:
    name = f"{_SPEC}num_accepted_tokens_per_pos"
    positions: dict[int, float] = {}
    for sample in series.by_name.get(f"{name}_total", series.by_name.get(name, ())):
        if sample.labels.get("position", "").isdigit():
            position = int(sample.labels["position"])
            positions[position] = positions.get(position, 0.0) + sample.value
    if not positions or not drafts or sorted(positions) != list(range(len(positions))):
        return None
    return tuple(round(positions[index] / drafts, 6) for index in range(len(positions)))


def _per_label(series: Series) -> tuple[Mapping[str, Any], ...]:
    names = {
        "running": "vllm:num_requests_running",
        "queued": "vllm:num_requests_waiting",
        "drafts": f"{_SPEC}num_drafts_total",
        "drafted_tokens": f"{_SPEC}num_draft_tokens_total",
        "accepted_tokens": f"{_SPEC}num_accepted_tokens_total",
    }
    rows: dict[Any, dict[str, Any]] = {}
    for field, name in names.items():
        for server, value in series.gauges(name).items():
            rows.setdefault(server, {"labels": without_secrets(dict(server))})[field] = value
    return tuple(rows.values())
