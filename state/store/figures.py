"""Figures that rollouts measured, kept by engine, version, model, concurrency and context length: a projection."""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from state.claims import Claim, Fact
from state.engines.rendering import served_model
from state.events import Judged, PlanMade
from state.plan import Plan
from state.store.database import Database
from state.store.projections import Key, Row, Seen
from state.store.tables import figures

CONTEXT_LENGTH = ("context_length", "max_model_len", "ctx_size")
"""How SGLang, vLLM and llama.cpp call the longest context that they are asked for."""

LOAD_OF_GENERATIONS = 2
"""Long generations go on two at a time."""

ALIKE = ("service", "engine", "model", "metric", "concurrency", "context_length")
"""What two figures must have in common to be compared; the version is what a comparison is often about."""


def figure_keys(seen: Seen) -> Iterator[Key]:
    """A row for each metric that the plan's claims take samples of, and for those that a judgement has samples of."""
    match seen.event:
        case PlanMade(plan=plan):
            metrics = [claim.metric for claim in plan.claims if claim.estimator != "value"]
        case Judged(side="new", facts=facts):
            metrics = [fact.metric for fact in facts if fact.samples]
        case _:
            metrics = []
    return ((seen.recorded.stream, metric) for metric in dict.fromkeys(metrics))


def figure_row(row: Row | None, seen: Seen, key: Key) -> Row | None:
    """The plan says what the figure is of, the newest judgement what it is; samples without a claim are passed over."""
    match seen.event:
        case PlanMade(plan=plan):
            claim = next(c for c in plan.claims if c.metric == key[1] and c.estimator != "value")
            return {"stream": key[0], "metric": key[1], **_subject(seen, plan, claim), **_nothing_yet()}
        case Judged(facts=facts) if row is not None:
            fact = next(f for f in facts if f.metric == key[1])
            return {**row, **_measured(fact), "judged_at": seen.recorded.recorded_at}
    return row


def _subject(seen: Seen, plan: Plan, claim: Claim) -> dict[str, Any]:
    target = plan.target
    context = next((target.arguments[name] for name in CONTEXT_LENGTH if name in target.arguments), None)
    return {
        "service": seen.subject.service,
        "engine": target.engine,
        "engine_version": target.engine_version,
        "model": served_model(target.engine, target.arguments) or None,
        "concurrency": int(claim.conditions.get("concurrency", LOAD_OF_GENERATIONS)),
        "context_length": context if type(context) is int else None,
        "unit": claim.unit,
    }


def _nothing_yet() -> dict[str, Any]:
    return dict.fromkeys(("value", "sample", "baseline", "baseline_sample", "judged_at"))


def _measured(fact: Fact) -> Mapping[str, Any]:
    return {
        "value": fmean(fact.samples),
        "sample": len(fact.samples),
        "baseline": fmean(fact.baseline) if fact.baseline else None,
        "baseline_sample": len(fact.baseline) or None,
    }


async def kept_before(engine: AsyncEngine, stream: str) -> str | None:
    """The newest stream before this one with a figure like one of its own; None without such. The tables must have been
    brought up to date."""
    own, other = figures.alias("own"), figures.alias("other")
    alike = [own.c[name].is_not_distinct_from(other.c[name]) for name in ALIKE]
    wanted = (
        select(other.c.stream)
        .select_from(own.join(other, own.c.stream != other.c.stream))
        .where(own.c.stream == stream, *alike, other.c.judged_at < own.c.judged_at)
        .order_by(other.c.judged_at.desc(), other.c.stream.desc())
        .limit(1)
    )
    async with Database(engine).reading() as connection:
        found: str | None = (await connection.execute(wanted)).scalar()
    return found
