"""Token buckets: how many requests each token may make, at once and in a second."""

import math
from collections import OrderedDict
from collections.abc import Callable

KEPT = 10_000
"""Buckets that are remembered; one that was forgotten is full again."""


class Buckets:
    """`rate` requests a second for each name, up to `burst` at once; `clock` is monotonic, in seconds."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> int:
        """0 if the request may go on; otherwise whole seconds until one may."""
        now = self._clock()
        level, since = self._levels.pop(name, (float(self._burst), now))
        level = min(float(self._burst), level + (now - since) * self._rate)
        admitted = level >= 1
        self._levels[name] = (level - 1 if admitted else level, now)
        if len(self._levels) > KEPT:
            self._levels.popitem(last=False)
        return 0 if admitted else max(1, math.ceil((1 - level) / self._rate))
