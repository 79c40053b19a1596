"""Claims about speculative decoding that mean the same whichever engine decodes; each says where it reads them."""

from functools import partial

from state.claims import Claim, Doubt

_claim = partial(Claim, plane="speculation")

MECHANISM = 1.05
"""Accept length that proves the mechanism and nothing of its tuning: some drafts are accepted."""

DISAGREEMENT = 0.3
"""Relative. A log's records are of everybody's traffic over windows of their own, so they differ from our requests."""


def nothing_drafted(source: str, statement: str = "nothing is drafted while it decodes") -> Claim:
    """Where no speculation is asked for."""
    return _claim(
        name="speculation-off",
        statement=statement,
        metric="speculation.state",
        relation="equals",
        expected="off",
        source=source,
        remedy="speculation runs although it is not asked for: see `systemctl cat`",
    )


def drafts_accepted(source: str, remedy: str, statement: str = "drafts are made and accepted") -> Claim:
    """The engine itself says so."""
    return _claim(
        name="speculation-active",
        statement=statement,
        metric="speculation.state",
        relation="equals",
        expected="active",
        source=source,
        remedy=remedy,
    )


def accepted_in_requests(source: str, remedy: str, name: str = "accepted-per-request") -> Claim:
    """Our own requests show it."""
    return _claim(
        name=name,
        statement="our own requests were served with accepted drafts",
        metric="requests.accept_length",
        relation="at-least",
        expected=MECHANISM,
        confidence=0.95,
        minimum_sample=3,
        source=source,
        remedy=remedy,
    )


def figures_agree(statement: str, source: str, release: str = "release", doubt: Doubt | None = None) -> Claim:
    """Two sources of one figure contradict each other where one of them means something else."""
    return _claim(
        name="figures-agree",
        statement=statement,
        metric="speculation.disagreement",
        relation="at-most",
        expected=DISAGREEMENT,
        source=source,
        remedy=f"one of the figures means something else in this {release}: compare them in `interlock show`",
        doubt=doubt,
    )
