"""The simulation finds deliberate faults: each is caught by the invariant that is about it."""

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation

EACH = [pytest.param(mutation, id=mutation.name) for mutation in MUTATIONS]


@pytest.mark.parametrize("mutation", EACH)
def test_a_deliberate_fault_is_caught(mutation: Mutation) -> None:
    names = {line.partition(":")[0] for line in mutation.run().broken}
    assert mutation.caught_by in names


@pytest.mark.parametrize("mutation", EACH)
def test_the_same_run_is_well_without_it(mutation: Mutation) -> None:
    assert mutation.without().broken == ()


def test_there_are_at_least_twelve() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) >= 12
