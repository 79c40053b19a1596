"""A real PostgreSQL that is stopped once the service is stopped, for good or for seconds: real time, practice hosts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flows import requests
from flows.history import History
from flows.ports import Ports, Watch
from flows.session import begin, recover
from flows.spooled import flush_left
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.connect import open_stores
from state.store.migrate import upgrade
from state.store.port import RecordedEvent
from state.store.spool_file import SpoolFolder
from state.store.verification import verify_history
from tests.contract.store_fixtures import OwnPostgres, own_postgres
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.quick import QUICK

AWAY_S = 4.0


@pytest.fixture(scope="module")
def made() -> Iterator[OwnPostgres]:
    with own_postgres(("fsync=off",)) as own:
        yield own


@pytest.fixture
def server(made: OwnPostgres) -> OwnPostgres:
    """Running, with an empty store."""
    made.stop()
    started = made.started()
    started.sql("DROP DATABASE IF EXISTS interlock")
    started.sql("CREATE DATABASE interlock")
    asyncio.run(upgrade(started.url("interlock")))
    return made


@asynccontextmanager
async def connected(stage: Rehearsal, server: OwnPostgres, folder: Path, watch: Watch) -> AsyncIterator[Ports]:
    async with open_stores(server.server.url("interlock"), stage.scene.serving.clock.now) as stores:
        given = replace(stage.ports(), events=stores.events, evidence=stores.evidence)
        yield replace(given, spools=SpoolFolder(folder), watch=watch)


class Stopper:
    """Stops the server when the service has been stopped, and starts it again after a while if there is one."""

    def __init__(self, server: OwnPostgres, away_s: float | None) -> None:
        self.server, self.away_s, self.heard = server, away_s, list[str]()
        self.working: asyncio.Task[None] | None = None

    def watch(self) -> Watch:
        return Watch(recorded=self._recorded, said=self.heard.append)

    def _recorded(self, _rollout: Rollout, event: RecordedEvent) -> None:
        if (event.type, event.data.get("action")) == ("step-succeeded", "do:3:stop-service"):
            self.server.stop()
            if self.away_s is not None:
                self.working = asyncio.get_running_loop().create_task(self._start(self.away_s))

    async def _start(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await asyncio.to_thread(self.server.started)


async def rolled_out(stage: Rehearsal, ports: Ports) -> Rollout:
    manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
    return await begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))


async def test_a_server_stopped_for_seconds_is_not_missed(server: OwnPostgres, tmp_path: Path) -> None:
    stopper = Stopper(server, AWAY_S)
    async with (
        rehearsal(settings=QUICK) as stage,
        connected(stage, server, tmp_path / "spool", stopper.watch()) as ports,
    ):
        ended = await rolled_out(stage, ports)
        assert stopper.working is not None
        await stopper.working
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted"
        assert len(stopper.heard) == 2, stopper.heard
        assert "is spooled to" in stopper.heard[0]
        assert "the event store is back" in stopper.heard[1]
        assert (await verify_history(ports.events)).faults == ()
        assert ended.requested is not None
        assert await History(ports, ended.requested.rollout).load() == ended
        recorded = await History(ports, ended.requested.rollout).recorded()
        spooled = [event for event in recorded if "spooled" in event.metadata]
        assert spooled
        assert sorted(e.recorded_at for e in recorded) == [e.recorded_at for e in recorded]
    assert not list((tmp_path / "spool").glob("*.spool"))


async def test_a_server_that_stays_away_gets_the_end_later(
    server: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.spooled.END_S", 2.0)
    stopper = Stopper(server, None)
    async with rehearsal(settings=QUICK) as stage:
        async with connected(stage, server, tmp_path / "spool", stopper.watch()) as ports:
            ended = await rolled_out(stage, ports)
            assert ended.concluded is not None
            assert (ended.concluded.outcome, ended.concluded.exit_code) == ("promoted", 0)
            assert str(tmp_path / "spool") in stopper.heard[-1]
            assert "`interlock recover`" in stopper.heard[-1]
        server.started()
        async with connected(stage, server, tmp_path / "spool", stopper.watch()) as ports:
            await flush_left(ports)
            assert ended.requested is not None
            assert await recover(ports, ended.requested.rollout) == ended
            assert (await verify_history(ports.events)).faults == ()
    assert not list((tmp_path / "spool").glob("*.spool"))
