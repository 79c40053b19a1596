"""Reports of whole rollouts on the simulated host: the story of a gain that is claimed, held, refuted, left open."""

from functools import cache
from typing import Any

from flows.history import History
from state.rollout_report import Report, report_of
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

CLAIMS = {
    "held": ("+12%", {}),
    "refuted": ("+45%", {}),
    "inconclusive": ("+36%", {"noise": 0.3, "noise_seconds": 2.0}),
}


@cache
def experiment(kind: str) -> Report:
    """NEXTN with five steps, and a throughput claim that this kind of ending is sure to come of."""
    bound, settings = CLAIMS[kind]
    found: list[Report] = []

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(settings=settings or None) as stage:
            claims = [
                {"claim": "throughput", "at_least": bound, "within": "30s"},
                {"claim": "accept-length", "at_least": 2.0},
            ]
            traffic: dict[str, Any] = {"tokens": 96}
            ended = await stage.roll_out(claims=claims, traffic=traffic)
            assert ended.requested is not None
            found.append(report_of(await History(stage.ports(), ended.requested.rollout).recorded()))

    run()
    return found[0]
