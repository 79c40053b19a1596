"""The claims that follow from what is asked of vLLM (V1 engine, 0.9 to 0.30)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from state import service_claims
from state.claims import Claim, Undecidable
from state.engines import engine_claims
from state.engines.versions import release
from state.engines.vllm.causes import VLLM_CAUSES
from state.engines.vllm.flag_names import OBJECTS
from state.engines.vllm.flags import DEFAULTS, WITHOUT_DRAFT, method_of
from state.engines.vllm.speculation_claims import accepted, plain
from state.service_causes import SERVICE_CAUSES, attached
from state.target import Target

HYBRIDS = ("Qwen3_5", "Qwen3Next", "NemotronH", "FalconH1", "Jamba", "GraniteMoeHybrid", "BailingMoeLinear", "Mamba")
"""Architectures with state beside attention, where the default of prefix caching differs between releases."""

TRANSLATED: dict[tuple[str, str], tuple[str, ...]] = {
    ("quantization", "awq"): ("awq_marlin",),
    ("quantization", "gptq"): ("gptq_marlin",),
    ("quantization", "modelopt"): ("modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed"),
    ("kv_cache_dtype", "fp8"): ("fp8_e4m3",),
}
"""What vLLM itself makes of some values, by the checkpoint or the GPU: the same thing under a closer name."""

UNCHECKED = ("host", "port", "api_key", "config", "uvicorn_log_level", "speculative_config")
PER_REQUEST = (0, 28)
"""The release that can tell the acceptance of single requests (`--per-request-spec-decode-metrics`)."""

LOG = "the engine's log: its arguments that are not the default, and its configuration line"
NO_SPECULATION = (
    "the engine runs without the speculation asked for: look for a drop-in or wrapper that drops the flag or breaks "
    "the quotes of its JSON, and for a model that does not support it"
)


def derive(target: Target) -> tuple[Claim, ...]:
    """Claims by plane, in the order in which they are judged."""
    claims = (
        *service_claims.identity(target),
        *_control(target),
        *_data(target),
        *_resource(target),
        *service_claims.function(target),
        *_speculation(target),
    )
    return attached(claims, VLLM_CAUSES, SERVICE_CAUSES)


def undecidable(target: Target) -> tuple[Undecidable, ...]:
    """What a vLLM of this version and configuration gives no evidence of."""
    return (*_silent_arguments(target), *(_silent_speculation(target) if speculation(target) else ()))


def speculation(target: Target) -> Mapping[str, Any] | None:
    """The speculative configuration that is asked for; None where none is."""
    asked = target.arguments.get("speculative_config")
    return asked if isinstance(asked, Mapping) and asked else None


def drafted_by(target: Target) -> str | None:
    """The method in effect; None without speculation, or where the draft model's own configuration tells it."""
    asked = speculation(target)
    return method_of(asked) if asked else None


def tells_requests(target: Target) -> bool:
    """Whether answers carry their own figures of acceptance."""
    return target.arguments.get("per_request_spec_decode_metrics") in ("summary", "detailed")


def shown(name: str, value: object) -> bool:
    """Whether the log can show what an argument is: objects are printed with all of their defaults filled in."""
    return name not in UNCHECKED and name not in OBJECTS and value is not None and value != "auto"


def _silent_arguments(target: Target) -> Iterator[Undecidable]:
    for name, asked in target.arguments.items():
        if name in OBJECTS and name != "speculative_config" and asked is not None:
            yield Undecidable(
                claim=name.replace("_", "-"),
                plane="control",
                why="the log shows this object with all of its defaults filled in, which differ between releases",
            )
    if target.engine_version is None:
        yield engine_claims.version_defaults(
            "name vllm by the path of its environment, so that its own python3 can be asked"
        )


def _silent_speculation(target: Target) -> Iterator[Undecidable]:
    if drafted_by(target) in WITHOUT_DRAFT:
        yield engine_claims.no_draft_loaded(drafted_by(target))
    else:
        why = "vLLM prints the memory of model and draft together, and from one rank only"
        yield Undecidable(claim="draft-even", plane="data", why=why)
    if target.arguments.get("disable_log_stats"):
        yield Undecidable(
            claim="speculation-active",
            plane="speculation",
            why="with disable_log_stats vLLM counts no drafts, neither in its log nor in its metrics",
            instead="leave disable_log_stats out",
        )
    elif not tells_requests(target):
        old = target.engine_version is not None and release(target.engine_version) < PER_REQUEST
        yield Undecidable(
            claim="accepted-per-request",
            plane="speculation",
            why="vLLM tells acceptance by windows and in total, not for single requests",
            instead="" if old else "set engine.arguments.per_request_spec_decode_metrics: summary (0.28 and later)",
        )


