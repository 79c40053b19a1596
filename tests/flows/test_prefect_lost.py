"""A Prefect that is lost, or says stop, while the command line's rollout runs in it: how it ends, and how soon."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from flows.prefect_run import CANCELLER, ENDING_S
from tests.cli.practice import LIMIT_S, Stage, ended, read_until, stage
from tests.flows.own_prefect import OwnPrefect

pytestmark = [
    pytest.mark.prefect,
    # Prefect's own client leaves connections to a server that was killed to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def practice(prefect_server: OwnPrefect, tmp_path: Path) -> Iterator[Stage]:
    """Nothing of the server's settings is in the environment of what is started."""
    with stage(tmp_path, settings={"stage_seconds": {"weights": 1.5}}) as made, patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("PREFECT_")]:
            del os.environ[name]
        yield made


def test_cancelled_in_prefect_before_and_after_the_stop_then_left_by_its_server(
    practice: Stage, prefect_server: OwnPrefect
) -> None:
    """One server for the three: its start is what takes its time."""
    _cancelled_before_the_stop(practice, prefect_server)
    _cancelled_after_the_stop(practice, prefect_server)
    _its_server_killed(practice, prefect_server)


def _cancelled_before_the_stop(practice: Stage, prefect_server: OwnPrefect) -> None:
    before = practice.facts()
    assert practice.scene.doors is not None
    door = practice.scene.doors["serving"]
    process = practice.start("apply", practice.manifest(), environment={"PREFECT_API_URL": prefect_server.home.api_url})
    read_until(process, "baseline")
    door.delay_s = 1.5  # of every answer: what is done before the stop takes seconds, as on a far host
    flow_run = _running(prefect_server)
    _cancel(prefect_server, flow_run)
    read_until(process, "cancel")
    door.delay_s = 0.0
    ran = ended(process)
    assert (ran.code, "Traceback" in ran.err) == (130, False), ran
    assert "The service was not touched" in ran.out or "CANCELLED" in ran.out
    after = practice.facts()
    assert (after.unit_file, after.main_pid, after.drivers) == (before.unit_file, before.main_pid, before.drivers)
    _told_as_cancelled(practice, prefect_server, flow_run)


def _cancelled_after_the_stop(practice: Stage, prefect_server: OwnPrefect) -> None:
    before = practice.facts()
    process = practice.start("apply", practice.manifest(), environment={"PREFECT_API_URL": prefect_server.home.api_url})
    read_until(process, "start-service")
    flow_run = _running(prefect_server)
    _cancel(prefect_server, flow_run)
    ran = ended(process)
    assert (ran.code, "Traceback" in ran.err) == (130, False), ran
    assert "ROLLED-BACK" in ran.out
    after = practice.facts()
    assert (after.unit_file, after.active, after.drivers) == (before.unit_file, "active", before.drivers)
    _told_as_cancelled(practice, prefect_server, flow_run)


def _its_server_killed(practice: Stage, prefect_server: OwnPrefect) -> None:
    """With Prefect's own settings for a server that the environment names: it would try for more than a minute."""
    process = practice.start("apply", practice.manifest(), environment={"PREFECT_API_URL": prefect_server.home.api_url})
    read_until(process, "stop-service")
    prefect_server.kill()
    read_until(process, "release")
    released = time.monotonic()
    ran = ended(process)
    took_s = time.monotonic() - released
    assert (ran.code, ran.err) == (0, ""), ran
    assert "PROMOTED" in ran.out
    assert took_s < ENDING_S + 10, took_s
    assert practice.interlock("replay", "--all").code == 0


def _running(prefect_server: OwnPrefect) -> str:
    """The id of the flow run that runs, once there is one."""

    def found() -> list[Any]:
        wanted = {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
        return list(_ask(prefect_server, "POST", "/flow_runs/filter", wanted))

    patience = Retrying(retry=retry_if_result(lambda runs: not runs), wait=wait_fixed(0.1), stop=stop_after_delay(30))
    (run,) = patience(found)
    return str(run["id"])


def _cancel(prefect_server: OwnPrefect, flow_run: str) -> None:
    """What the button `Cancel` of Prefect's UI does."""
    answer = _ask(prefect_server, "POST", f"/flow_runs/{flow_run}/set_state", {"state": {"type": "CANCELLING"}})
    assert answer["status"] == "ACCEPT"


def _told_as_cancelled(practice: Stage, prefect_server: OwnPrefect, flow_run: str) -> None:
    assert _ask(prefect_server, "GET", f"/flow_runs/{flow_run}", None)["state"]["type"] == "CANCELLED"
    name = practice.interlock("history", "--json").json[-1]["rollout"]
    events = practice.interlock("show", name, "--json").json["events"]
    assert [event["data"]["actor"] for event in events if event["type"] == "cancel-requested"] == [CANCELLER]


def _ask(prefect_server: OwnPrefect, method: str, path: str, body: object) -> Any:
    with httpx.Client(trust_env=False, timeout=LIMIT_S) as client:
        return client.request(method, f"{prefect_server.home.api_url}{path}", json=body).raise_for_status().json()
