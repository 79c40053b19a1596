"""The OpenAI chat API as SGLang, vLLM and llama.cpp all serve it: requests, whole answers, and streams of chunks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from state.engines.engine import HttpQuestion, Reply

PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of a stream: new text (reasoning counts as text), pieces of tool calls (index, name, arguments), the
    finish reason, the completion tokens where the usage is told, and whether the stream says that it is done."""

    text: str = ""
    calls: tuple[tuple[int, str, str], ...] = ()
    finish_reason: str | None = None
    tokens: int | None = None
    done: bool = False

    @property
    def says_something(self) -> bool:
        return bool(self.text or self.calls)


def chat(model: str, prompt: str, tokens: int, *, stream: bool, extra: Mapping[str, Any] | None = None) -> HttpQuestion:
    """A chat request at temperature 0; `extra` is added to its body."""
    message = {"role": "user", "content": prompt}
    body = {"model": model, "messages": [message], "temperature": 0, "max_tokens": tokens, "stream": stream}
    return HttpQuestion("POST", PATH, {**body, **(extra or {})})


def load(model: str, prompt: str, tokens: int) -> HttpQuestion:
    """A streamed request for exactly `tokens` tokens that ends with its usage (`ignore_eos` is an extension that all
    three engines take)."""
    return chat(
        model, prompt, tokens, stream=True, extra={"ignore_eos": True, "stream_options": {"include_usage": True}}
    )


def reply(body: bytes) -> Reply | None:
    """A whole or a streamed answer; None for anything else, and for a stream that broke off."""
    text = body.decode("utf-8", "replace")
    if text.lstrip().startswith("data:"):
        return _streamed(text)
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return whole(answer) if isinstance(answer, dict) else None


def whole(answer: Mapping[str, Any]) -> Reply | None:
    """The first choice of a chat or completion answer; None without one."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return None
    message, usage = choice.get("message") or {}, answer.get("usage") or {}
    text = message.get("content") or choice.get("text") or ""
    return Reply(text, usage.get("completion_tokens"), choice.get("finish_reason"), _calls(message))


class Server:
    """The part of the `Engine` port that is the same for all engines with this endpoint."""

    def chat(
        self, model: str, prompt: str, tokens: int, *, stream: bool, extra: Mapping[str, Any] | None = None
    ) -> HttpQuestion:
        return chat(model, prompt, tokens, stream=stream, extra=extra)

    def load(self, model: str, prompt: str, tokens: int) -> HttpQuestion:
        return load(model, prompt, tokens)

    def reply(self, body: bytes) -> Reply | None:
        return reply(body)


def chunk(line: str) -> Chunk | None:
    """One line of a stream of server-sent events; None for a line that is no data, or whose JSON is broken."""
    if not line.startswith("data:"):
        return None
    data = line[5:].strip()
    if data == "[DONE]":
        return Chunk(done=True)
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return _chunk(found) if isinstance(found, dict) else None


def _chunk(found: Mapping[str, Any]) -> Chunk:
    usage, choices = found.get("usage"), found.get("choices")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    delta = choice.get("delta") or {}
    pieces = [delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning"), choice.get("text")]
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    return Chunk(text, _call_pieces(delta), choice.get("finish_reason"), tokens)


def _call_pieces(delta: Mapping[str, Any]) -> tuple[tuple[int, str, str], ...]:
    calls = [call for call in delta.get("tool_calls") or () if isinstance(call, dict)]
    functions = [(call.get("index") or 0, call.get("function") or {}) for call in calls]
    return tuple((index, f.get("name") or "", f.get("arguments") or "") for index, f in functions)


def _streamed(text: str) -> Reply | None:
    chunks = list(_chunks(text))
    if not any(c.done for c in chunks):
        return None
    finish = next((c.finish_reason for c in reversed(chunks) if c.finish_reason), None)
    tokens = next((c.tokens for c in reversed(chunks) if c.tokens is not None), None)
    return Reply("".join(c.text for c in chunks), tokens, finish, _joined(chunks))


def _joined(chunks: Sequence[Chunk]) -> tuple[tuple[str, str], ...]:
    """The calls of a stream: pieces with the same index are one call's."""
    calls: dict[int, tuple[str, str]] = {}
    for index, name, arguments in (piece for c in chunks for piece in c.calls):
        before = calls.get(index, ("", ""))
        calls[index] = (before[0] or name, before[1] + arguments)
    return tuple(calls.values())


def _chunks(text: str) -> Iterator[Chunk]:
    return (found for line in text.splitlines() if (found := chunk(line)) is not None)


def _calls(message: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    calls = message.get("tool_calls")
    functions = [c.get("function") or {} for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
    return tuple((str(f.get("name", "")), str(f.get("arguments", ""))) for f in functions)
