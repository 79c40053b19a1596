"""The loop: history → next action → intent → effect → fact → again. Starting, resuming, rolling back: all this one."""

from collections.abc import Awaitable, Callable

from flows.history import History
from flows.spooled import refuse_unrecorded
from state.action import Action
from state.errors import InterlockError, StoreUnavailable, UnbindStuck, VersionConflict
from state.events import ActionFailed, ActionStarted, DeviceQuarantined, ErrorFacts, Event
from state.next_action import begun_steps, next_action
from state.redaction import redact
from state.rollout import Rollout

Perform = Callable[[Action, int, Rollout], Awaitable[Event | None]]
"""Does the action's attempt and returns its fact, None where somebody else has recorded it; raises InterlockError,
which becomes the fact that it failed."""

Act = Callable[[Action], Awaitable[object]]
"""Attempts an action, again while its errors are retryable; everything it learns is in the history when it returns."""


Until = Callable[[Action], bool]
"""Whether to stop before an action: the rest is somebody else's."""


def never(_action: Action) -> bool:
    return False


async def drive(history: History, act: Act, until: Until = never) -> Rollout:
    """Go on with the rollout until nothing is left to do. Needs nothing but the stream, wherever it was left."""
    await history.load()
    while (action := next_action(history.rollout)) is not None and not until(action):
        await act(action)
    return history.rollout


async def attempt(history: History, perform: Perform, action: Action) -> ErrorFacts | None:
    """One attempt: the intent on disk before the effect, the fact after it. Returns the error if it failed.

    An answer to a hold that was appended meanwhile keeps this attempt's own word out of the history, and is no taking
    over: what comes next is asked of the history with the answer in it. Raises VersionConflict for anything else.
    """
    try:
        return await _attempted(history, perform, action)
    except VersionConflict:
        await history.take_in_answer()
        return None


async def _attempted(history: History, perform: Perform, action: Action) -> ErrorFacts | None:
    number = history.rollout.attempts.get(action.key, 0) + 1
    before = history.rollout
    rollout = await history.record(ActionStarted(action=action.key, attempt=number))
    try:
        await refuse_unrecorded(history, action)
        fact = await perform(action, number, rollout)
    except InterlockError as error:
        if isinstance(error, StoreUnavailable) and action.kind == "lease" and begun_steps(before):
            raise  # that the lease cannot be had now says nothing of the way back: a later session takes it
        failed = ErrorFacts.of(error)
        kept_out = quarantined(error, action.key, number)
        await history.record(*kept_out, ActionFailed(action=action.key, attempt=number, error=failed))
        return failed
    await (history.record(fact) if fact is not None else history.take_in_answer())
    return None


def quarantined(error: InterlockError, action: str, attempt: int) -> tuple[DeviceQuarantined, ...]:
    """The facts about devices that an error leaves behind; none for most."""
    if not isinstance(error, UnbindStuck):
        return ()
    return tuple(
        DeviceQuarantined(
            action=action, attempt=attempt, host=error.host, address=address, driver=driver, said=redact(said)
        )
        for address, (driver, said) in error.devices.items()
    )
