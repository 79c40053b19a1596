"""SGLang's finished answers: `/generate`'s `meta_info`, and the OpenAI forms with `return_meta_info`.

Names by version: counts are `spec_accept_token_num` (0.5.5), `spec_accepted_drafts` (0.5.11), `spec_num_correct_drafts`
(0.5.12 and later); `spec_verify_ct` is stable. The first token comes from prefill, so nothing accepted means
verify calls = tokens - 1.
"""

from collections.abc import Mapping
from typing import Any

from state.inspection.degenerate import is_degenerate
from state.inspection.openai_answer import answer_text, finish_reason, usage_tokens
from state.inspection.report import AcceptLength, AnswerReport, AnswerSpeculation, SpeculationState

_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num", "accepted_tokens")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num", "proposed_tokens")
ENOUGH_TOKENS = 16
"""Tokens from which on an answer without an accepted draft shows that speculation is useless."""


def read_answer(data: Mapping[str, Any]) -> AnswerReport | None:
    """None where the object is no answer of SGLang. A batch is given as `{"answers": [...]}`."""
    parts = [part for part in data.get("answers", [data]) if isinstance(part, Mapping)]
    infos = [info for part in parts for info in _infos(part)]
    if not infos and not any(_own_choice(part) for part in parts):
        return None
    text = "".join(answer_text(part) or "" for part in parts)
    tokens = _sum(infos, "completion_tokens")
    tokens = tokens if tokens is not None else usage_tokens(data)
    reasons = [info.get("finish_reason") for info in infos]
    return AnswerReport(
        engine="sglang",
        completion_tokens=tokens,
        finish_reason=finish_reason(reasons[-1]) if reasons and reasons[-1] else finish_reason(data),
        speculation=_speculation(infos, tokens),
        degenerate=is_degenerate(text),
        text_chars=len(text) if any(answer_text(part) is not None for part in parts) else None,
    )


def _infos(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if isinstance(part.get("meta_info"), Mapping):
        return [part["meta_info"]]
    choices = part.get("choices")
    found = [
        c["meta_info"] for c in choices or () if isinstance(c, Mapping) and isinstance(c.get("meta_info"), Mapping)
    ]
    extension = part.get("sglext")
    details = extension.get("spec_tokens_details") if isinstance(extension, Mapping) else None
    return found or ([details] if isinstance(details, Mapping) else [])


def _own_choice(part: Mapping[str, Any]) -> bool:
    return any(isinstance(c, Mapping) and "matched_stop" in c for c in part.get("choices") or ())


def _speculation(infos: list[Mapping[str, Any]], tokens: int | None) -> AnswerSpeculation:
    verify = _sum(infos, "spec_verify_ct")
    accepted, drafted = _first(infos, _ACCEPTED), _first(infos, _DRAFTED)
    if verify is None and drafted is None:
        return AnswerSpeculation()
    steps = tokens - max(len(infos), 1) if tokens is not None else None
    mean = steps / verify if steps is not None and steps > 0 and verify else None
    return AnswerSpeculation(
        state=_state(verify, steps, tokens, accepted),
        accept_length=AcceptLength(round(mean, 6)) if mean is not None else None,
        accepted_tokens=accepted,
        drafted_tokens=drafted,
        verify_calls=verify,
    )


def _state(verify: int | None, steps: int | None, tokens: int | None, accepted: int | None) -> SpeculationState | None:
    if not verify:
        return "active" if accepted else "configured"
    if steps is not None and verify < steps:
        return "active"
    if accepted:
        return "active"
    return "useless" if tokens is not None and tokens >= ENOUGH_TOKENS else None


def _sum(infos: list[Mapping[str, Any]], name: str) -> int | None:
    values = [value for info in infos if isinstance(value := info.get(name), int) and not isinstance(value, bool)]
    return sum(values) if values else None


def _first(infos: list[Mapping[str, Any]], names: tuple[str, ...]) -> int | None:
    return next((total for name in names if (total := _sum(infos, name)) is not None), None)
