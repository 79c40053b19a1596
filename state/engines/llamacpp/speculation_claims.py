"""What must hold of speculation in llama-server while it serves: that drafts are accepted, or that none are made."""

from collections.abc import Iterator
from functools import partial

from state.claims import Claim
from state.engines.llamacpp.asked import Speculating

USELESS = (
    "the draft accepts nothing: check that it belongs to this model and shares its vocabulary, and that it was "
    "converted from the same checkpoint"
)
LOG_AND_COUNTERS = "engine log, answers and /metrics"
DISAGREEMENT = 0.3
"""Relative, of acceptance rates: the log is of all traffic since the start, ours and others'."""


def plain() -> Iterator[Claim]:
    """Where no speculation is asked for."""
    yield Claim(
        name="speculation-off",
        plane="speculation",
        statement="nothing is drafted while it decodes",
        metric="speculation.state",
        relation="equals",
        expected="off",
        source="engine log and /metrics",
        minimum_sample=1,
        remedy="speculation runs although it is not asked for: see `systemctl cat`",
    )


def accepted(asked: Speculating) -> Iterator[Claim]:
    """Where it is. Drafts from repetitions need a text that repeats itself, as ours need not: they may stay open."""
    claim = partial(Claim, plane="speculation", doubt=None if asked.drafts else "accept")
    if asked.drafts:
        yield claim(
            name="speculation-active",
            statement="drafts are made and accepted",
            metric="speculation.state",
            relation="equals",
            expected="active",
            source="engine log and /metrics",
            minimum_sample=1,
            remedy=USELESS,
        )
        yield claim(
            name="accepted-per-request",
            statement="our own requests were served with accepted drafts",
            metric="requests.accept_length",
            relation="at-least",
            expected=1.05,
            confidence=0.95,
            minimum_sample=3,
            source="timings.draft_n and draft_n_accepted of the answers",
            remedy=USELESS,
        )
    yield claim(
        name="figures-agree",
        statement="the log, the counters and our own requests agree about the share of drafts accepted",
        metric="speculation.disagreement",
        relation="at-most",
        expected=DISAGREEMENT,
        source=LOG_AND_COUNTERS,
        remedy="one of the figures means something else in this build: compare them in `interlock show`",
    )
    if asked.depth is not None:
        yield claim(
            name="draft-depth",
            statement=f"no more than {asked.depth} tokens are drafted at once",
            metric="speculation.depth",
            relation="at-most",
            expected=asked.depth,
            source="statistics in the log, or /metrics",
            remedy="another number of drafts is in effect than asked for: builds differ in the flag's name and default",
            doubt="accept",
        )
