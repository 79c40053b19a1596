"""Temporal's replayer on a history of 1,000 events: `replay_temporal.py TIMES`. Run in Temporal's environment; prints
its seconds as JSON. The history is that of a workflow that runs one activity after another, as a server exports it."""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

ACTIVITIES = 166
QUEUE = {"name": "queue", "kind": "TASK_QUEUE_KIND_NORMAL"}
NOTHING = {"payloads": [{"metadata": {"encoding": "YmluYXJ5L251bGw="}}]}


@workflow.defn(name="Rollout")
class Rollout:
    @workflow.run
    async def run(self) -> None:
        for _ in range(ACTIVITIES + 1):
            await workflow.execute_activity("step", start_to_close_timeout=timedelta(seconds=60))


class Written:
    """Events with their numbers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, kind: str, **attributes: Any) -> str:
        number = str(len(self.events) + 1)
        words = kind.split("_")
        name = words[0].lower() + "".join(word.capitalize() for word in words[1:]) + "EventAttributes"
        made = {"eventId": number, "eventTime": "2026-01-01T12:00:00Z", "eventType": f"EVENT_TYPE_{kind}"}
        self.events.append({**made, name: attributes})
        return number

    def workflow_task(self) -> str:
        scheduled = self.add("WORKFLOW_TASK_SCHEDULED", taskQueue=QUEUE, startToCloseTimeout="10s", attempt=1)
        started = self.add("WORKFLOW_TASK_STARTED", scheduledEventId=scheduled, identity="w", requestId="r")
        return self.add("WORKFLOW_TASK_COMPLETED", scheduledEventId=scheduled, startedEventId=started, identity="w")

    def activity(self, number: int, task: str) -> None:
        scheduled = self.add(
            "ACTIVITY_TASK_SCHEDULED",
            activityId=str(number),
            activityType={"name": "step"},
            taskQueue=QUEUE,
            startToCloseTimeout="60s",
            workflowTaskCompletedEventId=task,
        )
        started = self.add("ACTIVITY_TASK_STARTED", scheduledEventId=scheduled, identity="w", requestId="r", attempt=1)
        self.add(
            "ACTIVITY_TASK_COMPLETED", scheduledEventId=scheduled, startedEventId=started, result=NOTHING, identity="w"
        )


def history() -> str:
    written = Written()
    written.add(
        "WORKFLOW_EXECUTION_STARTED",
        workflowType={"name": "Rollout"},
        taskQueue=QUEUE,
        workflowTaskTimeout="10s",
        originalExecutionRunId="run",
        firstExecutionRunId="run",
        attempt=1,
    )
    task = written.workflow_task()
    for number in range(1, ACTIVITIES + 1):
        written.activity(number, task)
        task = written.workflow_task()
    return json.dumps({"events": written.events})


async def main(times: int) -> None:
    text = history()
    histories = [WorkflowHistory.from_json(f"rollout-{number}", text) for number in range(times)]

    async def each() -> AsyncIterator[WorkflowHistory]:
        for one in histories:
            yield one

    replayer = Replayer(workflows=[Rollout])
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    results = await replayer.replay_workflows(each())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert not results.replay_failures, results.replay_failures
    print(json.dumps({"wall": wall, "cpu": cpu, "events": times * len(histories[0].events)}))


if __name__ == "__main__":  # the sandbox imports this file again
    asyncio.run(main(int(sys.argv[1])))
