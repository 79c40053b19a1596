"""A rollout cancelled at every moment, once and again while it turns back: it always comes to a safe end first."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from flows import requests
from flows.history import History
from flows.session import cancel, requested_history
from state.manifest.load import load_manifest
from tests.flows.rehearsal import PARTS, Fuse, HostState, moments_of, rehearsal
from tests.flows.test_recover import newest
from tests.practice.virtual_time import in_virtual_time


@dataclass
class Cancelling(Fuse):
    """Cancels the orchestrator's task at the n-th moment, and at each of `more` moments after it."""

    more: int = 0
    task: "asyncio.Task[Any] | None" = field(default=None)

    def moment(self) -> None:
        self.passed += 1
        if self.at is not None and self.task is not None and self.at <= self.passed <= self.at + self.more:
            self.task.cancel()


@dataclass(frozen=True)
class Cancelled:
    outcome: str
    exit_code: int
    before: HostState
    after: HostState
    raised: bool
    released: bool
    moments: int


async def cancelled_at(moment: int | None, more: int = 0) -> Cancelled:
    async with rehearsal() as stage:
        before = await stage.state()
        fuse = Cancelling(at=moment, more=more)
        stage.fuse = fuse
        fuse.task = asyncio.create_task(stage.roll_out())
        (end,) = await asyncio.gather(fuse.task, return_exceptions=True)
        moments, stage.fuse = fuse.passed, Fuse()
        rollout = await History(stage.ports(), await newest(stage)).load()
        assert rollout.concluded is not None, (moment, end)
        assert rollout.ended, moment
        return Cancelled(
            rollout.concluded.outcome,
            rollout.concluded.exit_code,
            before,
            await stage.state(),
            isinstance(end, asyncio.CancelledError),
            rollout.released,
            moments,
        )


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("more", [pytest.param(0, id="once"), pytest.param(40, id="again-and-again")])
def test_a_cancelled_rollout_ends_safely_whatever_the_moment(more: int, part: int) -> None:
    @in_virtual_time
    async def run() -> None:
        whole = await cancelled_at(None)
        assert whole.outcome == "promoted"
        seen = set()
        for moment in moments_of(part, whole.moments, first=2, seldom=3 if more else 1):
            end = await cancelled_at(moment, more)
            seen.add(end.outcome)
            assert end.after.leftovers == (), moment
            if end.outcome == "promoted":
                assert end.after.argv == whole.after.argv, moment
                continue
            assert end.outcome in ("cancelled", "aborted", "rolled-back"), moment
            assert (end.exit_code, end.raised) == (130, True), moment
            assert (end.after.unit_file, end.after.drivers, end.after.active, end.after.argv) == (
                end.before.unit_file,
                end.before.drivers,
                end.before.active,
                end.before.argv,
            ), moment
        assert seen >= {"cancelled", "rolled-back"}

    run()


def test_before_the_stop_the_service_is_not_touched() -> None:
    @in_virtual_time
    async def run() -> None:
        moments = range(2, 40, 6)
        ends = [await cancelled_at(moment) for moment in moments]
        untouched = [end for end in ends if end.outcome in ("cancelled", "aborted")]
        assert len(untouched) >= 3
        assert all(end.after == end.before for end in untouched), "not even the process is another one"

    run()


def test_a_rollout_that_nobody_drives_at_the_moment_can_be_cancelled() -> None:
    """As when the command line is interrupted between planning and the flow run."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
            ports = stage.ports()
            history = await requested_history(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))
            ended = await cancel(history)
            assert ended.concluded is not None
            assert (ended.concluded.outcome, ended.concluded.exit_code) == ("cancelled", 130)
            assert await cancel(history) == ended

    run()
