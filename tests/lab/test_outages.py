"""The network of the host, or its power, lost in the middle of a rollout, on real systemd."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.ports import Watch
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tasks.lab import container, wire
from tasks.lab.layer import Furnishing
from tests.lab.by_command import QUICK, begun, held, is_new, is_old, left, manifest_of, newest, replayed, told
from tests.lab.contained import Stage, prepare, stages
from tests.lab.orchestrated import HostState
from tests.lab.test_cut_off import runs

pytestmark = pytest.mark.lab
TIMER_S = 10
CUT_S = 5.0
"""Shorter than what a connection takes to be given up: TCP sends again what was lost, and nobody is told."""

MOMENTS = ("do:0:stage-files", "do:2:stop-service", "await-readiness:new", "verify:new:1")


def at(event: str, action: str, do: Callable[[], object]) -> Watch:
    """Calls `do` when that is recorded first."""
    done: list[RecordedEvent] = []

    def recorded(_: Rollout, now: RecordedEvent) -> None:
        if (now.type, now.data.get("action")) == (event, action) and not done:
            done.append(now)
            do()

    return Watch(recorded=recorded)


async def test_a_network_that_is_away_for_five_seconds_is_waited_for(tmp_path: Path) -> None:
    """Every packet is dropped, by a rule in the host's own network namespace; each moment on a host of its own."""
    folders = [tmp_path / str(number) for number in range(len(MOMENTS))]
    for folder in folders:
        folder.mkdir()
        await prepare(folder)
    async with stages(folders[0], *[Furnishing(settings=QUICK)] * len(MOMENTS)) as made, asyncio.TaskGroup() as hosts:
        for stage, folder, moment in zip(made, folders, MOMENTS, strict=True):
            stage.folder = folder
            hosts.create_task(_away_for_a_while(stage, moment))


async def _away_for_a_while(made: Stage, moment: str) -> None:
    before, loop = await made.state(), asyncio.get_running_loop()

    def cut() -> None:
        wire.cut(made.host)
        loop.call_later(CUT_S, wire.mend, made.host)

    made.generation_s = 4 * CUT_S
    ended = await made.roll_out(watch=at("action-started", moment, cut), policy={"timer": "60s"})
    assert ended.concluded is not None
    assert ended.concluded.outcome == "promoted", (moment, ended.concluded.summary)
    assert {name: count for name, count in (await runs(made)).items() if count != 1} == {}, moment
    await _ended_well(made, before, "promoted")


async def _ended_well(made: Stage, before: HostState, outcome: str) -> None:
    """The host itself and the history tell of that end, and nothing is left of the rollout."""
    rollout, now = await newest(made), await made.state()
    assert rollout.concluded is not None
    assert (rollout.concluded.outcome, rollout.ended) == (outcome, True)
    assert (now.units, now.reload, await left(made), await held(made, rollout)) == ((), "no", "", [])
    assert is_new(now, before, rollout) if outcome == "promoted" else await is_old(made, before)
    await replayed(made)


async def _restored_by_itself(made: Stage, before: HostState, began: float) -> None:
    """Within the timer's deadline, and the time of a stop and a start."""
    after = await made.until(lambda now: not armed(now) and now.active == "active", TIMER_S + 20)
    assert time.monotonic() - began < TIMER_S + 15
    assert (after.files, after.active, after.argv) == (before.files, "active", before.argv)
    assert not armed(after)


def armed(now: HostState) -> bool:
    return any(unit.startswith("interlock-revert") for unit in now.units)


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param(True, id="its-orchestrator-lives-and-finds-it-restored"),
        pytest.param(False, id="its-orchestrator-is-given-up"),
    ],
)
async def test_a_network_that_is_gone_for_good_leaves_the_host_to_itself(tmp_path: Path, lives: bool) -> None:
    """It has restored itself, still cut off; once the network is back, whoever goes on tells the truth."""
    await prepare(tmp_path)
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,):
        before = await made.state()
        wanted = manifest_of(made, policy={"timer": f"{TIMER_S}s"})
        async with begun(made, "apply", wanted, "--bare", lease_s=TIMER_S) as command:
            await command.until("install-files")
            wire.cut(made.host)
            began = time.monotonic()
            await _restored_by_itself(made, before, began)
            if not lives:
                command.process.kill()
            wire.mend(made.host)
            code, out, err = await command.ended()
        if lives:
            assert (code, "Traceback" in err, "own timer" in out) == (1, False, True), (out, err)
        else:
            rollout = await newest(made)
            assert await held(made, rollout) != []
            assert rollout.requested is not None
            code, ended = await told(made, "recover", rollout.requested.rollout, "--take-over")
            assert (code, ended["outcome"]) == (1, "rolled-back"), ended
            assert "own timer" in ended["summary"]
        await _ended_well(made, before, "rolled-back")


async def test_a_host_that_loses_its_power_with_its_orchestrator_gone_restores_itself_after_its_boot(
    tmp_path: Path,
) -> None:
    """The new files are in place, and the boot starts the service with them: until the timer, which it starts too."""
    await prepare(tmp_path)
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,):
        before = await made.state()
        wanted = manifest_of(made, policy={"timer": f"{TIMER_S}s"})
        async with begun(made, "apply", wanted, "--bare", lease_s=3) as command:
            await command.until("install-files")
            command.process.kill()
            await command.ended()
        made.host = await container.power_cycle(made.host, tied=True)
        began = time.monotonic()
        assert armed(await made.until(armed, 5))
        await made.until_it_generates()
        assert not await is_old(made, before)
        await _restored_by_itself(made, before, began)
        killed = await newest(made)
        assert killed.requested is not None
        code, ended = await told(made, "recover", killed.requested.rollout, lease_s=3)
        assert (code, ended["outcome"]) == (1, "rolled-back"), ended
        assert "own timer" in ended["summary"]
        await _ended_well(made, before, "rolled-back")
        container.end(made.host)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("do:0:stage-files", id="before-anything"),
        pytest.param("do:2:stop-service", id="at-the-stop"),
        pytest.param("do:4:start-service", id="at-the-start"),
    ],
)
async def test_a_host_that_loses_its_power_under_a_living_orchestrator_is_gone_on_with(
    tmp_path: Path, action: str
) -> None:
    """What was stopped runs again after the boot, and is stopped again. Evidence of a start that two boots share may
    not hold: then the way is back."""
    await prepare(tmp_path)
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,), asyncio.TaskGroup() as cycles:
        before = await made.state()

        async def cycle() -> None:
            made.host = await container.power_cycle(made.host, tied=True)

        ended = await made.roll_out(
            watch=at("action-started", action, lambda: cycles.create_task(cycle())), policy={"timer": "60s"}
        )
        assert ended.concluded is not None
        started = action.endswith("start-service")
        assert ended.concluded.outcome in ("promoted", *(["rolled-back"] * started)), ended.concluded.summary
        await _ended_well(made, before, ended.concluded.outcome)
        container.end(made.host)
