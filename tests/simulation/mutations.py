"""Deliberate faults in the product, each with a run in which an invariant catches it; without it that run is well.

A simulation that finds nothing proves nothing until it is known to find what is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from flows.drive import Perform
from flows.history import History
from state import judging, next_action
from state import rollout as rollouts
from state.action import Action
from state.claims import Claim, Fact
from state.errors import InterlockError
from state.events import ActionFailed, ActionStarted, ErrorFacts, Event, RolloutResumed
from state.rolled import Draft
from state.rollout import Change, Rollout
from state.steps import Step
from state.store.flush import Flush
from state.store.spool import Record, SpooledEvents
from state.store.spooling import Spooling
from tasks.script import Line, may
from tasks.sequence import Fence
from tests.simulation.faults import Fault
from tests.simulation.simulate import Run, run


@dataclass(frozen=True)
class Mutation:
    """`replaced` maps names in the product to what stands there instead; `caught_by` is the invariant's name."""

    name: str
    replaced: Mapping[str, Any]
    faults: tuple[Fault, ...]
    caught_by: str
    seed: int = 0

    def run(self) -> Run:
        with self._applied():
            return run(self.seed, self.faults)

    def without(self) -> Run:
        return run(self.seed, self.faults)

    @contextmanager
    def _applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name, replacement in self.replaced.items():
                stack.enter_context(mock.patch(name, replacement, create=name.endswith(".reversed")))
            yield


async def effect_first(history: History, perform: Perform, action: Action) -> ErrorFacts | None:
    """`flows.drive._attempted` with the intent and the fact recorded together, after the effect."""
    number = history.rollout.attempts.get(action.key, 0) + 1
    intent = ActionStarted(action=action.key, attempt=number)
    try:
        fact = await perform(action, number, history.rollout)
    except InterlockError as error:
        failed = ErrorFacts.of(error)
        await history.record(intent, ActionFailed(action=action.key, attempt=number, error=failed))
        return failed
    await history.record(intent, *([fact] if fact else []))
    return None


async def nothing(*_: Any, **__: Any) -> None:
    """In the place of something that matters."""


async def never_reverted(*_: Any, **__: Any) -> bool:
    return False


def no_fence(_fence: object) -> Line:
    return may("true")


def held_without_evidence(claim: Claim, fact: Fact | None, look: int) -> judging.Decision:
    if fact is None or fact.value is None:
        return judging.Decision("held", "nothing speaks against it")
    return _decide(claim, fact, look)


_decide = judging._decide


def without_freezing(rollout: Rollout) -> Iterator[Action]:
    return (action for action in _backward(rollout) if action.kind != "freeze")


_backward = next_action.backward


def only_done(rollout: Rollout) -> tuple[tuple[int, Step], ...]:
    """Steps whose fact is missing are not undone."""
    return tuple((i, s) for i, s in _begun(rollout) if f"do:{i}:{s.kind}" in rollout.done)


_begun = next_action.begun_steps


def forgetful(kind: type[Event]) -> tuple[Change, ...]:
    """The next session does the newest step of the way forward again."""
    return (*_changes(kind), _forget_newest) if kind is RolloutResumed else _changes(kind)


def _forget_newest(draft: Draft, _: Event) -> None:
    for key in [key for key in draft.done if key.startswith("do:")][-1:]:
        del draft.done[key]


_changes = rollouts._changes


def gives_up_everything(rollout: Rollout) -> bool:
    """`Rollout.ended` where a stranded rollout gives its lease back like any other."""
    return rollout.concluded is not None and rollout.released


async def newest_first(flush: Flush, batches: Sequence[SpooledEvents]) -> None:
    """`Flush._append` with the events of a spool in the wrong order."""
    turned = [event for batch in batches for event in batch.events][::-1]
    await _append(flush, [replace(batches[0], events=tuple(turned))] if batches else [])


_append = Flush._append


async def removed_first(spooling: Spooling) -> None:
    """`Spooling._try` that takes the spool off the disk before the store has what it holds."""
    spooling.file.remove()
    await _try(spooling)


_try = Spooling._try


async def events_first(flush: Flush, records: Sequence[Record], enough: Any = lambda: False) -> None:
    """`Flush.run` that brings the evidence in last."""
    await flush._append([record for record in records if isinstance(record, SpooledEvents)])
    await _run(flush, records, enough)


_run = Flush.run

