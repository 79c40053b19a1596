"""Intervals for means, shares and relative changes of small samples."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev, variance
from typing import NamedTuple

RESOLUTION = 0.005
"""Half a unit of the last digit that engines print: figures rounded to two digits cannot prove more."""


class Bounds(NamedTuple):
    """One-sided bounds around an estimate: the truth is below `low` with the one error, above `high` with the other."""

    low: float
    middle: float
    high: float


def mean_bounds(samples: Sequence[float], below: float, above: float, resolution: float = RESOLUTION) -> Bounds:
    """Student's t bounds of the mean; needs at least two samples (ValueError below that)."""
    if len(samples) < 2:
        raise ValueError("an interval needs at least two samples")
    middle, freedom = fmean(samples), len(samples) - 1
    error = max(stdev(samples), resolution) / math.sqrt(len(samples))
    low = middle - student_t(1 - below, freedom) * error
    return Bounds(low, middle, middle + student_t(1 - above, freedom) * error)


def share_bounds(ones: int, count: int, below: float, above: float) -> Bounds:
    """Exact (Clopper-Pearson) bounds of a proportion of `ones` in `count`; ValueError for a count of 0."""
    if count < 1:
        raise ValueError("a share needs at least one sample")
    low = 0.0 if ones == 0 else _bisected(lambda p: 1 - _at_most(ones - 1, count, p) < below)
    high = 1.0 if ones == count else _bisected(lambda p: _at_most(ones, count, p) > above)
    return Bounds(low, ones / count, high)


LEAST_SPREAD = 1e-3
"""Relative: figures that repeat themselves exactly prove no change smaller than what they are rounded to."""


def change_bounds(new: Sequence[float], old: Sequence[float], below: float, above: float) -> Bounds:
    """Bounds of the relative change of the (geometric) mean from `old` to `new`, 0.12 for 12 % more: Welch's t on the
    logarithms. ValueError for fewer than two samples of either, or for one that is not above zero."""
    if min(len(new), len(old)) < 2 or min(*new, *old) <= 0:
        raise ValueError("a change needs at least two samples of each side, all above zero")
    logs = [[math.log(value) for value in side] for side in (new, old)]
    errors = [max(variance(side), LEAST_SPREAD**2) / len(side) for side in logs]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(side) - 1) for e, side in zip(errors, logs, strict=True))
    middle, error = fmean(logs[0]) - fmean(logs[1]), math.sqrt(sum(errors))
    whole = max(1, math.floor(freedom + 1e-6))  # the smaller number of degrees of freedom: wider, never narrower
    low = middle - student_t(1 - below, whole) * error
    high = middle + student_t(1 - above, whole) * error
    return Bounds(*(math.expm1(min(value, _LARGEST_LOG)) for value in (low, middle, high)))


_LARGEST_LOG = 700.0


def _at_most(ones: int, count: int, p: float) -> float:
    """Probability of at most `ones` in `count` draws."""
    if p <= 0 or p >= 1:
        return 1.0 if p <= 0 or ones >= count else 0.0
    terms = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) + k * math.log(p)
        + (count - k) * math.log1p(-p) for k in range(ones + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def _bisected(below: Callable[[float], bool]) -> float:
    """Where `below` turns from true to false between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


def mean_interval(samples: Sequence[float], confidence: float) -> tuple[float, float]:
    """Two-sided Student's t interval of the mean; needs at least two samples (ValueError below that).

    Samples without any spread still get the width of what they are rounded to.
    """
    error = (1 - confidence) / 2
    bounds = mean_bounds(samples, error, error)
    return bounds.low, bounds.high


def student_t(p: float, freedom: int) -> float:
    """Quantile of Student's t for 0.5 < p <= 1, exact for 1 and 2 degrees of freedom, else by bisection on the
    distribution; infinite for p = 1."""
    if p >= 1:
        return math.inf
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    low, high = 0.0, 2.0
    while _t_cdf(high, freedom) < p and high < 1e9:  # the largest p below 1 may round away
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, freedom) < p else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, freedom: int) -> float:
    """Distribution function for t >= 0 by the series for whole degrees of freedom (Abramowitz and Stegun 26.7.3-4)."""
    theta = math.atan2(t, math.sqrt(freedom))
    cos2, sin = math.cos(theta) ** 2, math.sin(theta)
    term, total = 1.0, 0.0
    if freedom % 2:
        for k in range(1, freedom - 1, 2):
            total += term
            term *= cos2 * (k + 1) / (k + 2)
        return 0.5 + (theta + sin * math.cos(theta) * total) / math.pi
    for k in range(1, freedom, 2):
        total += term
        term *= cos2 * k / (k + 1)
    return 0.5 + sin * total / 2
