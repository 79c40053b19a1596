"""The claims that follow from what is asked of SGLang (0.4.6 to 0.5.23; reference/engines.md, sections 0 to 4)."""

from collections.abc import Iterator

from state import service_claims
from state.claims import Claim, Undecidable
from state.engines import engine_claims
from state.engines.sglang import speculation_claims
from state.engines.sglang.causes import SGLANG_CAUSES
from state.engines.versions import release
from state.service_causes import SERVICE_CAUSES, attached
from state.target import Target

ALIASES = {"NEXTN": "EAGLE"}
"""NEXTN is rewritten to EAGLE while arguments are resolved, in every release read; the log never says NEXTN."""

HYBRIDS = ("Qwen3_5", "Qwen3Next", "NemotronH", "FalconH1", "Jamba", "GraniteMoeHybrid", "BailingMoeLinear")
"""Architectures with Mamba or linear attention state, which speculation must keep right."""

WITHOUT_DRAFT = ("NGRAM",)
UNCHECKED = ("host", "port", "api_key", "admin_api_key", "log_level", "config")

INSTALL = "see `interlock show` for the engine's own start-up lines"
NO_SPECULATION = (
    "the engine did not take the flag: look for a later drop-in or wrapper, a release that renamed it, "
    "or a model that does not support it"
)


def derive(target: Target) -> tuple[Claim, ...]:
    """Claims by plane, in the order in which they are judged."""
    claims = (
        *service_claims.identity(target),
        *_control(target),
        *_data(target),
        *_resource(target),
        *service_claims.function(target),
        *(speculation_claims.accepted(target) if speculative(target) else speculation_claims.plain()),
    )
    return attached(claims, SGLANG_CAUSES, SERVICE_CAUSES)


def undecidable(target: Target) -> tuple[Undecidable, ...]:
    """What an SGLang of this version and configuration gives no evidence of."""
    speculation = speculation_claims.undecidable(target) if speculative(target) else ()
    return (*_undecidable(target), *speculation)


def _undecidable(target: Target) -> Iterator[Undecidable]:
    if not target.arguments.get("enable_metrics"):
        yield Undecidable(
            claim="metrics-agree",
            plane="speculation" if speculative(target) else "performance",
            why="without enable_metrics the engine serves no /metrics",
            instead="set engine.arguments.enable_metrics: true",
        )
    if speculative(target) in WITHOUT_DRAFT:
        yield engine_claims.no_draft_loaded(speculative(target))
    if target.engine_version is None:
        yield engine_claims.version_defaults("make the engine's package readable for its own interpreter")


def speculative(target: Target) -> str | None:
    """The effective algorithm that the target should run with, None where it asks for no speculation."""
    asked = target.arguments.get("speculative_algorithm")
    return ALIASES.get(str(asked).upper(), str(asked).upper()) if asked else None


def hybrid(target: Target) -> bool:
    return any(name.startswith(HYBRIDS) for name in target.architectures)


def ranks(target: Target) -> int:
    """Processes that load weights: tensor times pipeline parallel; data parallel copies load their own."""
    sizes = [target.arguments.get(name) or 1 for name in ("tp_size", "pp_size")]
    return int(sizes[0]) * int(sizes[1])


def _control(target: Target) -> Iterator[Claim]:
    yield _algorithm(target)
    for name, asked in target.arguments.items():
        if name in UNCHECKED or name == "mem_fraction_static" or asked is None or name == "speculative_algorithm":
            continue
        yield _argument(name, asked)
    if speculative(target) and overlaps(target) and "disable_overlap_schedule" not in target.arguments:
        yield _argument("disable_overlap_schedule", False, "overlap scheduling stays on beside speculation")
    if speculative(target) and hybrid(target) and not _asks_strategy(target) and _has_strategy(target):
        yield _strategy(target)
    yield from service_claims.environment(target)
    yield engine_claims.adjustments("engine log")


def _argument(name: str, asked: object, statement: str = "", plane: str = "control") -> Claim:
    other = f"the engine runs with another {name}; {INSTALL}"
    remedy = NO_SPECULATION if name.startswith("speculative") else other
    return Claim.model_validate(
        {
            "name": name.replace("_", "-"),
            "plane": plane,
            "statement": statement or f"{name} is {asked}",
            "metric": f"argument.{name}",
            "relation": "equals",
            "expected": asked,
            "source": "/server_info and the engine's arguments line",
            "remedy": remedy,
        }
    )


def _algorithm(target: Target) -> Claim:
    effective = speculative(target)
    asked = target.arguments.get("speculative_algorithm")
    alias = f" ({asked} was asked for; an alias)" if effective and asked and str(asked).upper() != effective else ""
    return Claim(
        name="speculative-algorithm",
        plane="control",
        statement=f"speculative_algorithm is {effective}{alias}" if effective else "no speculation is configured",
        metric="argument.speculative_algorithm",
        relation="equals",
        expected=effective or "none",
        source="/server_info and the engine's arguments line",
        remedy=NO_SPECULATION if effective else "something else asks for speculation: see `systemctl cat`",
    )


def overlaps(target: Target) -> bool:
    """Whether overlap scheduling stays on beside speculation: from 0.5.11 on by default; before, only by
    SGLANG_ENABLE_SPEC_V2=1 (0.5.4 on)."""
    if target.environment.get("SGLANG_ENABLE_SPEC_V2") in ("1", "true", "True"):
        return True
    return target.engine_version is None or release(target.engine_version) >= (0, 5, 11)


def _has_strategy(target: Target) -> bool:
    return target.engine_version is None or release(target.engine_version) >= (0, 5, 8)


def _asks_strategy(target: Target) -> bool:
    return any(name in target.arguments for name in ("mamba_scheduler_strategy", "mamba_radix_cache_strategy"))


def _strategy(target: Target) -> Claim:
    return Claim(
        name="mamba-strategy",
        plane="control",
        statement="the hybrid model's state is kept right under speculation (strategy extra_buffer)",
        metric="argument.mamba_strategy",
        relation="one-of",
        expected=["extra_buffer", "extra_buffer_lazy"],
        source="/server_info and the engine's arguments line",
        remedy="ask for mamba_radix_cache_strategy: extra_buffer (mamba_scheduler_strategy before 0.5.14), "
        "with the radix cache on",
    )


def _data(target: Target) -> Iterator[Claim]:
    if speculative(target) and speculative(target) not in WITHOUT_DRAFT:
        yield Claim(
            name="draft-weights",
            plane="data",
            statement=f"draft weights are loaded on each of {ranks(target)} ranks",
            metric="draft.ranks",
            relation="equals",
            expected=ranks(target),
            source="engine log",
            remedy="the draft was not loaded on every rank: check speculative_draft_model_path and the checkpoint",
        )
        yield Claim(
            name="draft-even",
            plane="data",
            statement="every rank holds the same share of the draft",
            metric="draft.spread",
            relation="at-most",
            expected=0.1,
            source="engine log",
            remedy="one rank loaded less than the others: its shard of the checkpoint may be cut",
        )
    yield engine_claims.not_simulated(
        "environment.simulated",
        "/proc/PID/environ",
        "remove SGLANG_SIMULATE_ACC_LEN from the unit and its environment files",
    )


def _resource(target: Target) -> Iterator[Claim]:
    fraction = target.arguments.get("mem_fraction_static")
    if fraction is not None:
        yield _argument("mem_fraction_static", fraction, plane="resource")
    yield from service_claims.devices(target)
