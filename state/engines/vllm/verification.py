"""vLLM as the `Engine` port sees it: its endpoints, what they answer, and what must be asked of the installation."""

from collections.abc import Mapping
from typing import Any

from state.checkpoint import Loading
from state.claims import Claim, Fact, Undecidable
from state.engines import openai_chat
from state.engines.engine import Drafting, HttpQuestion
from state.engines.versions import interpreter_of, package_version_argv
from state.engines.vllm import claims, evidence_facts
from state.engines.vllm.speculation_facts import drafting
from state.evidence import Evidence
from state.target import Target

RECORD_INTERVAL_S = 10.0
"""Seconds between records of statistics, unless VLLM_LOG_STATS_INTERVAL says otherwise."""


class Vllm(openai_chat.Server):
    """Endpoints of the OpenAI-compatible server, 0.9 to 0.30. `/server_info` is served in development mode alone."""

    kind = "vllm"

    def derive(self, target: Target) -> tuple[Claim, ...]:
        return claims.derive(target)

    def undecidable(self, target: Target) -> tuple[Undecidable, ...]:
        return claims.undecidable(target)

    def facts(self, target: Target, evidence: Evidence) -> tuple[Fact, ...]:
        return evidence_facts.read_facts(target, evidence)

    def model_name(self, target: Target) -> str:
        return evidence_facts.served_name(target)

    def record_interval_s(self, target: Target) -> float:
        """The windows are of time; without speculation no claim rests on them."""
        if claims.speculation(target) is None or target.arguments.get("disable_log_stats"):
            return 0.0
        try:
            return float(target.environment.get("VLLM_LOG_STATS_INTERVAL", RECORD_INTERVAL_S))
        except ValueError:
            return RECORD_INTERVAL_S

    def counters(self, metrics: str) -> Drafting | None:
        return drafting(metrics)

    def probes(self) -> Mapping[str, HttpQuestion]:
        return {
            "server-info": HttpQuestion("GET", "/server_info"),
            "version": HttpQuestion("GET", "/version"),
            "models": HttpQuestion("GET", "/v1/models"),
            "metrics": HttpQuestion("GET", "/metrics"),
        }

    def generation(self, prompt: str, tokens: int, *, exact: bool) -> HttpQuestion:
        """A completion; the model's name may be left out since 0.8."""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, **({"ignore_eos": True} if exact else {})}
        return HttpQuestion("POST", "/v1/completions", body)

    def loading(self, arguments: Mapping[str, Any]) -> Loading:
        """0.9 of each GPU unless asked otherwise (`gpu_memory_utilization`, 0.6 to 0.13)."""
        config = arguments.get("speculative_config")
        config = config if isinstance(config, Mapping) else {}
        model, draft = str(arguments.get("model") or ""), str(config.get("model") or "")
        sizes = [int(arguments.get(name) or 1) for name in ("tensor_parallel_size", "pipeline_parallel_size")]
        mtp = (draft or model) if str(config.get("method") or "").endswith("mtp") else ""
        return Loading(model, draft, mtp, sizes[0] * sizes[1], float(arguments.get("gpu_memory_utilization") or 0.9))

    def version_argv(self, command: tuple[str, ...]) -> tuple[str, ...] | None:
        """`vllm --version` imports torch first; the package's metadata are at hand in a tenth of a second."""
        folder, _, name = command[0].rpartition("/")
        beside = f"{folder}/python3" if name == "vllm" and folder else None
        return package_version_argv("vllm", interpreter_of(command) or beside)

    def read_version(self, stdout: str, stderr: str) -> str | None:
        return stdout.strip() or None

    def help_argvs(self, command: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Recent releases show groups alone unless all is asked for; older ones know no such value."""
        return ((*command, "--help=all"), (*command, "--help"))


ENGINE = Vllm()
