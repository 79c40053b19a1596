"""Of the switches that were due while no server was there, only the newest of each service is made."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

pytestmark = pytest.mark.prefect


def test_only_the_newest_switch_of_each_service_says_what_should_run() -> None:
    from prefect.client.schemas.objects import FlowRun  # takes seconds

    from deployments.serve.left_runs import overtaken

    def due(target: str, hours: float, *, scheduled: bool = True) -> FlowRun:
        return FlowRun(
            flow_id=uuid4(),
            auto_scheduled=scheduled,
            expected_start_time=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours),
            parameters={"target": target},
        )

    night, day, asked = due("a/night", 22), due("a/day", 31), due("a/night", 30, scheduled=False)
    other, earlier = due("b/night", 22), due("b/day", 7)
    assert [run.id for run in overtaken([day, other, asked, night, earlier])] == [earlier.id, night.id]
    assert overtaken([asked]) == []