MUTATIONS = (
    Mutation("compensation oldest first", {"state.next_action.reversed": tuple}, (Fault("refuted"),), "newest-first"),
    Mutation("intent after effect", {"flows.drive._attempted": effect_first}, (), "intent-before-effect"),
    Mutation(
        "lease without fencing",
        {"tasks.sequence.Fence.line": no_fence},
        (Fault("paused-at-trip", 1, 900.0, "do:4:rebind-gpus"),),
        "one-holder",
    ),
    Mutation(
        "timer not renewed",
        {"flows.keepalive.renew_timers": nothing, "flows.perform.renew_timers": nothing},
        (),
        "timer-renewed",
        seed=17,
    ),
    Mutation(
        "retry of what is not retryable",
        {"flows.retrying.retryable": lambda error: error is not None},
        (Fault("change-fails", 1, 0, "do:4:rebind-gpus"),),
        "failed-for-good",
    ),
    Mutation(
        "no evidence is held", {"state.judging._decide": held_without_evidence}, (Fault("open"),), "truth", seed=1
    ),
    Mutation("promoted before the soak", {"state.next_action._soak_s": lambda _: 0.0}, (), "soaked", seed=7),
    Mutation(
        "lease released when stranded",
        {"state.rollout.Rollout.ended": property(gives_up_everything)},
        (Fault("refuted"), Fault("old-crashes", 0, 1)),
        "stranded-keeps-the-lease",
    ),
    Mutation(
        "a held lease is taken",
        {"state.leases.Lease.refuse_others": lambda *_: None},
        (Fault("rival-rollout", 1, 0, "do:4:rebind-gpus"),),
        "one-holder",
    ),
    Mutation(
        "evidence not frozen", {"state.next_action.backward": without_freezing}, (Fault("refuted"),), "frozen-first"
    ),
    Mutation(
        "a done step is done again",
        {"state.rollout._changes": forgetful},
        (Fault("second-takes-over", 1, 0, "do:6:start-service"),),
        "done-stays-done",
    ),
    Mutation(
        "the host's own restoring is not seen",
        {"flows.lease._refuse_reverted": nothing, "tasks.mark.REVERTED": "something else"},
        (Fault("killed-after-append", 30),),
        "explained",
    ),
    Mutation(
        "an unfinished step is not undone",
        {"state.next_action.begun_steps": only_done},
        (Fault("answer-lost", 1, 0, "do:5:install-files"),),
        "all-undone",
    ),
    Mutation(
        "an overtaken orchestrator takes the lease",
        {"flows.lease._refuse_overtaken": nothing},
        (Fault("paused-at-trip", 8, 900.0),),
        "one-holder",
    ),
    Mutation(
        "the lease is taken while a host restores itself",
        {"flows.perform.until_restored": nothing},
        (Fault("killed-before-append", 1, 0, "do:3:stop-service"),),
        "mild",
        seed=394,
    ),
    Mutation(
        "what was undone before a restoring counts",
        {"state.rollout._back_anew": lambda _draft, _name, _begins: None},
        (Fault("refuted"), Fault("killed-during-trip", 1, 2.0, "undo:3:stop-service")),
        "mild",
    ),
    Mutation(
        "units of every way back have one name",
        {"flows.work.Work.fence": lambda work, host: Fence(work.requested.rollout, work.rollout.fencing[host])},
        (Fault("refuted"), Fault("killed-after-trip", 1, 0, "undo:5:install-files")),
        "mild",
    ),
    Mutation(
        "the service is stopped without the store",
        {"flows.drive.refuse_unrecorded": nothing},
        (Fault("store-away-late", 30, 200.0),),
        "stop-is-stored",
    ),
    Mutation(
        "spool flushed out of order",
        {"state.store.flush.Flush._append": newest_first},
        (Fault("store-away-late", 50, 5.0),),
        "spool-lost",
    ),
    Mutation(
        "spool removed before commit",
        {"state.store.spooling.Spooling._try": removed_first},
        (Fault("store-away-late", 50, 5.0), Fault("killed-before-call", 55)),
        "spool-lost",
    ),
    Mutation(
        "evidence flushed after its event",
        {"state.store.flush.Flush.run": events_first},
        (Fault("store-away-late", 50, 5.0),),
        "evidence-first",
    ),
    Mutation(
        "evidence is not redacted",
        {"state.store.memory.redacted": lambda data, _media_type: data},
        (Fault("refuted"),),
        "no-secret",
    ),
)
