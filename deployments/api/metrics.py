"""Metrics for Prometheus, folded from the store: right after a restart they say what they said before it."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from state.store.connect import Stores
from state.store.listing import measures
from state.store.projections import rows
from state.store.tables import acceptance, services

Row = Mapping[str, Any]

DURATION_S = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)
DARK_S = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0)


class Metrics:
    """The page that Prometheus reads. It is made anew when the history has gone on, since the last one says it all."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._made: tuple[tuple[int, int], bytes] | None = None

    async def page(self, position: int, followers: int) -> bytes:
        """`position` is what the tables have been caught up to, `followers` how many clients follow the events."""
        of = (position, followers)
        if self._made is None or self._made[0] != of:
            self._made = of, await exposition(self._stores, followers)
        return self._made[1]


async def exposition(stores: Stores, followers: int) -> bytes:
    """What the tables say now."""
    lines = await measures(stores.engine)
    kept, points = await rows(stores.engine, services), await rows(stores.engine, acceptance)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Snapshot(lines, kept, points, followers))
    return generate_latest(registry)


class Snapshot(Collector):
    """The tables at one moment, as metrics."""

    def __init__(self, lines: Sequence[Row], kept: Sequence[Row], points: Sequence[Row], followers: int) -> None:
        self._lines, self._kept, self._points, self._followers = lines, kept, points, followers

    def collect(self) -> Iterator[Metric]:
        ended = [line for line in self._lines if line["concluded_at"] is not None]
        yield _counted(ended)
        yield _under_way([line for line in self._lines if line["concluded_at"] is None])
        yield _histogram(
            "interlock_rollout_duration_seconds",
            "From the request of a rollout to its end.",
            ("service", "purpose", "outcome"),
            DURATION_S,
            ended,
            lambda line: (line["service"], line["purpose"], line["state"]),
            lambda line: (line["concluded_at"] - line["requested_at"]).total_seconds(),
        )
        yield _histogram(
            "interlock_dark_seconds",
            "Time without an answer of the service, by rollout.",
            ("service",),
            DARK_S,
            [line for line in ended if line["dark_s"] is not None],
            lambda line: (line["service"],),
            lambda line: float(line["dark_s"]),
        )
        yield _acceptance(self._points)
        yield _proven(self._kept)
        streams = GaugeMetricFamily("interlock_event_streams", "Clients that follow the events.")
        streams.add_metric([], self._followers)
        yield streams


def _counted(ended: Iterable[Row]) -> Metric:
    family = CounterMetricFamily(
        "interlock_rollouts", "Rollouts that have ended.", labels=("service", "purpose", "outcome")
    )
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for line in ended:
        counts[line["service"], line["purpose"], line["state"]] += 1
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _under_way(lines: Iterable[Row]) -> Metric:
    family = GaugeMetricFamily(
        "interlock_rollouts_under_way", "Rollouts that have not ended.", labels=("service", "state")
    )
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for line in lines:
        counts[line["service"], line["state"]] += 1
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _histogram(
    name: str,
    means: str,
    labels: tuple[str, ...],
    bounds: Sequence[float],
    lines: Iterable[Row],
    labelled: Callable[[Row], tuple[str, ...]],
    measured: Callable[[Row], float],
) -> Metric:
    family = HistogramMetricFamily(name, means, labels=labels)
    values: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for line in lines:
        values[labelled(line)].append(measured(line))
    for key, found in sorted(values.items()):
        family.add_metric(key, _buckets(found, bounds), sum(found))
    return family


def _buckets(values: Sequence[float], bounds: Sequence[float]) -> list[tuple[str, float]]:
    """Cumulative counts, each with its upper bound as Prometheus writes it."""
    within = Counter(bisect_left(bounds, value) for value in values)
    names = [*(str(bound) for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(float(within[i]) for i in range(len(names))), strict=True))


def _acceptance(points: Iterable[Row]) -> Metric:
    family = GaugeMetricFamily(
        "interlock_accept_length", "Mean accept length at the newest judgement that knew one.", labels=("service",)
    )
    newest = {point["service"]: point for point in sorted(points, key=lambda p: p["judged_at"])}
    for service, point in sorted(newest.items()):
        family.add_metric((service,), point["accept_length"])
    return family


def _proven(kept: Iterable[Row]) -> Metric:
    family = GaugeMetricFamily(
        "interlock_proven_since_seconds",
        "Unix time since which the present revision of a service is the one last proven.",
        labels=("service", "revision"),
    )
    for row in kept:
        if row["revision"] is not None:
            family.add_metric((row["service"], row["revision"][:12]), row["revision_since"].timestamp())
    return family
