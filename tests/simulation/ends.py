"""Invariants of a run that is over: of each rollout's history, of the host it left, and of what was stored."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from flows.lease import subjects
from state.events import (
    ActionFailed,
    ActionStarted,
    Event,
    Judged,
    LeaseTaken,
    RolloutConcluded,
    RolloutResumed,
    SoakPassed,
    StepSucceeded,
    Succeeded,
)
from state.leases import lease_of, proven
from state.next_action import begun_steps
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tasks.argv import FENCE, place, revert_script
from tests.simulation.faults import Fault, mild
from tests.simulation.small_engine import API_KEY
from tests.simulation.world import EPOCH, SERVICE, HostState

if TYPE_CHECKING:
    from tests.simulation.world import World

HARMLESS = ("cut-before-trip", "cut-after-trip", "answer-delayed", "second-recovers", "rival-rollout", "stops-slowly")
"""With none but these the first rollout is promoted: an attempt or two more, and nothing else."""

ALIVE = (
    *HARMLESS,
    "cut-during-trip",
    "cancelled-at-trip",
    "cancelled-at-append",
    "refuted",
    "open",
    "new-crashes",
    "deaf",
)
"""With none but these the orchestrator lives, and reaches its hosts: their own timers never act."""


def only(faults: Sequence[Fault], kinds: Sequence[str]) -> bool:
    return all(fault.kind in kinds for fault in faults)


def of_history(events: Sequence[Event], rollout: Rollout) -> Iterator[str]:
    """What is wrong with the events of one rollout, by themselves."""
    yield from _one_end(events)
    for part in _by_revival(events):
        yield from _attempts(part, rollout)
        yield from _order(part)
    yield from _frozen(events)
    yield from _proof(events, rollout)


def _by_revival(events: Sequence[Event]) -> Iterator[list[Event]]:
    """The events cut where the way back begins anew: a session goes on after a stranded end, a host has restored
    itself."""
    part: list[Event] = []
    stranded = False
    for event in events:
        if isinstance(event, RolloutResumed) and stranded:
            yield part
            part, stranded = [], False
        if isinstance(event, LeaseTaken) and event.action == "lease:reverted":
            yield part
            part = [ActionStarted(action=event.action, attempt=event.attempt)]
        stranded = stranded or (isinstance(event, RolloutConcluded) and event.outcome == "stranded")
        part.append(event)
    yield part


def _one_end(events: Sequence[Event]) -> Iterator[str]:
    ends = [event.outcome for event in events if isinstance(event, RolloutConcluded)]
    if any(outcome != "stranded" for outcome in ends[:-1]):
        yield f"one-end: it ended {', then '.join(ends)}"


def _attempts(events: Sequence[Event], rollout: Rollout) -> Iterator[str]:
    """What is done is not begun again, what failed for good is not tried again, intents come before facts."""
    limit = rollout.requested.revision.policy.attempts if rollout.requested else 0
    done: set[str] = set()
    failed: dict[str, int] = {}
    for_good: dict[str, str] = {}
    begun: set[tuple[str, int]] = set()
    for event in events:
        if isinstance(event, ActionStarted):
            begun.add((event.action, event.attempt))
            if event.action in done:
                yield f"done-stays-done: {event.action} is begun again"
            if event.action in for_good and not event.action.startswith(("conclude:", "release")):
                yield f"failed-for-good: {event.action} is tried again after `{for_good[event.action]}`"
        if isinstance(event, Succeeded | ActionFailed) and (event.action, event.attempt) not in begun:
            yield f"intent-before-fact: {event.action} #{event.attempt} has no intent"
        if isinstance(event, Succeeded):
            done.add(event.action)
        if isinstance(event, LeaseTaken):
            for_good = {k: code for k, code in for_good.items() if code != "host-reverted"}
        if isinstance(event, ActionFailed):
            failed[event.action] = failed.get(event.action, 0) + 1
            if not event.error.retryable:
                for_good[event.action] = event.error.code
                done -= {"lease:reverted"} if event.error.code in ("host-reverted", "host-ahead") else set()
            if failed[event.action] > limit and not event.action.startswith(("conclude:", "release")):
                yield f"bounded-attempts: {event.action} failed {failed[event.action]} times of {limit}"


def _order(events: Sequence[Event]) -> Iterator[str]:
    """Forward, then backward: compensation newest first, after the evidence was frozen, and never forward again."""
    keys = list(dict.fromkeys(event.action for event in events if isinstance(event, ActionStarted)))
    undone = [key for key in keys if key.startswith("undo:")]
    indexes = [int(key.split(":")[1]) for key in undone]
    if any(a <= b for a, b in pairwise(indexes)):
        yield f"newest-first: {' then '.join(undone)}"
    if undone and any(key.startswith("do:") for key in keys[keys.index(undone[0]) :]):
        yield "newest-first: forward again after the way back had begun"


def _frozen(events: Sequence[Event]) -> Iterator[str]:
    """Freezing was tried before the first outage step was undone."""
    keys = [event.action for event in events if isinstance(event, ActionStarted)]
    undone = [key for key in keys if key.startswith("undo:") and not key.endswith(("stage-files", "arm-timer"))]
    if undone and "freeze" not in keys[: keys.index(undone[0])]:
        yield f"frozen-first: {undone[0]} before the evidence was frozen"


def _proof(events: Sequence[Event], rollout: Rollout) -> Iterator[str]:
    """An ending says what was proven."""
    if rollout.concluded is None or rollout.requested is None or rollout.plan is None:
        return
    policy, outcome = rollout.requested.revision.policy, rollout.concluded.outcome
    judged = {side: [e for e in events if isinstance(e, Judged) and e.side == side] for side in ("new", "old")}
    if outcome == "promoted":
        last = judged["new"][-1].outcome if judged["new"] else "no judgement"
        if last != "held" and not (last == "inconclusive" and policy.inconclusive == "accept"):
            yield f"proven-new: promoted after {last}"
        if policy.soak_s and not any(isinstance(event, SoakPassed) for event in events):
            yield "soaked: promoted without the soak that was asked for"
    if outcome == "rolled-back":
        undone = {e.step for e in events if isinstance(e, StepSucceeded) and e.direction == "undo"}
        left = [step.kind for index, step in begun_steps(rollout) if index not in undone]
        if left:
            yield f"all-undone: {', '.join(left)} was begun and not undone"
        if rollout.baseline and rollout.baseline.good and not (judged["old"] and judged["old"][-1].outcome == "held"):
            yield "proven-old: rolled back, and the old revision is not proven"


async def of_world(world: "World", before: HostState) -> list[str]:
    """What is wrong with the world that the rollouts left."""
    rollouts = list((await world.rollouts()).values())
    found = [line for rollout in rollouts for line in await _leases(world, rollout)]
    stranded = any(rollout.concluded and rollout.concluded.outcome == "stranded" for rollout in rollouts)
    if not stranded:
        found += await _host(world, before, rollouts)
        found += _leftovers(world)
    restored = [e for e in await world.store.read_all(0, 10_000) if _tells_of_restoring(e)]
    found += _gentle(world, rollouts, stranded, restored)
    return found + await _secrets(world)


def _tells_of_restoring(event: RecordedEvent) -> bool:
    return bool(event.data.get("reverted")) or (event.data.get("error") or {}).get("code") == "host-reverted"


async def _leases(world: "World", rollout: Rollout) -> list[str]:
    assert rollout.requested is not None
    name, concluded = rollout.requested.rollout, rollout.concluded
    held = [s for s in subjects(rollout.requested) if lease_of(await world.store.read(s)).rollout == name]
    if concluded is None:
        return [f"ends: {name} has not ended"]
    if concluded.outcome != "stranded":
        return [f"given-back: {name} ended {concluded.outcome} and holds {', '.join(held)}"] if held else []
    found = []
    if len(held) != len(subjects(rollout.requested)):
        found.append(f"stranded-keeps-the-lease: {name} holds only {held}")
    if concluded.exit_code != 4 or not concluded.next_argvs or not concluded.summary:
        found.append(f"stranded-calls-a-person: exit {concluded.exit_code}, {len(concluded.next_argvs)} commands")
    return found


async def _host(world: "World", before: HostState, rollouts: Sequence[Rollout]) -> list[str]:
    """The host is what the history says: new after a promotion, as it was after anything else. A map of drivers does
    not outlive a boot (decision 10), so that one after the last proof, or the soak, takes it away."""
    promoted = [r for r in rollouts if r.concluded and r.concluded.outcome == "promoted"]
    expected = after(promoted[0], before) if promoted else before
    if world.gpus_booted_at and world.gpus_booted_at >= await _last_look(world, "soak"):
        expected = replace(expected, drivers=before.drivers)
    found, state = [], world.state()
    if (state.unit_file, state.drivers) != (expected.unit_file, expected.drivers):
        what = "file" if state.unit_file != expected.unit_file else "drivers"
        found.append(f"explained: the {what} are not those that the history explains: {state.drivers}")
    if await _proof_stands(world, rollouts) and (state.active, state.argv) != (expected.active, expected.argv):
        found.append(f"explained: it is {state.active} with {state.argv[-2:]}, not {expected.argv[-2:]}")
    count = len(proven(await world.store.read(f"service-{SERVICE}")))
    return found + ([f"proven-once: {count} records for {len(promoted)} promotions"] if count != len(promoted) else [])


def after(rollout: Rollout, before: HostState) -> HostState:
    """The host after a promotion."""
    assert rollout.requested is not None
    revision = rollout.requested.revision
    return HostState(revision.files[0].data, {**before.drivers, **revision.drivers}, "active", revision.argv)


async def _proof_stands(world: "World", rollouts: Sequence[Rollout]) -> bool:
    """False where something befell the host after its last proof: a reboot, a crash, or a state never good."""
    if any(fault.kind in ("new-dies", "old-crashes") for fault in world.faults):
        return False
    if any(r.baseline is not None and not r.baseline.good for r in rollouts):
        return False
    return world.disturbed_at < await _last_look(world)


async def _last_look(world: "World", *more: str) -> datetime:
    """When a proof was last looked for, or one of `more` was done; the beginning, if never."""
    actions = ("verify:", *more)
    looked = (e for e in await world.store.read_all(0, 10_000) if str(e.data.get("action")).startswith(actions))
    return max((event.recorded_at for event in looked), default=EPOCH)


def _leftovers(world: "World") -> list[str]:
    """Neither timer, nor restoring script, nor kept file is left on a host; a kept file that could not be removed may
    be, since it does no harm, and one that a person was told of."""
    found = []
    removable = not any(fault.kind in ("argv-fails", "change-fails") for fault in world.faults)
    kept_on = [name for name in world.hosts if any(f"stay on {name}, for" in told for told in world.said)]
    for name, machine in world.hosts.items():
        timers = [unit for unit in machine.systemd.timers if unit.startswith("interlock-")]
        files = machine.files
        kept = f"{place(SERVICE)}/blobs"
        names = files.names(kept) if files.exists(kept) else []
        blobs = [blob for blob in names if f"{kept}/{blob}" not in world.litter and name not in kept_on]
        script = files.exists(revert_script(SERVICE))
        if timers or (removable and (script or blobs)):
            found.append(f"nothing-left: {name} has {timers}, restoring script {script}, {len(blobs)} kept files")
    return found


def _gentle(
    world: "World", rollouts: Sequence[Rollout], stranded: bool, restored: Sequence[RecordedEvent]
) -> list[str]:
    """What a rollout must get over."""
    found = []
    first = rollouts[0].concluded.outcome if rollouts and rollouts[0].concluded else "nothing"
    if only(world.faults, HARMLESS) and first != "promoted":
        found.append(f"harmless: it ended {first}")
    if mild(world.faults) and stranded:
        found.append("mild: it is stranded")
    found += _truth(world, rollouts)
    reverted = [h for h, m in world.hosts.items() if m.files.exists(FENCE) and b"reverted" in m.files.read(FENCE)]
    if only(world.faults, ALIVE) and (reverted or restored):
        found.append("timer-renewed: the hosts' own timers acted beside a living orchestrator")
    return found


def _truth(world: "World", rollouts: Sequence[Rollout]) -> list[str]:
    """What the evidence refutes, or does not say, is not promoted, unless the policy accepts doubt."""
    said = world.proofs.verdict
    promoted = [r for r in rollouts if r.concluded and r.concluded.outcome == "promoted" and r.requested]
    accepts = any(r.requested and r.requested.revision.policy.inconclusive == "accept" for r in promoted)
    wrong = bool(promoted) and (said == "refuted" or (said == "open" and not accepts))
    return [f"truth: promoted although the evidence is {said}"] if wrong else []


async def _secrets(world: "World") -> list[str]:
    events = await world.store.read_all(0, 10_000)
    if any(API_KEY in json.dumps(dict(event.data)) for event in events):
        return ["no-secret: the API key is in the history"]
    kept = world.evidence.kept() if hasattr(world.evidence, "kept") else world.evidence._kept.values()
    return ["no-secret: the API key is in the evidence"] if any(API_KEY.encode() in data for data in kept) else []
