"""Intervals against published quantiles, and against a seeded simulation of what they promise."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.interval import mean_bounds, student_t


def interval(samples: list[float], confidence: float) -> tuple[float, float]:
    """With the same error on both sides."""
    error = (1 - confidence) / 2
    bounds = mean_bounds(samples, error, error)
    return bounds.low, bounds.high


@pytest.mark.parametrize(
    ("freedom", "p", "expected"),
    [
        (1, 0.975, 12.706), (2, 0.975, 4.303), (3, 0.975, 3.182), (4, 0.975, 2.776), (5, 0.975, 2.571),
        (9, 0.975, 2.262), (10, 0.975, 2.228), (30, 0.975, 2.042), (120, 0.975, 1.980), (1, 0.75, 1.000),
        (2, 0.75, 0.8165), (3, 0.75, 0.765), (5, 0.9, 1.476), (5, 0.95, 2.015), (5, 0.995, 4.032), (1, 0.995, 63.657),
        (3, 0.9995, 12.924), (4, 0.9995, 8.610), (3, 0.9999995, 130.2),
    ],
)  # fmt: skip
def test_published_quantiles(freedom: int, p: float, expected: float) -> None:
    assert student_t(p, freedom) == pytest.approx(expected, rel=6e-4)


def test_many_samples_come_to_the_normal_quantile() -> None:
    assert student_t(0.975, 5000) == pytest.approx(1.96, abs=1e-3)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8])
def test_certainty_takes_everything(freedom: int) -> None:
    assert student_t(1.0, freedom) == math.inf


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 101])
def test_almost_certainty_ends(freedom: int) -> None:
    assert student_t(math.nextafter(1.0, 0.0), freedom) > 7


@given(st.integers(1, 60), st.floats(0.51, 0.999), st.floats(0.51, 0.999))
def test_more_confidence_is_wider_and_more_samples_are_narrower(freedom: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert student_t(low, freedom) <= student_t(high, freedom) + 1e-9
    assert student_t(high, freedom + 1) <= student_t(high, freedom) + 1e-9


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30), st.floats(0.5, 0.999))
def test_the_mean_is_inside(samples: list[float], confidence: float) -> None:
    low, high = interval(samples, confidence)
    assert low < sum(samples) / len(samples) + 1e-6
    assert high > sum(samples) / len(samples) - 1e-6


@given(st.lists(st.floats(0, 100), min_size=2, max_size=10), st.floats(-50, 50))
def test_it_moves_with_its_samples(samples: list[float], shift: float) -> None:
    low, high = interval(samples, 0.95)
    moved_low, moved_high = interval([s + shift for s in samples], 0.95)
    assert moved_low == pytest.approx(low + shift, abs=1e-6)
    assert moved_high == pytest.approx(high + shift, abs=1e-6)


@pytest.mark.parametrize("samples", [[], [6.0]], ids=["none", "one"])
def test_too_few_samples_have_no_interval(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="two samples"):
        interval(samples, 0.95)


def test_samples_without_spread_still_have_a_width() -> None:
    low, high = interval([2.0] * 6, 0.95)
    assert 0 < high - low < 0.02


@pytest.mark.parametrize(
    ("count", "confidence"),
    [(3, 0.95), (6, 0.95), (6, 0.8), (20, 0.9)],
    ids=["3 at 95", "6 at 95", "6 at 80", "20 at 90"],
)
def test_it_covers_the_true_mean_as_often_as_it_says(count: int, confidence: float) -> None:
    chance = random.Random(20260309)
    runs = 2000
    covered = 0
    for _ in range(runs):
        low, high = interval([chance.gauss(3.0, 0.8) for _ in range(count)], confidence)
        covered += low <= 3.0 <= high
    assert covered / runs == pytest.approx(confidence, abs=0.025)
