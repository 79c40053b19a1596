"""Append and refold with the `eventsourcing` library: `refold_eventsourcing.py COUNT PER_STREAM`, the database by the
library's own variables. Run in the library's environment; prints its seconds as JSON."""

import gc
import json
import sys
import time

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event


class Rollout(Aggregate):
    @event("Requested")
    def __init__(self) -> None:
        self.attempts: dict[str, int] = {}
        self.done: dict[str, dict[str, str]] = {}

    @event("ActionStarted")
    def start(self, action: str, attempt: int) -> None:
        self.attempts[action] = attempt

    @event("StepSucceeded")
    def succeed(self, action: str, attempt: int, step: int, direction: str, facts: dict[str, str]) -> None:
        self.done[action] = facts


def change(rollout: Rollout, number: int) -> None:
    key = f"do:{number // 2}:install-files"
    if number % 2 == 0:
        rollout.start(key, 1)
    else:
        rollout.succeed(key, 1, number // 2, "do", {"unit": "sglang.service"})


def main(count: int, per_stream: int) -> None:
    app = Application()
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count // per_stream):
        rollout = Rollout()
        app.save(rollout)
        for number in range(1, per_stream):
            rollout = app.repository.get(rollout.id)
            change(rollout, number)
            app.save(rollout)
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
    app.close()


main(int(sys.argv[1]), int(sys.argv[2]))
