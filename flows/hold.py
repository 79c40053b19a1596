"""A hold: the question that a person is asked while a proof stays open, the wait for the answer, and answering it.

The answer is appended to the rollout's own stream by whoever gives it, at the version at which the question stood open
(docs/decisions/0008): of two answers, of an answer and the deadline, of an answer and a cancellation, one is first.
"""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from flows.history import History, stream_of
from flows.ports import Ports
from flows.work import Work
from state.errors import Refused, StoreUnavailable, UsageInvalid, VersionConflict
from state.events import ActionStarted, Event, HoldAnswered, HoldOpened, decode
from state.hold import DEADLINE, Answer, question, told, undecided
from state.next_action import next_action, with_trouble
from state.rollout import Rollout

LOOK_EVERY_S = 1.0
"""Seconds between two looks for an answer: neither store tells a reader of another process's append."""

MAY_ANSWER = "whoever can write to this event store"


async def open_hold(work: Work) -> Event:
    """Put the question, once; a later session goes on with the same one."""
    policy, verdicts = work.revision.policy, work.rollout.verdicts
    deadline = work.ports.now() + timedelta(seconds=policy.hold_deadline_s)
    return HoldOpened(
        action=work.action.key,
        attempt=work.attempt,
        question=question(verdicts),
        open=undecided(verdicts),
        deadline=deadline.isoformat(timespec="seconds"),
        default="promote" if policy.hold_default == "accept" else "rollback",
        may_answer=MAY_ANSWER,
    )


async def await_answer(work: Work) -> Event | None:
    """None once somebody else has written to the stream, which is an answer or the end of this session; the default
    answer when the deadline comes first."""
    hold = work.rollout.hold
    assert hold is not None  # `hold` comes after `open-hold` alone
    stream, deadline = stream_of(work.requested.rollout), datetime.fromisoformat(hold.deadline)
    own = await _version_of_intent(work, stream)
    while not await _written(work.ports, stream, own):
        left_s = (deadline - work.ports.now()).total_seconds()
        if left_s <= 0:
            return _unanswered(work, hold)
        await asyncio.sleep(min(LOOK_EVERY_S, left_s))
    return None


async def answer_hold(ports: Ports, rollout_id: str, answer: Answer, actor: str, reason: str) -> HoldAnswered:
    """Answer the question that a rollout asks; whoever drives it goes on within LOOK_EVERY_S.

    Raises NotFound; UsageInvalid for an answer without a reason; Refused if it asks nothing, was answered before, or
    the deadline has passed.
    """
    if not reason.strip():
        raise UsageInvalid("An answer needs its reason", hint="say in --reason why; it is kept in the history")
    history = History(ports, rollout_id)
    while True:
        rollout = await history.load()
        _refuse_unasked(rollout, rollout_id, ports.now())
        attempt = max(1, rollout.attempts.get("hold", 0))
        event = HoldAnswered(action="hold", attempt=attempt, answer=answer, actor=actor, reason=reason)
        with suppress(VersionConflict):  # somebody was first: what the rollout asks now is read again
            await history.record(event)
            return event


def asking(rollout: Rollout) -> HoldOpened | None:
    """The question that waits for an answer; None when there is none, or the way forward was left meanwhile."""
    waiting = rollout.answer is None and rollout.concluded is None and with_trouble(rollout).trouble is None
    return rollout.hold if waiting else None


def _refuse_unasked(rollout: Rollout, name: str, now: datetime) -> None:
    hold = asking(rollout)
    if rollout.answer is not None:
        raise Refused(f"Rollout {name} has its answer already: {told(rollout.answer)}", hint=_TOLD)
    if hold is None:
        raise Refused(f"Rollout {name} asks nothing: {_standing(rollout)}", hint=_TOLD)
    if now >= datetime.fromisoformat(hold.deadline):
        raise Refused(
            f"Rollout {name} could be answered until {hold.deadline}; the answer is the default, {hold.default}",
            hint=_TOLD,
        )


_TOLD = "`interlock show ROLLOUT` tells how it stands"


def _standing(rollout: Rollout) -> str:
    if rollout.concluded is not None:
        return f"it has ended, {rollout.concluded.outcome}"
    trouble = with_trouble(rollout).trouble
    if trouble is not None:
        return f"it is on its way back: {trouble.error.message}"
    ahead = next_action(rollout)
    return f"it is at `{ahead.title}`" if ahead else "nothing is left to do"


async def _version_of_intent(work: Work, stream: str) -> int:
    """The version at which this attempt was begun; everything after it is somebody else's."""
    versions = [
        recorded.version
        for recorded in await work.ports.events.read(stream)
        if recorded.type == ActionStarted.wire and _is_own(decode(recorded), work)
    ]
    return versions[-1]


def _is_own(event: Event, work: Work) -> bool:
    return isinstance(event, ActionStarted) and (event.action, event.attempt) == (work.action.key, work.attempt)


async def _written(ports: Ports, stream: str, version: int) -> bool:
    """Whether the stream went on after `version`; a store that is away for a moment is asked again."""
    with suppress(StoreUnavailable):
        return bool(await ports.events.read(stream, version))
    return False


def _unanswered(work: Work, hold: HoldOpened) -> HoldAnswered:
    return HoldAnswered(
        action=work.action.key,
        attempt=work.attempt,
        answer=hold.default,
        actor=DEADLINE,
        reason=f"nobody answered until {hold.deadline}",
    )
