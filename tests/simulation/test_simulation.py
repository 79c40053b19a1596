"""Some hundreds of simulated rollouts; `make simulate SEEDS=20000` runs as many as one likes."""

import pytest

from tests.simulation.faults import KINDS, Fault, draw
from tests.simulation.simulate import run, told

CHUNK, CHUNKS = 50, 4


@pytest.mark.parametrize("first", range(0, CHUNK * CHUNKS, CHUNK))
def test_no_invariant_is_broken(first: int) -> None:
    broken = [told(found) for found in map(run, range(first, first + CHUNK)) if found.broken]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("seed", [0, 5, 13, 27])
def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    assert run(seed) == run(seed)


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {fault.kind for seed in range(2000) for fault in draw(seed)}
    assert drawn == set(KINDS)


MENDED = [
    pytest.param(
        117,
        ["killed-before-append@12", "killed-after-append@26"],
        "promoted",
        id="the other host's timer acts during the way back",
    ),
    pytest.param(169, ["store-slow@33(1)", "store-lost-before@18"], "promoted", id="it acts while the store is slow"),
    pytest.param(
        238, ["paused-at-append@6(200)"], "promoted", id="the lease of a rollout that has ended is not taken again"
    ),
    pytest.param(
        306,
        ["refuted@0", "killed-during-trip@80(0.01)"],
        "rolled-back",
        id="what a unit did before the restoring is redone",
    ),
    pytest.param(384, ["paused-at-trip@7(900)"], "promoted", id="an orchestrator that was away does not mark the host"),
    pytest.param(
        394, ["killed-before-append@16", "killed-after-append@32"], "rolled-back", id="the restoring is waited for"
    ),
    pytest.param(
        1475,
        ["cut-before-trip@78", "paused-at-trip@46(900)"],
        "rolled-back",
        id="nor does it stop the next one's units",
    ),
    pytest.param(
        1806,
        ["cancelled-at-trip@54(1)", "killed-during-trip@32(2)"],
        "rolled-back",
        id="a start before the restoring is void",
    ),
    pytest.param(
        2179,
        ["hangs@48", "rebooted@54", "old-crashes@0(2)"],
        "promoted",
        id="a reboot's start with the new file is ended first",
    ),
    pytest.param(247, ["killed-before-trip@3", "paused-at-append@9(200)"], "promoted", id="nor takes a lease"),
    pytest.param(1277, ["killed-after-trip@76", "argv-fails@78(2)"], "promoted", id="an unreadable mark is nobody's"),
    pytest.param(
        15577,
        ["store-lost-after@25", "cut-after-trip@39", "killed-after-trip@52"],
        "promoted",
        id="a host is not marked for a fact that the store has taken",
    ),
    pytest.param(
        3415, ["hangs@40", "network-away@34(900)"], "stranded", id="who waits for a restoring is not taken over"
    ),
    pytest.param(
        3415,
        ["hangs@46", "network-away@44(900)"],
        "stranded",
        id="and its way back does not begin anew for ever",
    ),
    pytest.param(
        10169,
        ["store-slow@36(8)", "new-dies@0(2)", "deaf@0"],
        "rolled-back",
        id="the timers' renewals do not wait for a slow store",
    ),
    pytest.param(231, ["store-away-late@33(200)"], "promoted", id="nobody goes on elsewhere without what was spooled"),
    pytest.param(704, ["store-away@24(900)"], "promoted", id="nor once its orchestrator has ended"),
    pytest.param(
        1026,
        ["store-away-late@41(45)", "second-takes-over@19", "killed-after-call@127", "store-away-late@152(5)"],
        "rolled-back",
        id="what can no longer come in is gone back over without",
    ),
    pytest.param(
        48,
        ["store-away-late@148(45)", "paused-at-append@51(200)", "killed-after-append@38"],
        "rolled-back",
        id="one that was overtaken spools into a file of its own",
    ),
    pytest.param(
        952,
        ["paused-at-append@42(200)", "paused-at-trip@63(45)"],
        "rolled-back",
        id="a restoring that ends the old one's start strands nobody",
    ),
    pytest.param(
        5687,
        ["killed-after-call@46", "paused-at-trip@63(200)", "paused-at-append@7(45)"],
        "rolled-back",
        id="units of a way back that the history does not know are not joined",
    ),
    pytest.param(
        7445,
        ["open@0", "paused-at-append@52(200)"],
        "rolled-back",
        id="what was read while a host restored itself refutes nothing",
    ),
    pytest.param(
        8289,
        ["store-lost-before@53", "second-takes-over@58", "store-lost-after@45", "killed-after-trip@76"],
        "rolled-back",
        id="a host that is ahead begins the way back anew",
    ),
    pytest.param(
        4964, ["cancelled-at-trip@46(5)", "rebooted@50"], "rolled-back", id="a unit that is gone is not there to stop"
    ),
    pytest.param(
        2319,
        ["clock-jumps@7(-3600)", "killed-before-append@57", "store-away@24(900)", "deaf@0"],
        "promoted",
        id="a clock put back is no boot",
    ),
    pytest.param(
        5127,
        ["network-away@34(900)", "paused-at-append@5(900)"],
        "stranded",
        id="a stranded rollout's lease is not given back by an orchestrator that was away",
    ),
    pytest.param(
        13,
        ["gpu-host-rebooted@80"],
        "rolled-back",
        id="a boot of the GPU host in the midst of the proof takes the map of drivers away",
    ),
]


@pytest.mark.parametrize(("seed", "faults", "outcome"), MENDED)
def test_what_was_found_stays_mended(seed: int, faults: list[str], outcome: str) -> None:
    """Where a fault befalls nothing any more, or the end is another, the product's round trips have moved under its
    number: it is to be pinned anew, so that the history is again the one that the id speaks of."""
    found = run(seed, [Fault.of(text) for text in faults])
    assert not found.broken, told(found)
    assert (found.outcomes, found.left) == ((outcome,), ())
