"""A rollout that asks, and its answer from another process: what is shown, where it is listed, how it ends."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.practice import LIMIT_S, Stage, end_of, ended, read_until, stage

CLOSE = [{"claim": "accept-length", "at_least": 3.4, "within": "1s"}]
"""The stand-in accepts 3.40 in the mean, so that no number of samples decides it."""

ASKS = "with no answer by then"
"""The last line of the question."""


@pytest.fixture
def practice(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def manifest(practice: Stage) -> str:
    return practice.manifest(claims=CLOSE, policy={"inconclusive": "hold", "hold": {"deadline": "30m"}})


def rollout_of(practice: Stage) -> str:
    (row,) = practice.interlock("history", "--json").json
    return str(row["rollout"])


def test_a_rollout_asks_and_is_answered_from_another_process(practice: Stage) -> None:
    process = practice.start("apply", manifest(practice), "--bare")
    said = read_until(process, ASKS)
    name = rollout_of(practice)
    asked_in_full(said, name)

    (row,) = practice.interlock("history", "--json").json
    assert row["state"] == "holding"
    listed = " ".join(practice.interlock("history").out.split())
    assert re.search(r"holding asks a person until \S+, otherwise rollback: \d+ of \d+ claims held", listed)
    asked_in_full(practice.interlock("show", name[:6]).out, name)
    left_alone = practice.interlock("recover")
    assert "left alone: Rollout" in left_alone.err, "its orchestrator is alive"

    for wrong in (("answer", name, "promote"), ("answer", name, "perhaps", "--reason", "x")):
        assert practice.interlock(*wrong).code == 2
    answered = practice.interlock("answer", name[:6], "promote", "--reason", "3.4 is plenty", "--json")
    assert (answered.code, answered.err) == (0, "")
    assert (answered.json["rollout"], answered.json["answer"]) == (name, "promote")

    ran = ended(process)
    assert ran.code == 0, ran
    assert "PROMOTED" in ran.out
    told = " ".join(ran.out.split())
    assert "accept-length stayed open: mean 3." in told
    assert "answered promote: 3.4 is plenty" in told
    again = practice.interlock("answer", name, "rollback", "--reason", "too late")
    assert (again.code, again.out) == (3, "")
    assert f"error: Rollout {name} has its answer already: " in again.err
    assert "ASKS" not in practice.interlock("show", name).out


def asked_in_full(text: str, name: str) -> None:
    """What is open, what the evidence says of it, how to answer, until when, what happens otherwise."""
    said = " ".join(text.split())
    assert "ASKS" in said
    assert "stayed accept-length: promote, or roll back?" in said
    assert re.search(r"\? .*\(accept-length\): mean 3\.\d+, 95% interval .* samples", said)
    assert f"interlock answer {name} promote --reason TEXT" in said
    assert f"interlock answer {name} rollback --reason TEXT" in said
    assert re.search(rf"until \S+; {ASKS}: rollback", said)


def test_with_json_the_question_is_on_standard_error_and_a_rollback_ends_it(practice: Stage) -> None:
    before = practice.facts()
    process = practice.start("apply", manifest(practice), "--bare", "--json")
    until_it_asks(practice)
    name = rollout_of(practice)
    given = practice.interlock("answer", name, "rollback", "--reason", "not on a Friday")
    assert given.code == 0
    assert f"rollout {name} is answered: rollback" in given.out
    ran = ended(process)
    assert (ran.code, ran.json["outcome"]) == (1, "rolled-back")
    assert ran.json["error"]["code"] == "claim-inconclusive"
    assert ran.json["error"]["message"].endswith("answered rollback: not on a Friday")
    asked_in_full(ran.err, name)
    after = practice.facts()
    assert (after.unit_file, after.active, after.drivers) == (before.unit_file, "active", before.drivers)


def test_interrupted_while_it_asks_the_old_state_is_put_back(practice: Stage) -> None:
    before = practice.facts()
    process = practice.start("apply", manifest(practice), "--bare")
    read_until(process, ASKS)
    ran = end_of(process, signal.SIGINT)
    assert ran.code == 130, ran
    assert "ROLLED-BACK" in ran.out
    assert practice.facts().unit_file == before.unit_file
    late = practice.interlock("answer", rollout_of(practice), "promote", "--reason", "late")
    assert late.code == 3
    assert "asks nothing: it has ended, rolled-back" in late.err


def test_killed_while_it_asks_it_is_recovered_with_the_answer_given_meanwhile(practice: Stage) -> None:
    process = practice.start("apply", manifest(practice), "--bare")
    read_until(process, ASKS)
    until_it_asks(practice)
    end_of(process, signal.SIGKILL)
    name = rollout_of(practice)
    assert practice.interlock("answer", name, "promote", "--reason", "seen").code == 0
    recovered = practice.interlock("recover", name, "--take-over", "--json")
    assert (recovered.code, recovered.json["outcome"]) == (0, "promoted")
    events = practice.interlock("show", name, "--json").json["events"]
    assert [e["type"] for e in events].count("hold-opened") == 1


def test_what_there_is_not_takes_no_answer(practice: Stage) -> None:
    unknown = practice.interlock("answer", "0123", "promote", "--reason", "x")
    assert unknown.code == 2
    assert "no rollout `0123`" in unknown.err


def until_it_asks(practice: Stage) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if [row["state"] for row in practice.interlock("history", "--json").json] == ["holding"]:
            return
        time.sleep(0.1)
    raise AssertionError("it does not ask")
