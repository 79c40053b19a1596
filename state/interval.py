"""Intervals for means, shares and relative changes of small samples."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median, stdev, variance
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
    """Bounds of the relative change from `old` to `new`, 0.12 for 12 % more, both in the order of their taking.

    On the logarithms, the wider of Welch's t and of the Mann-Whitney interval of the shift, whose middle is the
    Hodges-Lehmann estimate: the first knows nothing of rare slow repeats, the second nothing of unequal spreads. Both
    are widened where neighbouring samples resemble each other, since these count for fewer. ValueError for fewer than
    two samples of either side, or for one that is not above zero.
    """
    if min(len(new), len(old)) < 2 or min(*new, *old) <= 0:
        raise ValueError("a change needs at least two samples of each side, all above zero")
    after, before = [math.log(value) for value in new], [math.log(value) for value in old]
    shift = shift_bounds(after, before, below, above)
    mean = _welch(after, before, below, above)
    wider = math.sqrt(max(_inflation(after), _inflation(before)))
    low = shift.middle - wider * (shift.middle - min(shift.low, mean.low, shift.middle))
    high = shift.middle + wider * (max(shift.high, mean.high, shift.middle) - shift.middle)
    return Bounds(*(math.expm1(min(value, _LARGEST_LOG)) for value in (low, shift.middle, high)))


_LARGEST_LOG = 7.0
"""About a thousand times as much: what so few samples cannot exclude is shown no larger."""


def shift_bounds(new: Sequence[float], old: Sequence[float], below: float, above: float) -> Bounds:
    """By how much `new` lies above `old`: Hodges-Lehmann estimate with the bounds of the Mann-Whitney test; infinite
    where so few samples cannot exclude with so small an error."""
    apart = sorted(a - b for a in new for b in old)
    low, high = (_rank_bound(len(new), len(old), error) for error in (below, above))
    return Bounds(apart[low - 1] if low else -math.inf, median(apart), apart[len(apart) - high] if high else math.inf)


def _rank_bound(m: int, n: int, error: float) -> int:
    """The largest k with P(U < k) <= error for the Mann-Whitney U of m and n samples: the k-th smallest difference is
    a lower bound of the shift. Exact for small samples, else by the normal approximation."""
    if m + n <= _EXACT:
        total, seen = math.comb(m + n, m), 0
        for k, count in enumerate(_rank_counts(m, n)):
            seen += count
            if seen > error * total:
                return k
    z = student_t(1 - error, _NORMAL)
    return max(0, math.floor(m * n / 2 - z * math.sqrt(m * n * (m + n + 1) / 12)))


_EXACT = 40
_NORMAL = 10_000
"""Degrees of freedom at which Student's t is the normal distribution to four digits."""


@lru_cache(maxsize=256)
def _rank_counts(m: int, n: int) -> tuple[int, ...]:
    """How many arrangements of m and n samples have each value of U, 0 to m*n (Mann and Whitney's recurrence)."""
    counts = [[1] + [0] * (m * n) for _ in range(m + 1)]
    for size in range(1, n + 1):
        for chosen in range(1, m + 1):
            row, before = counts[chosen], counts[chosen - 1]
            counts[chosen] = [
                (before[u - size] if u >= size else 0) + row[u] if chosen else row[u] for u in range(m * n + 1)
            ]
    return tuple(counts[m])


def _welch(new: Sequence[float], old: Sequence[float], below: float, above: float) -> Bounds:
    errors = [max(variance(side), LEAST_SPREAD**2) / len(side) for side in (new, old)]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(side) - 1) for e, side in zip(errors, (new, old), strict=True))
    middle, error = fmean(new) - fmean(old), math.sqrt(sum(errors))
    whole = max(1, math.floor(freedom + 1e-6))  # the smaller number of degrees of freedom: wider, never narrower
    low = middle - student_t(1 - below, whole) * error
    return Bounds(low, middle, middle + student_t(1 - above, whole) * error)


def _inflation(series: Sequence[float]) -> float:
    """By how much the variance of a mean grows because neighbours resemble each other: (1 + r) / (1 - r) with the first
    autocorrelation r, corrected for its bias in short series; 1 for independent samples and below six of them."""
    count = len(series)
    middle = fmean(series)
    spread = math.fsum((value - middle) ** 2 for value in series)
    if count < 6 or spread <= (LEAST_SPREAD**2) * count:
        return 1.0
    products = ((a - middle) * (b - middle) for a, b in pairwise(series))
    r = min(0.8, math.fsum(products) / spread + 1 / count)
    return max(1.0, (1 + r) / (1 - r))


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


@lru_cache(maxsize=4096)
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
