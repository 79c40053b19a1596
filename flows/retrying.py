"""Attempting an action again while its errors are retryable, without Prefect."""

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_exponential

from flows.drive import Act, Perform, attempt
from flows.history import History
from state.action import Action
from state.events import ErrorFacts
from state.next_action import attempt_limit

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0


def retryable(error: ErrorFacts | None) -> bool:
    return error is not None and error.retryable


def retrying(history: History, perform: Perform) -> Act:
    """The bare skin: as many attempts as the policy allows, counted over all orchestrators that had this rollout."""

    async def act(action: Action) -> ErrorFacts | None:
        left = max(1, attempt_limit(history.rollout) - history.rollout.attempts.get(action.key, 0))
        patience = AsyncRetrying(
            retry=retry_if_result(retryable),
            wait=wait_exponential(FIRST_WAIT_S, max=LONGEST_WAIT_S),
            stop=stop_after_attempt(left),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        result: ErrorFacts | None = await patience(attempt, history, perform, action)
        return result

    return act
