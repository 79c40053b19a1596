"""What the evidence of a verification says about vLLM: arguments, draft, adjustments. V1's log and `/server_info`."""

from collections.abc import Iterator, Mapping
from typing import Any

from state.claims import Fact
from state.engines.effective import effective
from state.engines.vllm.claims import drafted_by, shown, speculation
from state.engines.vllm.flags import DEFAULTS, WITHOUT_DRAFT, method_of
from state.engines.vllm.rendering import RENDERING
from state.engines.vllm.server_info import read_server_info
from state.engines.vllm.speculation_facts import speculation_facts
from state.engines.vllm.startup import Startup, read_startup
from state.evidence import JOURNAL, Evidence
from state.request_facts import request_facts
from state.target import Target

SERVER_INFO = "server-info"

HARMLESS = frozenset({"attention-backend", "chunked-prefill", "deprecated-flag", "overlap-off", "radix-cache-off"})
"""Changes that the engine makes by itself and that only tune, or that the configuration line shows and a claim of their
own judges; the others change what was asked for."""

CONFIGURED = {
    "max_model_len": ("max_seq_len",),
    "tensor_parallel_size": ("tensor_parallel_size",),
    "pipeline_parallel_size": ("pipeline_parallel_size",),
    "data_parallel_size": ("data_parallel_size",),
    "enforce_eager": ("enforce_eager",),
    "kv_cache_dtype": ("kv_cache_dtype",),
    "quantization": ("quantization",),
    "trust_remote_code": ("trust_remote_code",),
    "load_format": ("load_format",),
    "enable_prefix_caching": ("enable_prefix_caching",),
    "enable_chunked_prefill": ("enable_chunked_prefill", "chunked_prefill_enabled"),
}
"""Arguments that the configuration line shows as they are in effect, with their names there (0.9 to 0.29)."""

CONFIG_LINE, ARGUMENTS, INFO = "the configuration line", "the log's arguments", "/server_info"


def read_facts(target: Target, evidence: Evidence) -> tuple[Fact, ...]:
    startup = read_startup(evidence.messages)
    return (
        *_arguments(target, evidence, startup),
        *_speculative(target, evidence, startup),
        *_adjustments(evidence),
        *_draft(target, evidence, startup),
        *request_facts(evidence, served_name(target)),
        *speculation_facts(evidence, startup),
    )


def served_name(target: Target) -> str:
    """The first name under which the model is served."""
    names = target.arguments.get("served_model_name")
    first = names[0] if isinstance(names, list | tuple) and names else names
    return str(first or target.arguments.get("model") or "default")


