"""The parts of an OpenAI-style answer, plain or streamed, and of SGLang's native one."""

import json
from collections.abc import Mapping
from typing import Any

from state.redaction import redact


def answer_text(data: Mapping[str, Any]) -> str | None:
    """The generated text, reasoning included; None where the object has none."""
    text = data.get("text")
    if isinstance(text, str):
        return text
    choices = data.get("choices")
    if not isinstance(choices, list):
        return data["content"] if isinstance(data.get("content"), str) else None
    return "".join(_choice_text(choice) for choice in choices if isinstance(choice, Mapping))


def _choice_text(choice: Mapping[str, Any]) -> str:
    if isinstance(choice.get("text"), str):
        return str(choice["text"])
    message = choice.get("message") or choice.get("delta")
    if not isinstance(message, Mapping):
        return ""
    return "".join(
        str(message[k]) for k in ("reasoning_content", "reasoning", "content") if isinstance(message.get(k), str)
    )


def finish_reason(value: Any) -> str | None:
    """`stop` or `length`, whether plain, as `{"type": …}`, or inside a choice."""
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("type"), str):
        return redact(value["type"])
    choices = value.get("choices")
    reasons = [c.get("finish_reason") for c in choices or () if isinstance(c, Mapping)]
    return next((redact(reason) for reason in reversed(reasons) if isinstance(reason, str)), None)


def usage_tokens(data: Mapping[str, Any]) -> int | None:
    usage = data.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None


def from_stream(text: str) -> dict[str, Any] | None:
    """One answer put together from `data: {…}` lines: last figures, whole text."""
    chunks = [chunk for line in text.splitlines() if (chunk := _chunk(line)) is not None]
    if not chunks:
        return None
    answer: dict[str, Any] = {}
    for chunk in chunks:
        answer.update({k: v for k, v in chunk.items() if v is not None and k != "choices"})
    if any("choices" in chunk for chunk in chunks):
        answer["choices"] = [_joined(chunks)]
    return answer


def _joined(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    choices = [c for chunk in chunks for c in chunk.get("choices") or () if isinstance(c, dict)]
    joined: dict[str, Any] = {}
    for choice in choices:
        joined.update({k: v for k, v in choice.items() if v is not None and k not in ("delta", "text")})
    joined["text"] = "".join(_choice_text(choice) for choice in choices)
    return joined


def _chunk(line: str) -> dict[str, Any] | None:
    if not line.startswith("data:") or line[5:].strip() in ("", "[DONE]"):
        return None
    try:
        value = json.loads(line[5:])
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
