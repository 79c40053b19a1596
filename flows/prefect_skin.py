"""Prefect's skin over the loop: one task for each action, named after it, tried again on retryable errors.

What Prefect shows is a projection of the history, useful and late; nothing here is asked for a decision.
"""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from flows.drive import Act, Perform, attempt
from flows.history import History
from flows.retrying import FIRST_WAIT_S
from state.action import Action
from state.errors import InterlockError
from state.events import ErrorFacts
from state.next_action import attempt_limit


class AttemptFailedError(InterlockError):
    """Tells Prefect that an attempt failed; the history has it already, with its facts."""

    def __init__(self, error: ErrorFacts) -> None:
        super().__init__(error.message, hint=error.hint)
        self.facts = error


def prefect_skin(history: History, perform: Perform) -> Act:
    """Inside a flow run: `act` that makes a task run of every action."""

    async def act(action: Action) -> None:
        left = max(1, attempt_limit(history.rollout) - history.rollout.attempts.get(action.key, 0))

        async def attempted() -> None:
            if failed := await attempt(history, perform, action):
                raise AttemptFailedError(failed)

        named = task(
            name=action.title,
            task_run_name=action.title,
            retries=left - 1,
            retry_delay_seconds=[FIRST_WAIT_S * 2**n for n in range(left - 1)],
            retry_condition_fn=_may_retry,
            cache_policy=NO_CACHE,
            persist_result=False,
        )(attempted)
        try:
            await named()
        except AttemptFailedError:
            return

    return act


async def shown_as_done(history: History) -> None:
    """A task run for each action that was done before the flow run began, so that Prefect shows the whole rollout."""
    for key, fact in history.rollout.done.items():

        async def recorded(what: str = fact.wire) -> str:
            return what

        await task(name=key, task_run_name=f"{key} (done before)", cache_policy=NO_CACHE, persist_result=False)(
            recorded
        )()


async def _may_retry(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    try:
        await state.result()  # awaitable in an async condition, measured with 3.9.1
    except AttemptFailedError as error:
        return error.facts.retryable
    except Exception:  # noqa: BLE001  # whatever else was raised inside the task is no retryable error of ours
        return False
    return False
