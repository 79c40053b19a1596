"""What is told when a rollout's record breaks off: what its hosts may be left in, and what they do by themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

from flows.history import History
from flows.keepalive import armed_timers
from state.errors import InterlockError, Refused, RolloutUnrecorded, StoreUnavailable, TakenOver, VersionConflict
from state.next_action import begun_steps, next_action
from state.rollout import Rollout


@contextmanager
def told_where_it_broke_off(history: History) -> Iterator[None]:
    """Raises RolloutUnrecorded for an error that ends the driving after a host may have been changed, Refused for a
    store that was lost before. A rollout whose end is recorded, or that another orchestrator has, keeps its error."""
    try:
        yield
    except (RolloutUnrecorded, TakenOver, VersionConflict):
        raise
    except InterlockError as error:
        rollout = history.rollout
        if rollout.requested is None or rollout.concluded is not None:
            raise
        if begun_steps(rollout):
            raise _unrecorded(rollout, history.rollout_id, error) from error
        if isinstance(error, StoreUnavailable):
            raise _untouched(history.rollout_id, error) from error
        raise


def _unrecorded(rollout: Rollout, name: str, error: InterlockError) -> RolloutUnrecorded:
    timers = {armed.host: armed.deadline_s for armed in armed_timers(rollout)}
    return RolloutUnrecorded(name, _where(rollout), timers, error)


def _where(rollout: Rollout) -> str:
    action = next_action(rollout)
    if action is None:
        return "at its end"
    begun = rollout.started(action.key) and action.key not in rollout.failures
    return f"{'during' if begun else 'before'} `{action.title}`"


def _untouched(name: str, error: StoreUnavailable) -> Refused:
    return Refused(
        f"Rollout {name} broke off before it changed anything. {error}",
        hint=f"nothing was touched; {error.hint}; then `interlock recover --take-over {name}` goes on with it at once",
    )
