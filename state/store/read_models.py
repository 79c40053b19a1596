"""The projections that are kept: services, rollouts, and acceptance over time. Pure folds, rebuilt at will."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Table

from state.events import (
    EVENTS,
    ActionFailed,
    ActionStarted,
    DeviceCleared,
    DeviceQuarantined,
    Event,
    HoldAnswered,
    HoldOpened,
    Judged,
    LeaseTaken,
    PlanMade,
    PreflightPassed,
    RolloutConcluded,
    RolloutRequested,
)
from state.store.figures import figure_keys, figure_row
from state.store.projections import Key, Projection, Row, Seen
from state.store.tables import acceptance, figures, rollouts, services

ACCEPT_LENGTH = "accept_length"
"""How the metrics end whose values are collected; `requests.accept_length`, of our own requests, goes before others."""

_PROVEN = ("promoted", "unchanged")


def rollout_row(row: Row | None, seen: Seen) -> Row:
    """The rollout's line after one more of its events."""
    known = row if row is not None else _requested_row(seen)
    passed = {"version": seen.recorded.version, "updated_at": seen.recorded.recorded_at}
    return {**known, **passed, **_rollout_change(known, seen)}


def service_row(row: Row | None, seen: Seen) -> Row | None:
    """The service's line. A rollout that only asks does not take the place of one that runs."""
    match seen.event:
        case RolloutRequested() if row is None or row["state"] != "running":
            change = {"state": "requested"}
        case LeaseTaken():
            change = {"state": "running"}
        case RolloutConcluded() as ended if row is None or row["stream"] == seen.recorded.stream:
            change = {"state": ended.outcome, **_proven(seen, ended)}
        case _:
            return row
    known = row if row is not None else {"revision": None, "revision_since": None}
    return {**known, **_service_subject(seen), **change}


def acceptance_row(row: Row | None, seen: Seen) -> Row | None:
    """One point: what the judgement knew of the accept length, none if it knew nothing."""
    event = seen.event
    if not isinstance(event, Judged):
        return row
    known = [f for f in event.facts if f.metric.rpartition(".")[2] == ACCEPT_LENGTH and f.value is not None]
    if not known:
        return row
    fact = min(known, key=lambda f: not f.metric.startswith("requests."))
    names = dict(zip(("stream", "side", "round"), _acceptance_key(seen), strict=True))
    point = {"metric": fact.metric, "accept_length": float(fact.value), "sample": len(fact.samples) or fact.sample}
    return {**names, "service": seen.subject.service, **point, "judged_at": seen.recorded.recorded_at}


def _requested_row(seen: Seen) -> Row:
    asked = seen.subject
    later = (
        "action",
        "verdict",
        "error_code",
        "error",
        "summary",
        "exit_code",
        "dark_s",
        "engine_version",
        "concluded_at",
        "quarantined",
    )
    return {
        "stream": seen.recorded.stream,
        "rollout": asked.rollout,
        "service": asked.service,
        "purpose": asked.purpose,
        "revision": asked.revision.digest,
        "actor": asked.actor,
        "reason": asked.reason,
        "state": "requested",
        "requested_at": seen.recorded.recorded_at,
        **dict.fromkeys(later),
    }


def _rollout_change(row: Row, seen: Seen) -> Row:
    if seen.recorded.type not in _CHANGING:
        return {}
    match seen.event:
        case ActionStarted(action=action) if row["state"] == "holding" and not action.startswith(("hold", "lease")):
            return {"action": action, "state": "running", "summary": None}
        case ActionStarted(action=action):
            return {"action": action}
        case ActionFailed(error=error) if row["error"] is None:
            return {"error_code": error.code, "error": error.message}
        case DeviceQuarantined(host=host, address=address):
            return {"quarantined": ", ".join(sorted({*_kept_out(row), f"{address} on {host}"}))}
        case DeviceCleared(host=host, address=address):
            return {"quarantined": ", ".join(sorted({*_kept_out(row)} - {f"{address} on {host}"})) or None}
        case PlanMade():
            return {"state": "planned"}
        case LeaseTaken() if row["state"] != "holding":
            return {"state": "running"}
        case PreflightPassed(engine_version=version):
            return {"engine_version": version}
        case Judged(outcome=outcome):
            return {"verdict": outcome}
        case HoldOpened() as hold:
            asks = f"asks a person until {hold.deadline}, otherwise {hold.default}: {hold.question}"
            return {"state": "holding", "summary": asks}
        case HoldAnswered():
            return {"state": "running", "summary": None}
        case RolloutConcluded() as ended:
            return _ended(seen, ended)
    return {}


def _kept_out(row: Row) -> list[str]:
    return row["quarantined"].split(", ") if row["quarantined"] else []


def _ended(seen: Seen, ended: RolloutConcluded) -> Row:
    return {
        "state": ended.outcome,
        "summary": ended.summary,
        "exit_code": ended.exit_code,
        "dark_s": ended.dark_s,
        "concluded_at": seen.recorded.recorded_at,
    }


def _service_subject(seen: Seen) -> dict[str, Any]:
    asked = seen.subject
    moment = seen.recorded.recorded_at
    return {"service": asked.service, "stream": seen.recorded.stream, "rollout": asked.rollout, "updated_at": moment}


def _proven(seen: Seen, ended: RolloutConcluded) -> dict[str, Any]:
    if ended.outcome not in _PROVEN:
        return {}
    return {"revision": seen.subject.revision.digest, "revision_since": seen.recorded.recorded_at}


def _acceptance_key(seen: Seen) -> Key:
    event = seen.event
    return (seen.recorded.stream, event.side, event.round) if isinstance(event, Judged) else ()


def _wires(*types: type[Event]) -> frozenset[str]:
    return frozenset(t.wire for t in types)


def _single(
    table: Table,
    types: frozenset[str],
    key: Callable[[Seen], Key],
    apply: Callable[[Row | None, Seen], Row | None],
) -> Projection:
    """A projection whose events are about one row each."""
    return Projection(table, types, lambda seen: (key(seen),), lambda row, seen, _key: apply(row, seen))


_CHANGING = _wires(
    ActionStarted,
    ActionFailed,
    DeviceQuarantined,
    DeviceCleared,
    PlanMade,
    LeaseTaken,
    PreflightPassed,
    Judged,
    HoldOpened,
    HoldAnswered,
    RolloutConcluded,
)
"""The events that change more of a rollout's line than when it was last touched."""

PROJECTIONS = (
    _single(
        services,
        _wires(RolloutRequested, LeaseTaken, RolloutConcluded),
        lambda seen: (seen.subject.service,),
        service_row,
    ),
    _single(rollouts, frozenset(EVENTS), lambda seen: (seen.recorded.stream,), rollout_row),
    _single(acceptance, _wires(Judged), _acceptance_key, acceptance_row),
    Projection(figures, _wires(PlanMade, Judged), figure_keys, figure_row),
)
