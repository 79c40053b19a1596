"""What the evidence of a verification says about SGLang: arguments, draft weights, answers, acceptance."""

from collections.abc import Iterator, Mapping
from typing import Any

from state.claims import Fact
from state.engines.effective import effective
from state.engines.sglang.claims import WITHOUT_DRAFT, overlaps, speculative
from state.engines.sglang.speculation_facts import speculation_facts
from state.evidence import JOURNAL, Evidence
from state.request_facts import request_facts
from state.target import Target

SERVER_INFO, ENVIRON = "server-info", "environ"

HARMLESS = frozenset(
    {
        "algorithm-alias",
        "chunked-prefill",
        "deprecated-flag",
        "draft-tokens",
        "max-running-requests",
        "mixed-chunk-off",
        "overlap-on",
        "scheduler-strategy",
        "topk",
    }
)
"""Changes that the engine makes by itself and that only tune; the others change what was asked for."""

STRATEGY = ("mamba_radix_cache_strategy", "mamba_scheduler_strategy")


def read_facts(target: Target, evidence: Evidence) -> tuple[Fact, ...]:
    return (
        *_arguments(target, evidence),
        *_adjustments(target, evidence),
        *_draft(target, evidence),
        *_environment(evidence),
        *request_facts(evidence, str(target.arguments.get("served_model_name") or target.arguments.get("model_path"))),
        *speculation_facts(evidence),
    )


def _arguments(target: Target, evidence: Evidence) -> Iterator[Fact]:
    sources, cite = _argument_sources(evidence), evidence.cite(SERVER_INFO, JOURNAL)
    names = [n for n in target.arguments if n not in ("speculative_algorithm", *STRATEGY)]
    for name in dict.fromkeys([*names, "disable_overlap_schedule"]):
        yield effective(f"argument.{name}", name, sources, cite)
    yield effective("argument.speculative_algorithm", "speculative_algorithm", sources, cite)
    strategy = next((n for n in STRATEGY if any(n in seen for seen in sources.values())), STRATEGY[0])
    for metric in dict.fromkeys(
        ["argument.mamba_strategy", *(f"argument.{n}" for n in STRATEGY if n in target.arguments)]
    ):
        yield effective(metric, strategy, sources, cite)


def _argument_sources(evidence: Evidence) -> dict[str, Mapping[str, Any]]:
    info, boot = evidence.json(SERVER_INFO), evidence.boot
    sources: dict[str, Mapping[str, Any]] = {}
    if isinstance(info, dict):
        sources["/server_info"] = info
    if boot and boot.arguments is not None:
        sources["log"] = boot.arguments
    return sources


def _adjustments(target: Target, evidence: Evidence) -> Iterator[Fact]:
    boot = evidence.boot
    if boot is None or boot.arguments is None:
        yield Fact(metric="adjustments.unexpected", text="the log of this start does not show its arguments", sample=0)
        return
    off = bool(target.arguments.get("disable_overlap_schedule")) or (not speculative(target) and not overlaps(target))
    wanted = {"overlap-off"} if off else set()  # without speculation a hybrid model's own default before 0.5.11
    odd = [a for a in boot.adjustments if a.code not in HARMLESS | wanted]
    text = "; ".join(a.text for a in odd) or (
        "only allowed ones: " + ", ".join(sorted({a.code for a in boot.adjustments})) if boot.adjustments else "none"
    )
    yield Fact(
        metric="adjustments.unexpected", value=[a.code for a in odd], sample=max(1, len(boot.adjustments)), text=text,
        evidence=evidence.cite(JOURNAL),
    )  # fmt: skip


def _draft(target: Target, evidence: Evidence) -> Iterator[Fact]:
    boot = evidence.boot
    if not speculative(target) or speculative(target) in WITHOUT_DRAFT or boot is None or boot.stage is None:
        return
    loads = {w.rank: w for w in boot.weights if w.role == "draft"}
    gbs = [w.gb for w in loads.values() if w.gb is not None]
    names = ", ".join(sorted({w.class_ for w in loads.values()}))
    each = (
        f", {min(gbs):.2f} GB each"
        if gbs and max(gbs) - min(gbs) < 0.01
        else f", {min(gbs):.2f} to {max(gbs):.2f} GB"
        if gbs
        else ""
    )
    text = f"{names} on {len(loads)} ranks{each}" if loads else "no second load of weights in the log"
    cite = evidence.cite(JOURNAL)
    yield Fact(metric="draft.ranks", value=len(loads), sample=len(loads), text=text, evidence=cite)
    spread = (max(gbs) - min(gbs)) / max(gbs) if len(gbs) == len(loads) > 0 and max(gbs) > 0 else None
    yield Fact(metric="draft.spread", value=spread, sample=len(gbs), text=text, evidence=cite)


def _environment(evidence: Evidence) -> Iterator[Fact]:
    variables = evidence.json(ENVIRON)
    if not isinstance(variables, dict) or not variables:  # systemd starts nothing without any
        return
    simulated = "SGLANG_SIMULATE_ACC_LEN" in variables
    text = (
        "SGLANG_SIMULATE_ACC_LEN is set" if simulated else "SGLANG_SIMULATE_ACC_LEN is not in the process's environment"
    )
    yield Fact(metric="environment.simulated", value=simulated, text=text, evidence=evidence.cite(ENVIRON))
