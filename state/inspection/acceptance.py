"""Acceptance figures folded from records, in memory that does not grow with their number."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from state.inspection.events import Configured, Decoded, Drafted
from state.inspection.report import AcceptLength, AcceptRate

_DIVISORS = range(1, 65)
_ALL = (1 << (len(_DIVISORS) + 1)) - 1
_PAIRS_KEPT = 256
_PAIRS_COUNTED = 4096
_ROUNDING = 0.0051
_BLOCK_DRAFTERS = frozenset({"DFLASH", "DSPARK"})


@dataclass(slots=True)
class Figures:
    """Count, sum, extremes and last of a figure."""

    count: int = 0
    total: float = 0.0
    low: float = 0.0
    high: float = 0.0
    last: float = 0.0

    def add(self, value: float) -> None:
        self.low = value if not self.count or value < self.low else self.low
        self.high = value if not self.count or value > self.high else self.high
        self.count += 1
        self.total += value
        self.last = value

    def add_counted(self, counts: Iterable[tuple[float, int]]) -> None:
        """Values with how often each came; they say nothing about which came last."""
        for value, count in counts:
            self.low = value if not self.count or value < self.low else self.low
            self.high = value if not self.count or value > self.high else self.high
            self.count += count
            self.total += value * count

    @property
    def mean(self) -> float:
        return self.total / self.count

    def as_length(self, mean: float | None = None) -> AcceptLength:
        return AcceptLength(_round(self.mean if mean is None else mean), self.low, self.high, self.last)


def _round(value: float) -> float:
    return round(value, 6)


@dataclass(slots=True)
class RateDefinition:
    """Which definition the printed rates follow, from records that show length and rate.

    With k drafts a step, strict is (length - 1) / k and bonus-included is length / m. Each k and m that explains every
    record is kept as a bit; one definition is proved when the other explains none.
    """

    strict: int = _ALL
    bonus: int = _ALL
    seen: set[tuple[float, float]] = field(default_factory=set)

    @property
    def open(self) -> bool:
        """Whether more pairs are wanted."""
        return len(self.seen) < _PAIRS_KEPT

    def add(self, length: float, rate: float) -> None:
        if (length, rate) in self.seen or len(self.seen) >= _PAIRS_KEPT:
            return
        self.seen.add((length, rate))
        self.strict &= _mask(length - 1.0, rate)
        self.bonus &= _mask(length, rate)

    def proved(self) -> str | None:
        if not self.seen or bool(self.strict) == bool(self.bonus):
            return None
        return "strict" if self.strict else "bonus-included"


def _mask(numerator: float, rate: float) -> int:
    return sum(1 << d for d in _DIVISORS if abs(numerator / d - rate) <= _ROUNDING + 0.0051 / d)


@dataclass(slots=True)
class Acceptance:
    """Acceptance of one boot, from lengths and rates (SGLang) or counts (vLLM, forks)."""

    lengths: Figures = field(default_factory=Figures)
    rates: Figures = field(default_factory=Figures)
    definition: RateDefinition = field(default_factory=RateDefinition)
    bonus_hint: bool = False
    samples: int = 0
    accepted: int | None = None
    drafted: int | None = None
    counted_steps: float = 0.0
    steps_known: bool = True
    positions: list[Figures] = field(default_factory=list)
    last_total: Drafted | None = None
    pairs: Counter[bytes] = field(default_factory=Counter)
    """Lengths and rates as they were printed, whose figures have not been added yet."""

    def add_record(self, record: Decoded) -> None:
        """A decode record that shows acceptance. A drain tail is not used."""
        if record.tokens == 0:
            return
        length, rate = record.accept_length, record.accept_rate
        if length is None and rate is None and record.drafted is None:
            return
        self.samples += 1
        if length is not None:
            self.lengths.add(length)
        if rate is not None:
            self.rates.add(rate)
            self.bonus_hint = self.bonus_hint or bool(record.bonus_hint)
            if length is not None:
                self.definition.add(length, rate)
        self._count(record.accepted, record.drafted)

    def add_many(self, like: Decoded, columns: Mapping[str, Sequence[bytes]], drained: Sequence[int] = ()) -> None:
        """The same for many records of one shape; those at the places of `drained` are drain tails."""
        if pairs := columns.get("pair"):
            self._add_pairs(like, pairs, drained)
            return
        lengths, rates = _without(columns.get("length", ()), drained), _without(columns.get("rate", ()), drained)
        self.samples += len(lengths or rates)
        if lengths:
            self.lengths.add_counted((float(value), count) for value, count in Counter(lengths).items())
            self.lengths.last = float(lengths[-1])
        if rates:
            self.rates.add_counted((float(value), count) for value, count in Counter(rates).items())
            self.rates.last = float(rates[-1])
            self.bonus_hint = self.bonus_hint or bool(like.bonus_hint)
        if lengths and rates and self.definition.open:
            for length, rate in dict.fromkeys(zip(lengths, rates, strict=True)):
                self.definition.add(float(length), float(rate))

    def _add_pairs(self, like: Decoded, pairs: Sequence[bytes], drained: Sequence[int]) -> None:
        """Few pairs differ, so they are counted first, and read when somebody asks or there are many."""
        left_out = set(drained)
        last = next((at for at in range(len(pairs) - 1, -1, -1) if at not in left_out), None)
        if last is None:
            return
        self.pairs.update(pairs)
        self.pairs.subtract(pairs[at] for at in drained)
        self.samples += len(pairs) - len(drained)
        self.lengths.last, self.rates.last = _figures_of(pairs[last])
        self.bonus_hint = self.bonus_hint or bool(like.bonus_hint)
        if len(self.pairs) > _PAIRS_COUNTED:
            self._read_pairs()

    def _read_pairs(self) -> None:
        counts = [(*_figures_of(pair), count) for pair, count in self.pairs.items() if count]
        self.pairs.clear()
        self.lengths.add_counted((length, count) for length, _, count in counts)
        self.rates.add_counted((rate, count) for _, rate, count in counts)
        for length, rate, _ in counts:
            self.definition.add(length, rate)

    def add_window(self, window: Drafted) -> None:
        """A window of counts, or a running total, of which the last one holds the sum."""
        if window.total:
            self.last_total = window
            return
        if not window.drafted:
            return
        self.samples += 1
        self._count(window.accepted, window.drafted)
        if window.accept_length is not None:
            self.lengths.add(window.accept_length)
        if window.accept_rate is not None:
            self.rates.add(window.accept_rate)
        self._positions(window.per_position)
        steps = _steps(window)
        self.steps_known = self.steps_known and steps is not None
        self.counted_steps += steps or 0.0

    def _count(self, accepted: int | None, drafted: int | None) -> None:
        if accepted is not None and drafted is not None:
            self.accepted = (self.accepted or 0) + accepted
            self.drafted = (self.drafted or 0) + drafted

    def _positions(self, rates: tuple[float, ...] | None) -> None:
        for index, rate in enumerate(rates or ()):
            if index == len(self.positions):
                self.positions.append(Figures())
            self.positions[index].add(rate)

    def finished(self) -> "Acceptance":
        """With everything taken in that was put off: pairs, and the last one of running totals."""
        self._read_pairs()
        if self.last_total is None:
            return self
        total = self.last_total
        whole = Acceptance()
        whole.add_window(
            Drafted(total.accepted, total.drafted, total.accept_length, total.accept_rate, None, total.per_step)
        )
        return whole

    def length(self, configured: Configured) -> AcceptLength | None:
        """Tokens for each target step: pooled where there are counts, else the plain mean of the records."""
        pooled = self._pooled(configured)
        if self.lengths.count:
            return self.lengths.as_length(pooled)
        return AcceptLength(_round(pooled), _round(pooled), _round(pooled), _round(pooled)) if pooled else None

    def _pooled(self, configured: Configured) -> float | None:
        if self.accepted is None or not self.drafted:
            return None
        steps = self.counted_steps if self.steps_known else 0.0
        if configured.num_steps and configured.topk in (None, 1):
            steps = self.drafted / configured.num_steps
        return 1.0 + self.accepted / steps if steps else None

    def rate(self, configured: Configured) -> AcceptRate | None:
        """Strict wherever it can be computed, else as printed if the records show by which definition."""
        if self.accepted is not None and self.drafted:
            return AcceptRate(_round(self.accepted / self.drafted), "strict")
        drafts = drafts_per_step(configured)
        if drafts and configured.topk in (None, 0, 1) and self.lengths.count and self.lengths.mean - 1.0 <= drafts:
            return AcceptRate(_round((self.lengths.mean - 1.0) / drafts), "strict")
        if not self.rates.count:
            return None
        printed = self.definition.proved() or ("bonus-included" if self.bonus_hint else None)
        if printed == "bonus-included":
            return AcceptRate(_round(self.rates.mean), "bonus-included")
        if printed == "strict" or self.definition.seen:
            return AcceptRate(_round(self.rates.mean), "strict")
        return AcceptRate(_round(self.rates.mean), "strict") if self.drafted is not None else None

    @property
    def nothing_accepted(self) -> bool:
        if self.lengths.count and self.lengths.high > 1.0:
            return False
        if self.accepted is not None and self.drafted:
            return self.accepted == 0
        return self.lengths.count > 0 or (self.rates.count > 0 and self.rates.high == 0.0)

    def per_position(self) -> tuple[float, ...] | None:
        return tuple(_round(figures.mean) for figures in self.positions) or None


def _figures_of(pair: bytes) -> tuple[float, float]:
    """`2.14, accept rate: 0.38` as its figures."""
    return float(pair[: pair.index(b",")]), float(pair[pair.rindex(b" ") :])


def _without(shown: Sequence[bytes], places: Sequence[int]) -> Sequence[bytes]:
    return list(compress(shown, others_than(places, len(shown)))) if shown and places else shown


def others_than(places: Iterable[int], count: int) -> bytearray:
    """For each of `count` places whether it is none of those given, as `itertools.compress` wants it."""
    chosen = bytearray(b"\1") * count
    for place in places:
        chosen[place] = 0
    return chosen


def drafts_per_step(configured: Configured) -> int | None:
    """Drafts for each target step: the steps if above 0, else the draft tokens less one (NGRAM).

    A block drafter (DFLASH, DSPARK) drafts the whole block in its one step.
    """
    if configured.num_steps and configured.algorithm not in _BLOCK_DRAFTERS:
        return configured.num_steps
    tokens = configured.num_draft_tokens or 0
    return tokens - 1 if tokens > 1 else configured.num_steps


def _steps(window: Drafted) -> float | None:
    """Target steps of one window."""
    if window.drafted is None:
        return None
    per_step = window.per_step or (len(window.per_position) if window.per_position else 0)
    if per_step:
        return window.drafted / per_step
    if window.accept_length is not None and window.accept_length > 1.0 and window.accepted:
        return window.accepted / (window.accept_length - 1.0)
    return None
