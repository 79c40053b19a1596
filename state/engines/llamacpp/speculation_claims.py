"""What must hold of speculation in llama-server while it serves: that drafts are accepted, or that none are made."""

from collections.abc import Iterator

from state.claims import Claim
from state.drafting_claims import accepted_in_requests, drafts_accepted, figures_agree, nothing_drafted
from state.engines.llamacpp.asked import Speculating

USELESS = (
    "the draft accepts nothing: check that it belongs to this model and shares its vocabulary, and that it was "
    "converted from the same checkpoint"
)
LOG_AND_COUNTERS = "engine log, answers and /metrics"


def plain() -> Iterator[Claim]:
    """Where no speculation is asked for."""
    yield nothing_drafted("engine log and /metrics")


def accepted(asked: Speculating) -> Iterator[Claim]:
    """Where it is. Drafts from repetitions need a text that repeats itself, as ours need not: they may stay open."""
    if asked.drafts:
        yield drafts_accepted("engine log and /metrics", USELESS)
        yield accepted_in_requests("timings.draft_n and draft_n_accepted of the answers", USELESS)
    yield figures_agree(
        "the log, the counters and our own requests agree about the share of drafts accepted",
        LOG_AND_COUNTERS,
        "build",
        doubt=None if asked.drafts else "accept",
    )
    if asked.depth is not None:
        yield Claim(
            name="draft-depth",
            plane="speculation",
            statement=f"no more than {asked.depth} tokens are drafted at once",
            metric="speculation.depth",
            relation="at-most",
            expected=asked.depth,
            source="statistics in the log, or /metrics",
            remedy="another number of drafts is in effect than asked for: builds differ in the flag's name and default",
            doubt="accept",
        )
