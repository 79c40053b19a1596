"""vLLM's `/server_info` (development mode) and its answers, which carry figures of speculation where it was started
with `--per-request-spec-decode-metrics` (0.28 and later)."""

from collections.abc import Mapping
from typing import Any, cast

from state.engines.vllm.arguments import configured, has_speculation
from state.inspection.degenerate import is_degenerate
from state.inspection.literals import read_bare_pairs
from state.inspection.openai_answer import answer_text, finish_reason, usage_tokens
from state.inspection.report import (
    AcceptLength,
    AnswerReport,
    AnswerSpeculation,
    Memory,
    ServerInfoReport,
    Speculation,
    SpeculationState,
)
from state.inspection.text import without_secrets

_OWN_CHOICE = frozenset({"stop_reason", "token_ids", "prompt_token_ids"})
_OWN_ANSWER = frozenset({"kv_transfer_params", "prompt_logprobs", "prompt_token_ids"})


def read_server_info(data: Mapping[str, Any]) -> ServerInfoReport | None:
    """`{"vllm_config": …}`, an object or its text; None for anything else."""
    config = data.get("vllm_config")
    if config is None:
        return None
    values = read_bare_pairs(config) if isinstance(config, str) else dict(config) if isinstance(config, Mapping) else {}
    shown = cast(Mapping[str, Any], without_secrets(values))
    seen = configured(shown, absent_is_none=False)
    state: SpeculationState | None = "off" if seen.known else None
    if has_speculation(shown):
        state = "configured"
    version = data.get("version", data.get("vllm_version"))
    return ServerInfoReport(
        engine="vllm",
        version=version if isinstance(version, str) else None,
        arguments=shown,
        effective_differs={},
        speculation=Speculation(
            algorithm=seen.algorithm or ("none" if state == "off" else None), num_steps=seen.num_steps, state=state
        ),
        memory=Memory(),
    )


def read_answer(data: Mapping[str, Any]) -> AnswerReport | None:
    """An OpenAI-style answer with fields that only vLLM adds."""
    choices = [choice for choice in data.get("choices") or () if isinstance(choice, Mapping)]
    drafting = _drafting(data)
    own = any(_OWN_CHOICE & choice.keys() for choice in choices) or bool(_OWN_ANSWER & data.keys() or drafting)
    if not choices or not own:
        return None
    text = answer_text(data)
    return AnswerReport(
        engine="vllm",
        completion_tokens=usage_tokens(data),
        finish_reason=finish_reason(data),
        speculation=_speculation(drafting),
        degenerate=is_degenerate(text or ""),
        text_chars=len(text) if text is not None else None,
    )


def _drafting(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """`metrics.speculative_decoding` of an answer; empty where there is none."""
    metrics = data.get("metrics")
    found = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _speculation(drafting: Mapping[str, Any]) -> AnswerSpeculation:
    steps, accepted, drafted = (
        value if isinstance(value := drafting.get(name), int) and not isinstance(value, bool) and value >= 0 else None
        for name in ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
    )
    if not steps or accepted is None:
        return AnswerSpeculation()
    mean = round(1 + accepted / steps, 6)
    return AnswerSpeculation(
        state="active" if accepted else "useless",
        accept_length=AcceptLength(mean, mean, mean, mean),
        accepted_tokens=accepted,
        drafted_tokens=drafted,
        verify_calls=steps,
    )
