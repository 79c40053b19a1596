"""PostgreSQL stopped for half a minute after the service was stopped: the rollout goes on, its facts are spooled."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from contract.store_fixtures import OwnPostgres, own_postgres

from flows.history import History
from flows.settings import Settings
from flows.wiring import wired
from state.rollout import Rollout
from state.store.migrate import upgrade
from tasks.lab.layer import Furnishing
from tests.lab.by_command import QUICK, begun, interlock, is_new, left, manifest_of
from tests.lab.contained import stages

pytestmark = pytest.mark.lab
AWAY_S = 30.0


@pytest.fixture
def server() -> Iterator[OwnPostgres]:
    with own_postgres() as made:
        made.started()
        yield made


async def test_a_store_that_is_away_for_half_a_minute_prolongs_no_outage_and_gets_the_whole_history(
    tmp_path: Path, server: OwnPostgres, record_property: Callable[[str, object], None]
) -> None:
    server.server.sql("CREATE DATABASE history")
    store = {"database_url": server.server.url("history")}
    await upgrade(store["database_url"])
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,):
        code, out, err = await interlock(made, "apply", manifest_of(made), "--bare", **store)
        assert code == 0, (out, err)
        usual = await _newest(store["database_url"])
        before = await made.state()
        wanted = manifest_of(made, {"mem_fraction_static": 0.7})
        async with begun(made, "apply", wanted, "--bare", **store) as command:
            await command.until("stop-service")
            await asyncio.to_thread(server.stop)
            gone = time.monotonic()
            await made.until(lambda now: "0.7" in now.argv and now.active == "active", AWAY_S)
            assert time.monotonic() - gone < AWAY_S, "the new service was up long before the store was"
            await asyncio.sleep(AWAY_S - (time.monotonic() - gone))
            await asyncio.to_thread(server.started)
            code, out, err = await command.ended()
        assert (code, "Traceback" in err) == (0, False), (out, err)
        rollout, now = await _newest(store["database_url"]), await made.state()
        assert rollout.concluded is not None
        assert usual.concluded is not None
        record_property("dark_s", (usual.concluded.dark_s, rollout.concluded.dark_s))
        assert (rollout.concluded.outcome, rollout.ended) == ("promoted", True)
        assert (rollout.concluded.dark_s or 0) < (usual.concluded.dark_s or 0) + AWAY_S / 2
        assert is_new(now, before, rollout)
        assert (now.units, await left(made)) == ((), "")
        for words in (("history", "--verify"), ("replay", "--all")):
            code, out, err = await interlock(made, *words, **store)
            assert code == 0, (words, out, err)


async def _newest(url: str) -> Rollout:
    async with wired(Settings(database_url=url)) as (ports, _):
        begun_ = [event.stream for event in await ports.events.read_all() if event.type == "rollout-requested"]
        return await History(ports, begun_[-1].removeprefix("rollout-")).load()
