"""A lease told from the end of its stream is the lease that the whole stream tells."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from state.events import Event, encode
from state.leases import Lease, SubjectLeased, SubjectReleased, lease_of, whole
from state.store.chain import seal
from state.store.port import GENESIS, RecordedEvent

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
rollouts = st.sampled_from(("r1", "r2", "r3"))
leased = st.builds(
    lambda rollout: SubjectLeased(rollout=rollout, holder=f"of {rollout}", reason="so", until="2026-01-01T13:00:00Z"),
    rollouts,
)
released = st.builds(lambda rollout: SubjectReleased(rollout=rollout), rollouts)
histories = st.lists(leased | released, max_size=12)


def recorded(events: Sequence[Event]) -> list[RecordedEvent]:
    sealed = seal("host-a:22", 0, GENESIS, [encode(event) for event in events], NOON)
    return [one.recorded(number) for number, one in enumerate(sealed, 1)]


@given(histories, st.integers(0, 12))
def test_an_end_that_says_it_suffices_gives_the_lease_of_the_whole_stream(events: list[Event], count: int) -> None:
    history = recorded(events)
    tail = history[max(0, len(history) - count) :]
    if whole(tail) and (tail or not history):
        assert lease_of(tail) == lease_of(history)
    if whole(tail, numbered=False) and (tail or not history):
        assert unnumbered(lease_of(tail)) == unnumbered(lease_of(history))


@given(histories)
def test_the_whole_stream_suffices(events: list[Event]) -> None:
    assert whole(recorded(events))


def test_the_turn_of_another_rollout_suffices_and_a_renewal_does_only_without_its_number() -> None:
    def of(rollout: str) -> SubjectLeased:
        return SubjectLeased(rollout=rollout, holder="h", reason="so", until="2026-01-01T13:00:00Z")

    history = recorded([of("r1"), of("r1"), of("r2"), of("r2")])
    assert whole(history[1:])
    assert not whole(history[2:])
    assert whole(history[3:], numbered=False)
    assert (lease_of(history[1:]).number, lease_of(history[3:]).rollout) == (3, "r2")


def unnumbered(lease: Lease) -> Lease:
    return lease.model_copy(update={"number": 0})
