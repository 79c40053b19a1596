"""Attempting an action again while its errors are retryable, without Prefect."""

from functools import partial

from tenacity import stop_after_attempt, wait_exponential

from flows.drive import Act, Perform, attempt
from flows.history import History
from state.action import Action
from state.events import ErrorFacts
from state.next_action import attempt_limit
from tasks.again import ask_again

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0


def retryable(error: ErrorFacts | None) -> bool:
    return error is not None and error.retryable


def retrying(history: History, perform: Perform) -> Act:
    """The bare skin: as many attempts as the policy allows, counted over all orchestrators that had this rollout."""

    async def act(action: Action) -> ErrorFacts | None:
        left = max(1, attempt_limit(history.rollout) - history.rollout.attempts.get(action.key, 0))
        wait = wait_exponential(FIRST_WAIT_S, max=LONGEST_WAIT_S)
        attempted = partial(attempt, history, perform, action)
        return await ask_again(attempted, retryable, wait=wait, stop=stop_after_attempt(left))

    return act
