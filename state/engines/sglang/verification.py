"""SGLang as the `Engine` port sees it: its endpoints, what they answer, and what must be asked of the installation."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from state.claims import Claim, Fact
from state.engines.engine import HttpQuestion, Reply
from state.engines.sglang import claims, evidence_facts
from state.evidence import Evidence
from state.target import Target


class Sglang:
    """Endpoints as of 0.4.6 to 0.5.23; those that were renamed are asked under both names."""

    kind = "sglang"
    environment_prefixes = ("SGLANG_", "SGL_", "NCCL_", "CUDA_")

    def derive(self, target: Target) -> tuple[Claim, ...]:
        return claims.derive(target)

    def facts(self, target: Target, evidence: Evidence) -> tuple[Fact, ...]:
        return evidence_facts.read_facts(target, evidence)

    def probes(self) -> Mapping[str, HttpQuestion]:
        """`/server_info` is 0.5.6 and later, `/get_server_info` before; the first that answers counts."""
        return {
            "server-info": HttpQuestion("GET", "/server_info"),
            "server-info-before-0.5.6": HttpQuestion("GET", "/get_server_info"),
            "models": HttpQuestion("GET", "/v1/models"),
            "metrics": HttpQuestion("GET", "/metrics"),
        }

    def generation(self, prompt: str, tokens: int, *, exact: bool) -> HttpQuestion:
        sampling = {"temperature": 0, "max_new_tokens": tokens, **({"ignore_eos": True} if exact else {})}
        return HttpQuestion("POST", "/generate", {"text": prompt, "sampling_params": sampling})

    def chat(self, model: str, prompt: str, tokens: int, *, stream: bool) -> HttpQuestion:
        message = {"role": "user", "content": prompt}
        body = {"model": model, "messages": [message], "temperature": 0, "max_tokens": tokens, "stream": stream}
        return HttpQuestion("POST", "/v1/chat/completions", body)

    def reply(self, body: bytes) -> Reply | None:
        text = body.decode("utf-8", "replace")
        if text.lstrip().startswith("data:"):
            return _streamed(text)
        try:
            answer = json.loads(text)
        except ValueError:
            return None
        return _whole(answer) if isinstance(answer, dict) else None

    def version_argv(self, command: tuple[str, ...]) -> tuple[str, ...] | None:
        if len(command) >= 3 and command[1] == "-m":
            return (command[0], "-c", "import importlib.metadata as m; print(m.version('sglang'))")
        return None

    def help_argv(self, command: tuple[str, ...]) -> tuple[str, ...]:
        return (*command, "--help")


def _whole(answer: Mapping[str, Any]) -> Reply | None:
    """`/generate` (`text`, `meta_info`) and the OpenAI chat form."""
    meta = answer.get("meta_info")
    if isinstance(answer.get("text"), str) and isinstance(meta, dict):
        reason = meta.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, dict) else reason
        return Reply(answer["text"], meta.get("completion_tokens"), kind)
    choice = (answer.get("choices") or [None])[0]
    if isinstance(choice, dict):
        message = choice.get("message") or {}
        usage = answer.get("usage") or {}
        return Reply(
            message.get("content") or choice.get("text") or "",
            usage.get("completion_tokens"),
            choice.get("finish_reason"),
        )
    return None


def _streamed(text: str) -> Reply | None:
    """Server-sent chunks of the OpenAI form; None unless the stream came to its end (`data: [DONE]`)."""
    pieces, finish = [], None
    if "data: [DONE]" not in text:
        return None
    for chunk in _chunks(text):
        choice = (chunk.get("choices") or [{}])[0]
        pieces.append((choice.get("delta") or {}).get("content") or "")
        finish = choice.get("finish_reason") or finish
    return Reply("".join(pieces), None, finish)


def _chunks(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("data: {"):
            try:
                chunk = json.loads(line[6:])
            except ValueError:
                continue
            yield chunk


ENGINE = Sglang()
