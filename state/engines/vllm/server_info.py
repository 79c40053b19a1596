"""vLLM's `/server_info` (development mode) and its answers, which carry no speculation figures."""

from collections.abc import Mapping
from typing import Any, cast

from state.engines.vllm.arguments import configured, has_speculation
from state.inspection.degenerate import is_degenerate
from state.inspection.literals import read_bare_pairs
from state.inspection.openai_answer import answer_text, finish_reason, usage_tokens
from state.inspection.report import (
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
    own = any(_OWN_CHOICE & choice.keys() for choice in choices) or bool(_OWN_ANSWER & data.keys())
    if not choices or not own:
        return None
    text = answer_text(data)
    return AnswerReport(
        engine="vllm",
        completion_tokens=usage_tokens(data),
        finish_reason=finish_reason(data),
        speculation=AnswerSpeculation(),
        degenerate=is_degenerate(text or ""),
        text_chars=len(text) if text is not None else None,
    )
