"""When a proof stays open: whose policy counts, and the question that a person is asked."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from state.claims import Doubt, Verdict
from state.event import Succeeded

Answer = Literal["promote", "rollback"]

STRICTEST_FIRST: Sequence[Doubt] = ("rollback", "hold", "accept")

DEADLINE = "deadline"
"""The actor of an answer that nobody gave."""


class HoldOpened(Succeeded):
    """A person is asked whether a revision that was neither proven nor refuted may stay.

    `open` are the verdicts that stayed open under `hold`, each with its reason and figures; `deadline` is an ISO time
    in UTC, after which `default` is the answer. `may_answer` says who can give another.
    """

    wire: ClassVar[str] = "hold-opened"
    question: str
    open: tuple[Verdict, ...]
    deadline: str
    default: Answer
    may_answer: str


class HoldAnswered(Succeeded):
    """The answer, which ends the wait. Whoever gives it appends it; `actor` is `deadline` where nobody did."""

    wire: ClassVar[str] = "hold-answered"
    answer: Answer
    actor: str
    reason: str


def undecided(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    return tuple(v for v in verdicts if v.outcome == "inconclusive")


def policy_for(verdicts: Iterable[Verdict], policy: Doubt) -> Doubt:
    """What follows from the verdicts that stayed open: the strictest of their own policies, `policy` being that of
    those without one. `rollback` where nothing stayed open, since then nothing was judged at all."""
    return min((v.doubt or policy for v in undecided(verdicts)), key=STRICTEST_FIRST.index, default="rollback")


def question(verdicts: Sequence[Verdict]) -> str:
    """The question, with how far the proof came; nothing is refuted when it is asked."""
    held, left = len(verdicts) - len(undecided(verdicts)), ", ".join(v.claim for v in undecided(verdicts))
    return f"{held} of {len(verdicts)} claims held, none is refuted, and open stayed {left}: promote, or roll back?"


def told(answered: HoldAnswered) -> str:
    """Who answered what, as a clause: `ada answered promote: 2.4 is plenty`."""
    if answered.actor == DEADLINE:
        return f"{answered.reason}, so the answer is {answered.answer}"
    return f"{answered.actor} answered {answered.answer}: {answered.reason}"
