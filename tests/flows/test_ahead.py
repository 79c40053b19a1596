"""A host that is further than the history: who may go on, from where, and what becomes of the spool."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flows.history import History
from flows.ports import Ports, Watch
from flows.session import recover, resume
from flows.spooled import flush_left
from state.errors import HostAhead, LeaseHeld
from state.store.spool_file import SpoolFolder
from tests.flows.rehearsal import Fuse, Killed, Rehearsal, rehearsal
from tests.flows.store_faults import STOPPED, Line, ports_over, roll_out
from tests.flows.test_killed import same_but_pids
from tests.practice.virtual_time import in_virtual_time


async def stop_of(folder: Path) -> int:
    """Which call on the store records that the service was stopped."""
    line = Line()
    async with rehearsal() as stage:
        await roll_out(stage, ports_over(stage, line, folder, []))
    return next(number for number, call in enumerate(line.calls, 1) if STOPPED in call) + 1


def elsewhere(stage: Rehearsal, folder: Path, heard: list[str]) -> Ports:
    """Another machine, later: the leases are over there, and the store answers."""
    return replace(stage.ports("second"), spools=SpoolFolder(folder), watch=Watch(said=heard.append), lease_s=0.001)


async def ended_without_its_store(stage: Rehearsal, stop: int, folder: Path) -> tuple[Ports, str]:
    """The first machine's ports, the store back, and the rollout that has ended with its facts spooled there."""
    line = Line(stop, "for-good")
    ports = replace(ports_over(stage, line, folder, []), lease_s=0.001)
    ended = await roll_out(stage, ports)
    assert ended.concluded is not None
    assert ended.concluded.outcome == "promoted"
    line.mended()
    assert ended.requested is not None
    return ports, ended.requested.rollout


def test_another_machine_is_refused_and_the_first_one_brings_the_end_in(tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        stop = await stop_of(tmp_path / "clean")
        async with rehearsal() as stage:
            ports, rollout = await ended_without_its_store(stage, stop, tmp_path / "first")
            host = await stage.state()
            with pytest.raises(HostAhead) as raised:
                await recover(elsewhere(stage, tmp_path / "second", []), rollout)
            assert str(tmp_path / "first") in str(raised.value)
            assert raised.value.exit_code == 3
            assert await stage.state() == host
            await flush_left(ports)
            ended = await recover(elsewhere(stage, tmp_path / "second", []), rollout)
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted"
            assert await stage.state() == host

    run()


def test_taken_over_without_the_facts_the_old_state_comes_back_and_the_spool_is_kept(tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        stop = await stop_of(tmp_path / "clean")
        async with rehearsal() as stage:
            before = await stage.state()
            ports, rollout = await ended_without_its_store(stage, stop, tmp_path / "first")
            ended = await resume(elsewhere(stage, tmp_path / "second", []), rollout)
            assert ended.concluded is not None
            assert ended.concluded.outcome == "rolled-back"
            assert "further than the history" in ended.concluded.summary
            assert same_but_pids(await stage.state(), before)
            heard: list[str] = []
            await flush_left(replace(ports, watch=Watch(said=heard.append)))
            assert "is kept in" in heard[0]
            assert len(kept_in(tmp_path / "first")) == 1
            assert (await History(ports, rollout).load()) == ended

    run()


def kept_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.kept"))


def test_on_its_own_machine_nobody_goes_on_beside_a_living_orchestrator_that_spools(tmp_path: Path) -> None:
    """Its leases ran out while the store was away: what it spools tells that it lives."""

    @in_virtual_time
    async def run() -> None:
        stop = await stop_of(tmp_path / "clean")
        async with rehearsal() as stage:
            line, waits = Line(stop, "for-good"), asyncio.Event()
            ports = replace(ports_over(stage, line, tmp_path / "first", []), lease_s=0.001)

            def progress(what: str, _seconds: float) -> None:
                if what == "waiting for the event store":
                    waits.set()

            watch = Watch(progress=progress, said=lambda _sentence: None)
            driving = asyncio.create_task(roll_out(stage, replace(ports, watch=watch)))
            await waits.wait()
            rollout = (await stage.store.streams("rollout-"))[-1].removeprefix("rollout-")
            with pytest.raises(LeaseHeld):
                await recover(elsewhere(stage, tmp_path / "first", []), rollout)
            line.mended()
            ended = await driving
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted"

    run()


@pytest.mark.parametrize("later", [3, 9, 15, 21])
def test_killed_while_it_spools_and_flushed_it_is_gone_on_with_anywhere(later: int, tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        stop = await stop_of(tmp_path / "clean")
        async with rehearsal() as stage:
            line = Line(stop, "for-good")
            ports = replace(ports_over(stage, line, tmp_path / "first", []), lease_s=0.001)
            stage.fuse.at = None
            counted = stage.fuse

            def armed(sentence: str) -> None:
                if "is spooled to" in sentence:
                    counted.at = counted.passed + later

            with pytest.raises(Killed):
                await roll_out(stage, replace(ports, watch=Watch(said=armed)))
            stage.fuse = Fuse()
            line.mended()
            there = replace(ports_over(stage, line, tmp_path / "first", []), lease_s=0.001)
            await flush_left(there)
            rollout = (await stage.store.streams("rollout-"))[-1].removeprefix("rollout-")
            ended = await recover(elsewhere(stage, tmp_path / "second", []), rollout)
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted"
            assert not kept_in(tmp_path / "first")

    run()
