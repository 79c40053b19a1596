"""llama-server's artefacts as one reading: log, metrics, answers, argv."""

from collections.abc import Mapping, Sequence
from typing import Any

from state.engines.llamacpp.failures import remedy
from state.engines.llamacpp.log_lines import LlamaLines
from state.inspection.degenerate import is_degenerate
from state.inspection.openai_answer import answer_text, finish_reason, usage_tokens
from state.inspection.prometheus import Series
from state.inspection.reading import NO_EVIDENCE, STRONG, WEAK, Sample
from state.inspection.report import (
    AcceptLength,
    AcceptRate,
    AnswerReport,
    AnswerSpeculation,
    MetricsReport,
    ServerInfoReport,
    Speculation,
    SpeculationState,
)
from state.inspection.shapes import Slot
from state.inspection.signatures import ANCHORS, has_any

_STRONG = (
    b"llama_model_load",
    b"llama_kv_cache",
    b"llama-server",
    b"draft acceptance",
    b"llama_context",
    b"system_info: n_threads",
)
_WEAK = (b"ggml_", b"GGML_", b"slot launch_slot", b"all slots are idle", b"srv  ", b"gguf")
_WORTH = (
    *ANCHORS,
    b"draft",
    b"loading model",
    b"llama_",
    b"warming up",
    b"listening",
    b"build: ",
    b"cleaning up",
    b"received",
)
_SPEC = "llamacpp:spec_decode_num_"


class LlamaReading:
    name = "llamacpp"
    words = _WORTH

    def line_reader(self) -> LlamaLines:
        return LlamaLines()

    def evidence(self, line: bytes) -> int:
        if has_any(line, _STRONG):
            return STRONG
        return WEAK if has_any(line, _WEAK) else NO_EVIDENCE

    def worth(self, line: bytes) -> bool:
        return has_any(line, _WORTH)

    def stream(self, line: bytes) -> str:
        return ""

    def slots(self, line: bytes) -> Sequence[Slot]:
        return ()

    def remedy(self, code: str) -> str:
        return remedy(code)

    def flags_at(self, argv: Sequence[str]) -> int | None:
        """`llama-server ARGS`, wherever it is installed."""
        return next((at + 1 for at, word in enumerate(argv) if word.rsplit("/", 1)[-1] == "llama-server"), None)

    def read_metrics(self, samples: Sequence[Sample]) -> MetricsReport | None:
        """`/metrics` (`--metrics`): counters of speculation in newer builds."""
        own = [sample for sample in samples if sample.name.startswith("llamacpp:")]
        if not own:
            return None
        series = Series.of(own)
        return MetricsReport(
            engine=self.name,
            speculation=_counted(series),
            running=series.total("llamacpp:requests_processing"),
            queued=series.total("llamacpp:requests_deferred"),
        )

    def read_server_info(self, data: Mapping[str, Any]) -> ServerInfoReport | None:
        """None: the speculative section of `/props` is unreliable, so it proves nothing."""
        return None

    def read_answer(self, data: Mapping[str, Any]) -> AnswerReport | None:
        """`timings.draft_n` and `timings.draft_n_accepted`; absent means that nothing was drafted for this request."""
        timings = data.get("timings")
        if not isinstance(timings, Mapping):
            return None
        text = answer_text(data)
        return AnswerReport(
            engine=self.name,
            completion_tokens=usage_tokens(data) or _count(timings, "predicted_n"),
            finish_reason=finish_reason(data),
            speculation=_of_request(_count(timings, "draft_n"), _count(timings, "draft_n_accepted")),
            degenerate=is_degenerate(text or ""),
            text_chars=len(text) if text is not None else None,
        )


def _of_request(drafted: int | None, accepted: int | None) -> AnswerSpeculation:
    if not drafted or accepted is None:
        return AnswerSpeculation()
    return AnswerSpeculation("active" if accepted else "useless", None, accepted, drafted)


def _counted(series: Series) -> Speculation:
    drafts, drafted = series.total(f"{_SPEC}drafts_total"), series.total(f"{_SPEC}draft_tokens_total")
    accepted = series.total(f"{_SPEC}accepted_tokens_total")
    if drafted is None or accepted is None:
        return Speculation()
    state: SpeculationState = ("active" if accepted else "useless") if drafted else "configured"
    mean = round(1 + accepted / drafts, 6) if drafts else None
    return Speculation(
        state=state,
        samples=1 if drafted else 0,
        accept_length=AcceptLength(mean, mean, mean, mean) if mean is not None else None,
        accept_rate=AcceptRate(round(accepted / drafted, 6), "strict") if drafted else None,
        accepted_tokens=int(accepted),
        drafted_tokens=int(drafted),
    )


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


READING = LlamaReading()
