"""SGLang as the `Engine` port sees it: its endpoints, what they answer, and what must be asked of the installation."""

import json
from collections.abc import Mapping
from typing import Any

from state.checkpoint import Loading
from state.claims import Claim, Fact, Undecidable
from state.engines import openai_chat
from state.engines.engine import Drafting, HttpQuestion, Reply
from state.engines.sglang import claims, evidence_facts
from state.engines.versions import interpreter_of, package_version_argv
from state.evidence import Evidence
from state.target import Target


class Sglang(openai_chat.Server):
    """Endpoints as of 0.4.6 to 0.5.23; those that were renamed are asked under both names."""

    kind = "sglang"

    def derive(self, target: Target) -> tuple[Claim, ...]:
        return claims.derive(target)

    def undecidable(self, target: Target) -> tuple[Undecidable, ...]:
        return claims.undecidable(target)

    def facts(self, target: Target, evidence: Evidence) -> tuple[Fact, ...]:
        return evidence_facts.read_facts(target, evidence)

    def model_name(self, target: Target) -> str:
        return str(target.arguments.get("served_model_name") or target.arguments.get("model_path") or "default")

    def record_interval_s(self, target: Target) -> float:
        """Decode records come with every so many forwards (`decode_log_interval`)."""
        return 0.0

    def counters(self, metrics: str) -> Drafting | None:
        """`meta_info` tells acceptance of each request."""
        return None

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

    def reply(self, body: bytes) -> Reply | None:
        return _native(body) or openai_chat.reply(body)

    def loading(self, arguments: Mapping[str, Any]) -> Loading:
        """NEXTN is the model's own MTP layers, from a folder of their own where one is named."""
        model, draft = (str(arguments.get(n) or "") for n in ("model_path", "speculative_draft_model_path"))
        ranks = int(arguments.get("tp_size") or 1) * int(arguments.get("pp_size") or 1)
        nextn = str(arguments.get("speculative_algorithm") or "").upper() == "NEXTN"
        fraction = arguments.get("mem_fraction_static")
        mtp, nodes = (draft or model) if nextn else "", int(arguments.get("nnodes") or 1)
        return Loading(model, draft, mtp, ranks, float(fraction) if fraction else None, nodes)

    def version_argv(self, command: tuple[str, ...]) -> tuple[str, ...] | None:
        return package_version_argv("sglang", interpreter_of(command))

    def read_version(self, stdout: str, stderr: str) -> str | None:
        return stdout.strip() or None

    def help_argvs(self, command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        return ((*command, "--help"),)


def _native(body: bytes) -> Reply | None:
    """What `/generate` answers: `text` and `meta_info`."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    if not isinstance(meta, dict) or not isinstance(answer.get("text"), str):
        return None
    reason = meta.get("finish_reason")
    kind = reason.get("type") if isinstance(reason, dict) else reason
    return Reply(answer["text"], meta.get("completion_tokens"), kind)


ENGINE = Sglang()
