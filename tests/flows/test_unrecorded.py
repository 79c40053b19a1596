"""A store that is lost in mid-rollout: what the error says of the hosts, and that the rollout can be gone on with."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from sqlalchemy.engine import make_url

from deployments.command import tell
from deployments.run import to_its_end
from flows import requests
from flows.session import begin
from state.errors import InterlockError, Refused, RolloutUnrecorded, StoreUnavailable
from state.manifest.load import load_manifest
from state.store.database import translated
from state.store.port import NewEvent, RecordedEvent
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.flows.test_hold import Meddled, noted
from tests.flows.test_recover import newest
from tests.practice.virtual_time import in_virtual_time

FULL = StoreUnavailable("database or disk is full", hint="free space on the disk of /var/lib/interlock.db")


@dataclass
class Full(Meddled):
    """Takes nothing more from the first append on that `at` recognises."""

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        self.done = self.done or any(map(self.at, events))
        if self.done:
            raise FULL
        return await self.inner.append(stream, expected_version, events)


async def lost(stage: Rehearsal, kind: str, action: str) -> InterlockError:
    def at(event: NewEvent) -> bool:
        return event.type == kind and str(event.data.get("action")).endswith(action)

    ports = replace(stage.ports(), events=Full(stage.store, at, noted))
    manifest = load_manifest(stage.scene.manifest(policy={"timer": "70s"}), "manifest.yaml")
    with pytest.raises((Refused, RolloutUnrecorded)) as raised:
        await begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))
    return raised.value


@pytest.mark.parametrize(
    ("kind", "action", "where"),
    [
        pytest.param("step-succeeded", "stop-service", "during `stop-service`", id="the-stop-is-not-recorded"),
        pytest.param("action-started", "start-service", "before `start-service`", id="the-start-cannot-be-begun"),
        pytest.param("readiness-reached", "", "during `await-readiness`", id="the-new-one-runs-unproven"),
    ],
)
def test_a_store_lost_after_the_stop_strands_and_says_what_the_host_does(kind: str, action: str, where: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            error = await lost(stage, kind, action)
            name = await newest(stage)
            assert isinstance(error, RolloutUnrecorded)
            assert error.exit_code == 4
            assert (error.rollout, error.at) == (name, where)
            assert set(error.timers.values()) >= {70.0}
            assert f"`interlock recover {name}`" in error.hint
            assert error.hint.startswith("free space on the disk of ")
            ended = await stage.recover()
            assert ended.concluded is not None
            assert ended.concluded.outcome in ("promoted", "rolled-back")

    run()


@in_virtual_time
async def test_a_store_lost_before_any_step_touched_nothing() -> None:
    async with rehearsal() as stage:
        before = await stage.state()
        error = await lost(stage, "preflight-passed", "preflight")
        assert not isinstance(error, RolloutUnrecorded)
        assert error.exit_code == 3
        assert "nothing was touched" in error.hint
        assert await stage.state() == before


@in_virtual_time
async def test_a_store_lost_after_the_end_was_recorded_changes_nothing_about_that_end() -> None:
    async with rehearsal() as stage:
        full = Full(stage.store, lambda e: (e.type, e.data.get("action")) == ("action-started", "release"), noted)
        ports = replace(stage.ports(), events=full)
        manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
        ended = await to_its_end(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"), None)
        assert full.done
        assert ended.concluded is not None
        assert (ended.concluded.outcome, ended.concluded.exit_code) == ("promoted", 0)


@pytest.mark.parametrize(
    ("timers", "says"),
    [
        pytest.param(
            {"serving": 70.0}, "the timer on serving, if armed, restores the old state within 70 s", id="a-timer-waits"
        ),
        pytest.param({}, "no host restores anything by itself", id="no-timer-waits"),
    ],
)
def test_the_error_is_told_with_its_facts_as_one_object(
    capsys: pytest.CaptureFixture[str], timers: dict[str, float], says: str
) -> None:
    error = RolloutUnrecorded("0a1b", "during `stop-service`", timers, FULL)
    assert tell(error, as_json=True) == 4
    out, err = capsys.readouterr()
    shown = json.loads(out)
    assert (shown["rollout"], shown["timers"], shown["exit_code"]) == ("0a1b", timers, 4)
    assert shown["error"]["code"] == "rollout-unrecorded"
    assert says in shown["error"]["message"]
    assert "database or disk is full" in err


def test_a_full_disk_is_named_with_the_file_that_is_on_it() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreUnavailable) as raised, translated(make_url("sqlite:////data/interlock.db")):
        connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    connection.close()
    assert raised.value.hint == "free space on the disk of /data/interlock.db"
