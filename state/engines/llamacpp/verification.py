"""llama-server as the `Engine` port sees it: its endpoints, what they answer, and what the installation is asked."""

import json
import re
from collections.abc import Mapping
from typing import Any

from state.checkpoint import Loading
from state.claims import Claim, Fact, Undecidable
from state.engines import openai_chat
from state.engines.engine import Drafting, HttpQuestion, Reply
from state.engines.llamacpp import claims, evidence_facts
from state.engines.llamacpp.rendering import PROGRAM
from state.evidence import Evidence
from state.target import Target

_VERSION = re.compile(r"^version: (?:(?P<old>\d+) \(|[^(\n]*\(build (?P<new>\d+)\b)", re.MULTILINE)


class LlamaCpp(openai_chat.Server):
    """Builds 5000 to 11000. `/slots` is not asked: before build 5900 it shows the prompts of others."""

    kind = "llamacpp"

    def derive(self, target: Target) -> tuple[Claim, ...]:
        return claims.derive(target)

    def undecidable(self, target: Target) -> tuple[Undecidable, ...]:
        return claims.undecidable(target)

    def facts(self, target: Target, evidence: Evidence) -> tuple[Fact, ...]:
        return evidence_facts.read_facts(target, evidence)

    def model_name(self, target: Target) -> str:
        return evidence_facts.served_name(target)

    def record_interval_s(self, target: Target) -> float:
        """Each request has its own record."""
        return 0.0

    def counters(self, metrics: str) -> Drafting | None:
        """Answers tell their own figures."""
        return None

    def probes(self) -> Mapping[str, HttpQuestion]:
        return {
            "props": HttpQuestion("GET", "/props"),
            "models": HttpQuestion("GET", "/v1/models"),
            "metrics": HttpQuestion("GET", "/metrics"),
        }

    def generation(self, prompt: str, tokens: int, *, exact: bool) -> HttpQuestion:
        """The engine's own completion; a cached prompt would change nothing but the first token's time."""
        body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, **({"ignore_eos": True} if exact else {})}
        return HttpQuestion("POST", "/completion", body)

    def reply(self, body: bytes) -> Reply | None:
        return openai_chat.reply(body) or _completion(body)

    def loading(self, arguments: Mapping[str, Any]) -> Loading:
        """A GGUF file has no index beside it: nothing is said of its size, and layers may stay on the CPU."""
        return Loading(str(arguments.get("model") or ""), str(arguments.get("model_draft") or ""))

    def version_argv(self, command: tuple[str, ...]) -> tuple[str, ...] | None:
        """A wrapper would start what it wraps."""
        return (command[0], "--version") if command[0].rpartition("/")[2] == PROGRAM else None

    def read_version(self, stdout: str, stderr: str) -> str | None:
        """The build, as /props names it: `b9849` of `version: 9849 (799fcc04a)`, on stderr until early 2026, and of
        `version: 0.5.0-dev (build 11222, commit a97cce86a)`."""
        found = _VERSION.search(stdout) or _VERSION.search(stderr)
        return f"b{found['old'] or found['new']}" if found else None

    def help_argvs(self, command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        return ((*command, "--help"),)


def _completion(body: bytes) -> Reply | None:
    """An answer of `/completion`: `stop_type` is limit, eos or word."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("content"), str):
        return None
    tokens, ended = answer.get("tokens_predicted"), answer.get("stop_type")
    finish = {"limit": "length", "eos": "stop", "word": "stop"}.get(str(ended))
    return Reply(answer["content"], tokens if type(tokens) is int else None, finish)


ENGINE = LlamaCpp()
