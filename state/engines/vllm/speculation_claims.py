"""What must hold of speculation in vLLM while it serves: that drafts are accepted, or that nothing is drafted."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from state.claims import Claim
from state.engines.vllm.flags import WITHOUT_DRAFT

USELESS = (
    "the draft accepts nothing: check that the checkpoint holds MTP tensors (model.safetensors.index.json), and that "
    "the draft belongs to this model"
)

DISAGREEMENT = 0.3
"""Relative: the log's windows are of all traffic since the start, ours and others', so they differ from our own."""

DEPTH_TOLERANCE = 0.1
"""Of the drafts for each step: the last steps of a request draft fewer where its tokens end before them."""


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


def accepted(asked: Mapping[str, Any], method: str | None, *, requests: bool) -> Iterator[Claim]:
    """Where it is: counters and log say so, and agree. `requests` says that answers tell their own figures."""
    claim = partial(Claim, plane="speculation")
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
        name="accepted-per-request" if requests else "accepted-in-our-traffic",
        statement="our own requests were served with accepted drafts",
        metric="requests.accept_length",
        relation="at-least",
        expected=1.05,
        confidence=0.95,
        minimum_sample=3,
        source="the answers' own metrics" if requests else "/metrics before and after our own requests",
        remedy=USELESS,
    )
    yield claim(
        name="figures-agree",
        statement="the log's records, the counters and our own requests agree about acceptance",
        metric="speculation.disagreement",
        relation="at-most",
        expected=DISAGREEMENT,
        source="engine log and /metrics",
        remedy="one of the figures means something else in this release: compare them in `interlock show`",
    )
    tokens = asked.get("num_speculative_tokens")
    if (
        isinstance(tokens, int)
        and method not in WITHOUT_DRAFT
        and not asked.get("num_speculative_tokens_per_batch_size")
    ):
        yield claim(
            name="draft-depth",
            statement=f"{tokens} tokens are drafted for each step",
            metric="speculation.depth",
            relation="within",
            expected=[tokens, round(DEPTH_TOLERANCE * tokens, 3)],
            source="/metrics before and after our own requests",
            remedy="another number of drafts is in effect than asked for: see the configuration line in the log",
        )
