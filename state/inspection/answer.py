"""Reading a finished answer: native or OpenAI-style, whichever engine gave it."""

from collections.abc import Mapping
from typing import Any

from state.inspection.degenerate import is_degenerate
from state.inspection.engines import readings
from state.inspection.openai_answer import answer_text, finish_reason, usage_tokens
from state.inspection.report import AnswerReport, AnswerSpeculation


def read_answer(data: Mapping[str, Any], engine: str = "auto") -> AnswerReport:
    """The report; its engine is None where nothing in the answer tells whose it is."""
    for reading in readings(engine):
        report = reading.read_answer(data)
        if report is not None:
            return report
    text = answer_text(data)
    return AnswerReport(
        engine=None,
        completion_tokens=usage_tokens(data),
        finish_reason=finish_reason(data),
        speculation=AnswerSpeculation(),
        degenerate=is_degenerate(text) if text is not None else None,
        text_chars=len(text) if text is not None else None,
    )


def is_answer(data: Mapping[str, Any]) -> bool:
    """Whether the object is an answer at all."""
    if isinstance(data.get("meta_info"), Mapping) or isinstance(data.get("timings"), Mapping):
        return True
    choices = data.get("choices")
    return isinstance(choices, list) and any(
        isinstance(c, Mapping) and c.keys() & {"message", "text", "delta"} for c in choices
    )
