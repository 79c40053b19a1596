"""SGLang's `/metrics` (`--enable-metrics`): gauges that hold the last decode record's values; 0 proves nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from state.inspection.acceptance import Acceptance
from state.inspection.events import Configured, Decoded
from state.inspection.prometheus import Series
from state.inspection.reading import Sample
from state.inspection.report import MetricsReport, Speculation, SpeculationState
from state.inspection.text import without_secrets

_DRAFT_ENGINES = frozenset({"draft", "draft_engine", "speculative"})


def read_metrics(samples: Sequence[Sample]) -> MetricsReport | None:
    """None where no series is SGLang's. A draft engine's own series is not mixed with the unified one."""
    own = [s for s in samples if s.name.startswith("sglang:")]
    if not own:
        return None
    series = Series.of(s for s in own if s.labels.get("engine_type") not in _DRAFT_ENGINES)
    return MetricsReport(
        engine="sglang",
        speculation=_speculation(series),
        running=series.total("sglang:num_running_reqs"),
        queued=series.total("sglang:num_queue_reqs"),
        per_label=_per_label(series),
    )


def _speculation(series: Series) -> Speculation:
    lengths, rates = series.gauges("sglang:spec_accept_length"), series.gauges("sglang:spec_accept_rate")
    acceptance = Acceptance()
    for server, length in lengths.items():
        if length >= 1.0:
            acceptance.add_record(Decoded(accept_length=length, accept_rate=rates.get(server)))
    steps, tokens = _whole(series, "sglang:spec_num_steps"), _whole(series, "sglang:spec_num_draft_tokens")
    configured = Configured(num_steps=steps, num_draft_tokens=tokens)
    state: SpeculationState | None = None
    if acceptance.samples:
        state = "useless" if acceptance.nothing_accepted else "active"
    elif steps or series.total("sglang:spec_verify_calls_total"):
        state = "configured"
    return Speculation(
        num_steps=steps,
        num_draft_tokens=tokens,
        state=state,
        samples=acceptance.samples,
        accept_length=acceptance.length(configured) if acceptance.samples else None,
        accept_rate=_rate(acceptance, configured, rates),
    )


def _rate(acceptance: Acceptance, configured: Configured, rates: Mapping[Any, float]) -> Any:
    if not acceptance.samples:
        return None
    printed = acceptance.definition.proved()
    if printed == "strict" or (printed is None and rates and not configured.num_steps):
        return acceptance.rate(Configured())
    return acceptance.rate(configured)


def _whole(series: Series, name: str) -> int | None:
    values = [value for value in series.gauges(name).values() if value > 0]
    return int(max(values)) if values else None


def _per_label(series: Series) -> tuple[Mapping[str, Any], ...]:
    names = {
        "running": "sglang:num_running_reqs",
        "queued": "sglang:num_queue_reqs",
        "accept_length": "sglang:spec_accept_length",
        "accept_rate": "sglang:spec_accept_rate",
        "gen_throughput": "sglang:gen_throughput",
    }
    rows: dict[Any, dict[str, Any]] = {}
    lengths = series.gauges("sglang:spec_accept_length")
    for field, name in names.items():
        for server, value in series.gauges(name).items():
            unknown = field.startswith("accept_") and value == 0 and not lengths.get(server)
            rows.setdefault(server, {"labels": without_secrets(dict(server))})[field] = None if unknown else value
    return tuple(rows.values())
