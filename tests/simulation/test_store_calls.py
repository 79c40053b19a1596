"""Each call on the store of a simulated rollout, one after the other: it fails, it is not answered, the store stays
away from it on, the orchestrator dies before it or after it. The invariants are checked after each."""

import os

import pytest

from tests.simulation.faults import LONG_S, Fault
from tests.simulation.simulate import run, told

EVERY = os.environ.get("INTERLOCK_EVERY_MOMENT") == "1"
STRIDE = 1 if EVERY else 24
LEAST_CALLS = 80

KINDS = [
    pytest.param("store-call-fails", 0.0, id="fails"),
    pytest.param("store-answer-lost", 0.0, id="is-not-answered"),
    pytest.param("store-away-late", 5.0, id="and-all-that-follow-for-a-while"),
    pytest.param("store-away-late", LONG_S, id="and-all-that-follow-until-after-the-end"),
    pytest.param("killed-before-call", 0.0, id="is-not-made"),
    pytest.param("killed-after-call", 0.0, id="is-the-last"),
]


@pytest.mark.parametrize("refuted", [pytest.param(False, id="forward"), pytest.param(True, id="back")])
@pytest.mark.parametrize(("kind", "amount"), KINDS)
def test_no_call_on_the_store_is_one_too_many_to_fail(kind: str, amount: float, refuted: bool) -> None:
    also = [Fault("refuted")] if refuted else []
    at, broken = 1 + len(kind) % STRIDE, []
    while not (found := run(4, [Fault(kind, at, amount), *also])).left:
        broken += [told(found)] if found.broken else []
        at += STRIDE
    assert not broken, "\n".join(broken)
    assert at > LEAST_CALLS


@pytest.mark.parametrize("second", [1, 4, 9, 16, 25, 36, 49])
def test_whoever_dies_while_facts_are_spooled_or_flushed_leaves_them_to_the_next(second: int) -> None:
    """The store goes away at one call and is back after a while; then the orchestrator dies some calls later."""
    stride, broken = (8 if EVERY else 36), []
    for first in range(34 + second % stride, 110, stride):
        for kind in ("killed-before-call", "killed-after-call", "killed-within-line"):
            at = first + second if kind != "killed-within-line" else 14 + second
            found = run(4, [Fault("store-away-late", first, 5.0), Fault(kind, at)])
            broken += [told(found)] if found.broken else []
    assert not broken, "\n".join(broken)
