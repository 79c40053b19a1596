"""What must hold of speculation in SGLang while it serves: that drafts are accepted, or that nothing is drafted."""

from collections.abc import Iterator
from functools import partial

from state.claims import Claim, Undecidable
from state.target import Target

USELESS = (
    "the draft accepts nothing: check that the checkpoint holds `mtp.` tensors (model.safetensors.index.json) and that "
    "the draft is not quantised like the target (`speculative_draft_model_quantization: unquant`)"
)

DISAGREEMENT = 0.3
"""Relative: the log's records are of 40 forwards each, and of whoever asked meanwhile, so they differ from a mean."""


def plain() -> Iterator[Claim]:
    """Where no speculation is asked for."""
    yield Claim(
        name="speculation-off",
        plane="speculation",
        statement="decode records carry no acceptance figures",
        metric="speculation.state",
        relation="equals",
        expected="off",
        source="engine log",
        minimum_sample=1,
        remedy="speculation runs although it is not asked for: see `systemctl cat`",
    )


def adaptive(target: Target) -> bool:
    """Whether the engine itself drafts less, or nothing, where that does not pay (`--speculative-adaptive`, 0.5.11)."""
    return bool(target.arguments.get("speculative_adaptive"))


def undecidable(target: Target) -> Iterator[Undecidable]:
    """What the engine's own choice leaves open."""
    if adaptive(target):
        yield Undecidable(
            claim="accepted-per-request",
            plane="speculation",
            why="with speculative_adaptive an accept length of 1.00 is intended where drafting does not pay",
            instead="claim an accept-length of your own",
        )


def accepted(target: Target) -> Iterator[Claim]:
    """Where it is: log, our own requests and, where they are served, metrics say so, and agree."""
    claim = partial(Claim, plane="speculation")
    if adaptive(target):
        yield claim(
            name="speculation-active",
            statement="the scheduler reports acceptance; 1.00 is intended where adaptive drafting does not pay",
            metric="speculation.state",
            relation="one-of",
            expected=["active", "useless"],
            source="engine log",
            remedy="nothing is drafted: see the effective arguments in the log",
        )
    else:
        yield from _drafts_accepted()
    yield claim(
        name="figures-agree",
        statement="log and per-request figures of acceptance agree",
        metric="speculation.disagreement",
        relation="at-most",
        expected=DISAGREEMENT,
        source="engine log and meta_info",
        remedy="one of the figures means something else in this release: compare both in `interlock show`",
    )
    if target.arguments.get("enable_metrics"):
        yield claim(
            name="metrics-agree",
            statement="log and metrics agree about acceptance",
            metric="metrics.disagreement",
            relation="at-most",
            expected=DISAGREEMENT,
            source="/metrics and the engine log",
            remedy="a dashboard would show another figure than the log: compare both in `interlock show`",
        )


def _drafts_accepted() -> Iterator[Claim]:
    claim = partial(Claim, plane="speculation", remedy=USELESS)
    yield claim(
        name="speculation-active",
        statement="the scheduler reports accepted drafts",
        metric="speculation.state",
        relation="equals",
        expected="active",
        source="engine log",
    )
    yield claim(
        name="accepted-per-request",
        statement="our own requests were served with accepted drafts",
        metric="requests.accept_length",
        relation="at-least",
        expected=1.05,
        confidence=0.95,
        minimum_sample=3,
        source="meta_info of /generate",
    )
