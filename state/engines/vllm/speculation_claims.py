"""What must hold of speculation in vLLM while it serves: that drafts are accepted, or that nothing is drafted."""

from collections.abc import Iterator, Mapping
from typing import Any

from state.claims import Claim
from state.drafting_claims import accepted_in_requests, drafts_accepted, figures_agree, nothing_drafted
from state.engines.vllm.flags import WITHOUT_DRAFT

USELESS = (
    "the draft accepts nothing: check that the checkpoint holds MTP tensors (model.safetensors.index.json), and that "
    "the draft belongs to this model"
)

LOG_AND_COUNTERS = "engine log and /metrics"

DEPTH_TOLERANCE = 0.1
"""Of the drafts for each step: the last steps of a request draft fewer where its tokens end before them."""


def plain() -> Iterator[Claim]:
    """Where no speculation is asked for."""
    yield nothing_drafted(LOG_AND_COUNTERS)


def accepted(asked: Mapping[str, Any], method: str | None, *, requests: bool) -> Iterator[Claim]:
    """Where it is: counters and log say so, and agree. `requests` says that answers tell their own figures."""
    yield drafts_accepted(LOG_AND_COUNTERS, USELESS)
    yield accepted_in_requests(
        "the answers' own metrics" if requests else "/metrics before and after our own requests",
        USELESS,
        "accepted-per-request" if requests else "accepted-in-our-traffic",
    )
    yield figures_agree("the log's records, the counters and our own requests agree about acceptance", LOG_AND_COUNTERS)
    tokens = asked.get("num_speculative_tokens")
    if (
        isinstance(tokens, int)
        and method not in WITHOUT_DRAFT
        and not asked.get("num_speculative_tokens_per_batch_size")
    ):
        yield Claim(
            name="draft-depth",
            plane="speculation",
            statement=f"{tokens} tokens are drafted for each step",
            metric="speculation.depth",
            relation="within",
            expected=[tokens, round(DEPTH_TOLERANCE * tokens, 3)],
            source="/metrics before and after our own requests",
            remedy="another number of drafts is in effect than asked for: see the configuration line in the log",
        )