def _arguments(target: Target, evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    cite, configs = evidence.cite(SERVER_INFO, JOURNAL), _configs(evidence, startup)
    wanted = [name for name, asked in target.arguments.items() if shown(name, asked)]
    for name in dict.fromkeys([*wanted, "enable_chunked_prefill", "enable_prefix_caching"]):
        yield effective(f"argument.{name}", name, _sources(name, startup, configs), cite)
    line = "" if startup.v1 is None else f"the configuration line names {'V1' if startup.v1 else 'another engine'}"
    yield Fact(metric="engine.v1", value=startup.v1, text=line, evidence=evidence.cite(JOURNAL))


def _configs(evidence: Evidence, startup: Startup) -> dict[str, Mapping[str, Any]]:
    found = {} if startup.config is None else {CONFIG_LINE: startup.config}
    info = evidence.json(SERVER_INFO)
    report = read_server_info(info) if isinstance(info, dict) else None
    return found | ({INFO: report.arguments} if report else {})


def _sources(name: str, startup: Startup, configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Where the argument is shown as it is in effect; else what the engine says that it was asked for."""
    found: dict[str, Mapping[str, Any]] = {
        place: {name: values[known]}
        for place, values in configs.items()
        for known in CONFIGURED.get(name, ())
        if known in values
    }
    return found or ({ARGUMENTS: told} if (told := _asked(name, startup)) else {})


def _asked(name: str, startup: Startup) -> dict[str, Any]:
    """From the arguments that are not the default; one that is left out there has its default, if that is known."""
    if startup.asked is None:
        return {}
    if name in startup.asked:
        return dict(RENDERING.canonical_arguments({name: startup.asked[name]}) or {name: startup.asked[name]})
    return {name: DEFAULTS[name]} if name in DEFAULTS else {}


def _speculative(target: Target, evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    """The speculative configuration in effect: of the configuration line, else as it was asked for."""
    cite = evidence.cite(SERVER_INFO, JOURNAL)
    known, config, place = _speculative_config(evidence, startup)
    if not known:
        text = "neither /server_info nor the log shows the speculative configuration"
        for metric in ("speculation.configured", "argument.speculative_method", "acceptance.simulated"):
            yield Fact(metric=metric, text=text, sample=0, evidence=cite)
        return
    yield Fact(metric="speculation.configured", value=bool(config), text=f"{dict(config)} ({place})", evidence=cite)
    method = method_of(config) or "none"
    yield Fact(metric="argument.speculative_method", value=method, text=f"{method} ({place})", evidence=cite)
    tokens = config.get("num_spec_tokens", config.get("num_speculative_tokens", "none"))
    yield Fact(metric="argument.num_speculative_tokens", value=tokens, text=f"{tokens} ({place})", evidence=cite)
    model = config.get("model", "none")
    yield Fact(metric="argument.speculative_model", value=model, text=f"{model} ({place})", evidence=cite)
    yield from _simulated(startup, cite)


def _speculative_config(evidence: Evidence, startup: Startup) -> tuple[bool, Mapping[str, Any], str]:
    for place, values in _configs(evidence, startup).items():
        if "speculative_config" in values:
            return True, _object(values["speculative_config"]), place
    if startup.asked is not None:
        return True, _object(startup.asked.get("speculative_config")), ARGUMENTS
    return False, {}, ""


def _object(value: Any) -> Mapping[str, Any]:
    told = RENDERING.canonical_arguments({"speculative_config": value}).get("speculative_config")
    return told if isinstance(told, Mapping) else {}


def _simulated(startup: Startup, cite: tuple[str, ...]) -> Iterator[Fact]:
    """How drafts are judged stands among the arguments alone, not in the configuration line."""
    if startup.asked is None:
        yield Fact(metric="acceptance.simulated", text="the log does not show its arguments", sample=0, evidence=cite)
        return
    how = _object(startup.asked.get("speculative_config")).get("rejection_sample_method", "standard")
    text = f"drafts are accepted by the method {how}"
    yield Fact(metric="acceptance.simulated", value=how == "synthetic", text=text, evidence=cite)


def _adjustments(evidence: Evidence) -> Iterator[Fact]:
    boot = evidence.boot
    if boot is None or boot.arguments is None:
        yield Fact(metric="adjustments.unexpected", text="the log of this start does not show its arguments", sample=0)
        return
    odd = [a for a in boot.adjustments if a.code not in HARMLESS]
    allowed = ", ".join(sorted({a.code for a in boot.adjustments}))
    text = "; ".join(a.text for a in odd) or (f"only allowed ones: {allowed}" if allowed else "none")
    value, cite = [a.code for a in odd], evidence.cite(JOURNAL)
    sample = max(1, len(boot.adjustments))
    yield Fact(metric="adjustments.unexpected", value=value, sample=sample, text=text, evidence=cite)


def _draft(target: Target, evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    """A log that does not even show the model's own load says nothing of the draft's."""
    boot = evidence.boot
    if not speculation(target) or drafted_by(target) in WITHOUT_DRAFT or boot is None or boot.stage is None:
        return
    if boot.stage == "arguments" and not startup.drafter:
        return
    text = "the drafter's load is in the log" if startup.drafter else "no drafter is loaded in the log"
    yield Fact(metric="draft.loaded", value=startup.drafter, text=text, evidence=evidence.cite(JOURNAL))
