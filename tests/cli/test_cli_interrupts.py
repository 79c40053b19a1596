"""The command line interrupted, killed, and gone on with: the host is old or new, and the exit code says so."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.practice import Stage, end_of, ended, read_until, stage


@pytest.fixture
def practice(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, settings={"stage_seconds": {"weights": 1.0}}) as made:
        yield made


def test_before_the_stop_an_interruption_is_a_clean_end(practice: Stage) -> None:
    before = practice.facts()
    process = practice.start("apply", practice.manifest(), "--bare")
    read_until(process, "preflight")
    ran = end_of(process, signal.SIGINT)
    assert ran.code == 130, ran
    assert "The service was not touched" in ran.out or "CANCELLED" in ran.out
    assert ran.err == "interrupted: going to a safe end first\n"
    after = practice.facts()
    assert (after.unit_file, after.main_pid, after.drivers) == (before.unit_file, before.main_pid, before.drivers)
    assert practice.interlock("recover").out == "nothing to recover: every rollout has ended\n"


def test_after_the_stop_a_lost_terminal_puts_the_old_state_back(practice: Stage) -> None:
    before = practice.facts()
    process = practice.start("apply", practice.manifest(), "--bare")
    read_until(process, "weights after")
    ran = end_of(process, signal.SIGHUP)
    assert ran.code == 130, ran
    assert practice.facts().unit_file == before.unit_file
    assert practice.interlock("history", "--json").json[0]["state"] == "rolled-back"


def test_a_rollout_whose_reader_went_away_comes_to_its_end(practice: Stage) -> None:
    process = practice.start("apply", practice.manifest(), "--bare")
    read_until(process, "stop-service")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.wait(60) == 0
        assert process.stderr.read() == "standard output is gone (Broken pipe); going on without it\n"
    assert practice.interlock("history", "--json").json[0]["state"] == "promoted"


def test_after_the_stop_an_interruption_puts_the_old_state_back_however_often_it_comes(practice: Stage) -> None:
    before = practice.facts()
    process = practice.start("apply", practice.manifest(), "--bare")
    read_until(process, "weights after")
    process.send_signal(signal.SIGTERM)
    read_until(process, "freeze")
    ran = end_of(process, signal.SIGINT, signal.SIGTERM)
    assert ran.code == 130, ran
    assert "ROLLED-BACK" in ran.out
    assert "still on the way to a safe end" in ran.err
    assert "Traceback" not in ran.err
    after = practice.facts()
    assert (after.unit_file, after.active, after.drivers) == (before.unit_file, "active", before.drivers)
    assert practice.interlock("history", "--json").json[0]["state"] == "rolled-back"


def test_an_interrupted_rollout_is_told_in_json_too(practice: Stage) -> None:
    process = practice.start("apply", practice.manifest(), "--bare", "--json")
    until_recorded(practice)
    ran = end_of(process, signal.SIGTERM)
    assert ran.code == 130, ran
    assert ran.json["outcome"] in ("cancelled", "aborted", "rolled-back")
    assert ran.json["exit_code"] == 130


def until_recorded(practice: Stage) -> None:
    for _ in range(300):
        if practice.interlock("history", "--json").json:
            return
        time.sleep(0.1)
    raise AssertionError("no rollout in 30 s")


def test_a_killed_rollout_is_gone_on_with_once_its_lease_is_over(practice: Stage) -> None:
    process = practice.start("apply", practice.manifest(), "--bare", lease_s="4")
    read_until(process, "weights after")
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    name = practice.interlock("history", "--json").json[0]["rollout"]

    refused = practice.interlock("recover", name[:6], lease_s="4")
    assert (refused.code, refused.out) == (3, "")
    assert f"error: Rollout {name} is held by " in refused.err
    left = practice.interlock("recover", "--json", lease_s="4")
    assert (left.code, left.json) == (0, [])
    assert left.err.startswith(f"left alone: Rollout {name} is held by ")
    other = practice.interlock("apply", practice.manifest(), "--bare", lease_s="4")
    assert other.code == 3
    assert f"rollout {name}" in other.err

    time.sleep(4.0)
    gone_on = practice.interlock("recover", "--json", lease_s="4")
    assert gone_on.code == 0, gone_on
    (ended_,) = gone_on.json
    assert (ended_["rollout"], ended_["outcome"]) == (name, "promoted")
    assert practice.interlock("replay", "--all").code == 0


def test_a_killed_rollout_can_be_taken_over_at_once_by_somebody_who_knows(practice: Stage) -> None:
    nameless = practice.interlock("recover", "--take-over")
    assert (nameless.code, nameless.out) == (2, "")
    assert nameless.err.startswith("error: --take-over needs the rollout to take over\n")

    process = practice.start("apply", practice.manifest(), "--bare")
    read_until(process, "weights after")
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    name = practice.interlock("history", "--json").json[0]["rollout"]
    assert practice.interlock("recover", name).code == 3
    taken = practice.interlock("recover", name, "--take-over", "--json")
    assert (taken.code, taken.json["outcome"]) == (0, "promoted"), taken


def test_a_stranded_rollout_is_told_until_its_way_back_is_proven(practice: Stage) -> None:
    practice.scene.script_faults({"fault": "cuda-oom"})
    ended = practice.interlock("apply", practice.manifest(), "--bare", "--json")
    assert (ended.code, ended.json["outcome"]) == (4, "stranded")
    name = ended.json["rollout"]

    told = practice.interlock("recover")
    assert (told.code, told.out) == (4, "")
    assert told.err == (
        f"error: rollout {name} is stranded, and its hosts are kept from every other\n"
        f"hint: mend what `interlock show {name}` names, then try its way back again: interlock recover {name}\n"
    )

    practice.scene.script_faults()
    mended = practice.interlock("recover", name, "--json")
    assert mended.json["outcome"] == "rolled-back", mended
    after = practice.interlock("recover")
    assert (after.code, after.out) == (0, "nothing to recover: every rollout has ended\n")
