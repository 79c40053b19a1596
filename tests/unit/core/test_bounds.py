"""Bounds of shares and of relative changes: known values, coverage, and what more data does."""

import random
from statistics import fmean

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from state.interval import change_bounds, mean_bounds, share_bounds, shift_bounds

positive = st.lists(st.floats(1, 1e3), min_size=3, max_size=20)


@pytest.mark.parametrize(
    ("ones", "count", "low", "high"),
    [
        pytest.param(0, 10, 0.0, 0.3085, id="none of ten"),
        pytest.param(10, 10, 0.6915, 1.0, id="all of ten"),
        pytest.param(5, 10, 0.1871, 0.8129, id="half of ten"),
        pytest.param(95, 100, 0.8872, 0.9836, id="95 of 100"),
        pytest.param(1, 1, 0.025, 1.0, id="one of one"),
    ],
)
def test_shares_have_the_exact_interval_of_clopper_and_pearson(ones: int, count: int, low: float, high: float) -> None:
    bounds = share_bounds(ones, count, 0.025, 0.025)
    assert (bounds.low, bounds.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_share_of_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        share_bounds(0, 0, 0.025, 0.025)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.001, 0.4))
def test_a_share_lies_in_its_bounds(counted: tuple[int, int], error: float) -> None:
    ones, count = counted
    low, middle, high = share_bounds(ones, count, error, error)
    assert 0 <= low <= middle == ones / count <= high <= 1


@pytest.mark.parametrize(
    ("new", "old", "middle"),
    [
        pytest.param([112.0] * 5, [100.0] * 5, 0.12, id="twelve per cent more"),
        pytest.param([70.0] * 5, [100.0] * 5, -0.30, id="thirty per cent less"),
        pytest.param([100.0] * 5, [100.0] * 5, 0.0, id="the same"),
    ],
)
def test_a_change_is_relative_to_the_old(new: list[float], old: list[float], middle: float) -> None:
    bounds = change_bounds(new, old, 0.01, 0.01)
    assert bounds.middle == pytest.approx(middle)
    assert bounds.low < middle < bounds.high


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param([1.0], [1.0, 2.0], id="one new sample"),
        pytest.param([1.0, 2.0], [], id="no baseline"),
        pytest.param([1.0, 0.0], [1.0, 2.0], id="a rate of zero"),
    ],
)
def test_a_change_needs_two_positive_samples_of_each_side(new: list[float], old: list[float]) -> None:
    with pytest.raises(ValueError, match="two samples of each side"):
        change_bounds(new, old, 0.05, 0.05)


@given(positive, positive)
def test_the_way_back_is_the_inverse_change(new: list[float], old: list[float]) -> None:
    there, back = change_bounds(new, old, 0.05, 0.05), change_bounds(old, new, 0.05, 0.05)
    assume(max(there.high, back.high) < 1000)  # beyond it bounds are cut
    assert (1 + there.middle) * (1 + back.middle) == pytest.approx(1)
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1)


@given(positive, positive, st.floats(0.5, 200))
def test_the_unit_of_the_figures_does_not_matter(new: list[float], old: list[float], unit: float) -> None:
    plain = change_bounds(new, old, 0.05, 0.05)
    scaled = change_bounds([unit * v for v in new], [unit * v for v in old], 0.05, 0.05)
    assert scaled == pytest.approx(plain, rel=1e-3, abs=1e-6)


def test_a_change_is_covered_as_often_as_it_says() -> None:
    chance, missed, runs = random.Random(7), 0, 3000
    for _ in range(runs):
        old = [100 * chance.gauss(1, 0.08) for _ in range(6)]
        new = [120 * chance.gauss(1, 0.04) for _ in range(9)]
        bounds = change_bounds(new, old, 0.05, 0.05)
        missed += not bounds.low <= 0.2 <= bounds.high
    assert missed / runs < 0.12  # 0.10 is meant


def test_the_two_sides_of_a_mean_have_errors_of_their_own() -> None:
    samples = [1.0, 2.0, 3.0, 4.0]
    bounds = mean_bounds(samples, 0.001, 0.1)
    assert bounds.middle - bounds.low > 3 * (bounds.high - bounds.middle)
    assert bounds.middle == fmean(samples)


@pytest.mark.parametrize(
    ("new", "old", "low", "high"),
    [
        pytest.param(range(8), range(8), -3.0, 3.0, id="8 and 8: the 14th difference of each end (tables: U = 13)"),
        pytest.param(range(5), range(5), -3.0, 3.0, id="5 and 5: the 3rd (tables: U = 2)"),
        pytest.param(range(10, 13), range(2), -float("inf"), float("inf"), id="3 and 2 exclude nothing at 2.5 %"),
    ],
)
def test_shifts_have_the_interval_of_mann_and_whitney(new: range, old: range, low: float, high: float) -> None:
    bounds = shift_bounds([float(v) for v in new], [float(v) for v in old], 0.025, 0.025)
    assert (bounds.low, bounds.high) == (low, high)


def test_one_slow_repeat_moves_the_estimate_little() -> None:
    old, new = [100.0, 101, 99, 100, 102, 98, 100, 101], [112.0, 113, 111, 112, 114, 110, 112, 113]
    calm, disturbed = (change_bounds(side, old, 0.01, 0.05) for side in (new, [*new[:7], 60.0]))
    assert calm.middle == pytest.approx(0.12, abs=0.005)
    assert disturbed.middle == pytest.approx(calm.middle, abs=0.01)
    assert disturbed.low < calm.low


def test_neighbours_that_resemble_each_other_count_for_fewer() -> None:
    shuffled = [100.0, 104, 98, 103, 97, 105, 99, 102, 101, 96]
    rising, new = sorted(shuffled), [120.0, 121, 119, 120, 122, 118, 120, 121, 119, 120]
    calm, drifting = (change_bounds(new, side, 0.01, 0.05) for side in (shuffled, rising))
    assert drifting.high - drifting.low > 1.5 * (calm.high - calm.low)