def _control(target: Target) -> Iterator[Claim]:
    yield from _configured(target)
    for name, asked in sorted(target.arguments.items()):
        if shown(name, asked) and name != "gpu_memory_utilization":
            yield _argument(name, asked)
    yield from _defaults(target)
    yield from service_claims.environment(target)
    yield engine_claims.adjustments("engine log")


def _configured(target: Target) -> Iterator[Claim]:
    """The speculative configuration, key by key, as the engine has it after resolution."""
    asked = speculation(target) or {}
    claim = partial(Claim, plane="control", source=LOG, remedy=NO_SPECULATION)
    method = method_of(asked)
    if asked and method is None:
        yield claim(
            name="speculative-method",
            statement="speculation is configured, by the method that the draft model tells",
            metric="speculation.configured",
            relation="equals",
            expected=True,
        )
    else:
        alias = f" ({asked['method']} was asked for; an alias)" if asked and asked["method"] != method else ""
        yield claim(
            name="speculative-method",
            statement=f"speculation is by {method}{alias}" if method else "no speculation is configured",
            metric="argument.speculative_method",
            relation="equals",
            expected=method or "none",
        )
    for key, name in (("num_speculative_tokens", "num-speculative-tokens"), ("model", "speculative-model")):
        if asked.get(key) is not None:
            yield claim(
                name=name,
                statement=f"{key} of the speculative configuration is {asked[key]}",
                metric=f"argument.{name.replace('-', '_')}",
                relation="equals",
                expected=asked[key],
            )


def _argument(name: str, asked: object, statement: str = "", plane: str = "control") -> Claim:
    """An argument whose default is not known stays open where the log leaves it out: then it is the default."""
    others = TRANSLATED.get((name, str(asked)), ())
    return Claim.model_validate(
        {
            "name": name.replace("_", "-"),
            "plane": plane,
            "statement": statement or f"{name} is {asked}",
            "metric": f"argument.{name}",
            "relation": "one-of" if others else "equals",
            "expected": [asked, *others] if others else asked,
            "source": LOG,
            "remedy": f"the engine runs with another {name}; see `interlock show` for its own start-up lines",
            "doubt": None if name in DEFAULTS else "accept",
        }
    )


def _defaults(target: Target) -> Iterator[Claim]:
    """What V1 does unless it is told otherwise; a release before 0.11 may fall back to V0 without a word of ours."""
    version = release(target.engine_version) if target.engine_version else ()
    if version and (0, 8) <= version < (0, 11) and target.environment.get("VLLM_USE_V1") != "0":
        yield Claim(
            name="engine-v1",
            plane="control",
            statement="it is the V1 engine that runs",
            metric="engine.v1",
            relation="equals",
            expected=True,
            source="the engine's configuration line",
            remedy="an argument that V1 does not support made vLLM fall back to V0: take it out, or set VLLM_USE_V1=1",
        )
    if version >= (0, 11) and "enable_chunked_prefill" not in target.arguments:
        yield _argument("enable_chunked_prefill", True, "chunked prefill stays on, as is V1's default")
    hybrid = any(name.startswith(HYBRIDS) for name in target.architectures)
    if version >= (0, 11) and target.architectures and not hybrid and "enable_prefix_caching" not in target.arguments:
        yield _argument("enable_prefix_caching", True, "prefix caching stays on, as is V1's default")


def _data(target: Target) -> Iterator[Claim]:
    if not speculation(target):
        return
    if drafted_by(target) not in WITHOUT_DRAFT:
        yield engine_claims.draft_loaded(
            "the draft model is loaded beside the model",
            "engine log",
            "no draft was loaded: check the speculative configuration, and the draft's folder",
        )
    yield engine_claims.not_simulated(
        "acceptance.simulated", LOG, "take `rejection_sample_method: synthetic` out of the speculative configuration"
    )


def _resource(target: Target) -> Iterator[Claim]:
    share = target.arguments.get("gpu_memory_utilization")
    if share is not None:
        yield _argument("gpu_memory_utilization", share, plane="resource")
    yield from service_claims.devices(target)


def _speculation(target: Target) -> Iterator[Claim]:
    asked = speculation(target)
    if asked is None:
        yield from plain()
    elif not target.arguments.get("disable_log_stats"):
        yield from accepted(asked, drafted_by(target), requests=tells_requests(target))
