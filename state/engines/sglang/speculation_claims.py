"""What must hold of speculation in SGLang while it serves: that drafts are accepted, or that nothing is drafted."""

from collections.abc import Iterator
from functools import partial

from state.claims import Claim, Undecidable
from state.drafting_claims import DISAGREEMENT, accepted_in_requests, drafts_accepted, figures_agree, nothing_drafted
from state.target import Target

USELESS = (
    "the draft accepts nothing: check that the checkpoint holds `mtp.` tensors (model.safetensors.index.json) and that "
    "the draft is not quantised like the target (`speculative_draft_model_quantization: unquant`)"
)


def plain() -> Iterator[Claim]:
    """Where no speculation is asked for."""
    yield nothing_drafted("engine log", "decode records carry no acceptance figures")


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
        yield drafts_accepted("engine log", USELESS, "the scheduler reports accepted drafts")
        yield accepted_in_requests("meta_info of /generate", USELESS)
    yield figures_agree("log and per-request figures of acceptance agree", "engine log and meta_info")
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
