"""Patience: until an answer is settled, or with the last one when it ends; an error is not waited for."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tenacity import stop_after_attempt, wait_none

from tasks.again import ask_again


class Answers:
    """Answers one after the other, and counts how often it is asked; an exception among them is raised."""

    def __init__(self, *answers: int | Exception) -> None:
        self._left, self.asked = list(answers), 0

    async def __call__(self) -> int:
        self.asked += 1
        answer = self._left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def low(answer: int) -> bool:
    return answer < 3


def asking(ask: Callable[[], Awaitable[int]]) -> int:
    return asyncio.run(ask_again(ask, low, wait=wait_none(), stop=stop_after_attempt(3)))


@pytest.mark.parametrize(
    ("answers", "last", "asked"),
    [
        pytest.param((3, 9), 3, 1, id="a settled answer is taken at once"),
        pytest.param((1, 2, 4, 9), 4, 3, id="an unsettled one is asked for again"),
        pytest.param((0, 1, 2, 9), 2, 3, id="the last one is taken when patience ends"),
    ],
)
def test_the_answer_that_is_taken(answers: tuple[int, ...], last: int, asked: int) -> None:
    ask = Answers(*answers)
    assert (asking(ask), ask.asked) == (last, asked)


def test_what_returns_an_awaitable_is_awaited() -> None:
    ask = Answers(0, 7)
    assert asking(lambda: ask()) == 7


def test_an_error_is_raised_as_it_is_and_not_asked_for_again() -> None:
    failed = OSError("gone")
    ask = Answers(0, failed, 7)
    with pytest.raises(OSError, match="gone") as raised:
        asking(ask)
    assert (raised.value is failed, ask.asked) == (True, 2)
