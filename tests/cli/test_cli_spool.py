"""A store that somebody else keeps locked while the service is stopped: what the command line says and keeps."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.practice import Stage, end_of, read_until, stage


@pytest.fixture
def practice(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


@contextmanager
def locked(practice: Stage) -> Iterator[None]:
    """Somebody's transaction, which does not end."""
    connection = sqlite3.connect(practice.directory / "interlock.db", isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def spools(practice: Stage) -> list[str]:
    return [path.name for path in (practice.directory / "spool").glob("*") if path.name != "reserve"]


def test_a_rollout_whose_store_is_locked_after_the_stop_goes_on_and_its_history_is_whole(practice: Stage) -> None:
    process = practice.start("apply", practice.manifest(), "--bare")
    read = read_until(process, "stop-service")
    with locked(practice):
        read += read_until(process, "is spooled to")
        assert len(spools(practice)) == 1
        read += read_until(process, "ready after", "await-readiness", "readiness")
    ended = end_of(process)
    assert ended.code == 0, ended
    assert "the event store is back" in read + ended.out
    assert "PROMOTED" in ended.out
    assert spools(practice) == []
    checked = practice.interlock("history", "--verify", "--json")
    assert (checked.code, checked.json["faults"]) == (0, [])
    (row,) = checked.json["rollouts"]
    assert (row["state"], row["exit_code"]) == ("promoted", 0)
    assert practice.interlock("replay", "--all").code == 0


def test_what_a_killed_rollout_had_spooled_comes_in_before_it_is_recovered(practice: Stage) -> None:
    process = practice.start("apply", practice.manifest(), "--bare", lease_s="1")
    read_until(process, "stop-service")
    with locked(practice):
        read_until(process, "is spooled to")
        end_of(process, signal.SIGKILL)
        (name,) = spools(practice)
    recovered = practice.interlock("recover", "--json", lease_s="1")
    assert recovered.code in (0, 1), recovered
    rollout = name.partition(".")[0]
    assert f"facts that rollout {rollout} had spooled" in recovered.err
    assert recovered.json[0]["rollout"] == rollout
    assert recovered.json[0]["outcome"] in ("promoted", "rolled-back")
    assert spools(practice) == []
    assert practice.interlock("history", "--verify", "--json").json["faults"] == []
