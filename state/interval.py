"""Intervals for means of small samples."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def mean_interval(samples: Sequence[float], confidence: float) -> tuple[float, float]:
    """Two-sided Student's t interval of the mean; needs at least two samples (ValueError below that).

    Samples without any spread still get a width: half a unit of the last digit that engines print (0.005), since
    figures rounded to two digits cannot prove more.
    """
    count = len(samples)
    if count < 2:
        raise ValueError("an interval needs at least two samples")
    spread = max(stdev(samples), 0.005)
    half = student_t(0.5 + confidence / 2, count - 1) * spread / math.sqrt(count)
    return fmean(samples) - half, fmean(samples) + half


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
