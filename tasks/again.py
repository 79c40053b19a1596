"""Asking again while an answer is not yet the one that is waited for, and taking the last one when patience ends."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_result
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

T = TypeVar("T")


async def ask_again(
    ask: Callable[[], Awaitable[T]], unsettled: Callable[[T], bool], *, wait: WaitBaseT, stop: StopBaseT
) -> T:
    """The first answer that is not `unsettled`, or the last one before `stop`. What `ask` raises is raised at once."""

    async def asked() -> T:
        return await ask()

    patience = AsyncRetrying(retry=retry_if_result(unsettled), wait=wait, stop=stop, retry_error_callback=_last)
    answer: T = await patience(asked)
    return answer


def _last(state: RetryCallState) -> object:
    return state.outcome.result() if state.outcome else None  # there is one: it is stopped after an attempt
