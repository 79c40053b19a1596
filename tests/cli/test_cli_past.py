"""Commands about the past and the store: what they print, as words and as JSON, and what they find."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.practice import Stage, stage


@pytest.fixture
def practice(tmp_path: Path) -> Iterator[Stage]:
    """With the history of one refused rollout."""
    with stage(tmp_path, started=False) as made:
        assert made.interlock("apply", made.manifest(), "--bare", "--plan", "0" * 8).code == 3
        yield made


def test_a_byte_changed_in_the_database_is_found_and_named(practice: Stage) -> None:
    (row,) = practice.interlock("history", "--json").json
    stream = f"rollout-{row['rollout']}"
    connection = sqlite3.connect(practice.directory / "interlock.db")
    with connection:
        connection.execute("DROP TRIGGER events_no_update")
        connection.execute("UPDATE events SET data = replace(data, 'The host', 'the host') WHERE version = 3")
    connection.close()
    verified = practice.interlock("history", "--verify")
    assert verified.code == 1
    assert verified.out.startswith(f"✗ Event 3 of {stream} is not what was recorded: its content gives ")
    in_json = practice.interlock("history", "--verify", "--json")
    assert (in_json.code, len(in_json.json["faults"])) == (1, 1)
    replayed = practice.interlock("replay", "--all")
    assert replayed.code == 1
    assert f"Event 3 of {stream}" in replayed.out
    assert practice.interlock("replay", "--all", "--json").json["equal"] is False
    shown = practice.interlock("show", row["rollout"])
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith(f"error: Event 3 of {stream}")
    ended = practice.interlock("recover")
    assert (ended.code, ended.err) == (0, "")
    connection = sqlite3.connect(practice.directory / "interlock.db")
    with connection:
        connection.execute("DROP TRIGGER events_no_delete")
        connection.execute("DELETE FROM events WHERE type IN ('rollout-concluded', 'lease-released')")
    connection.close()
    unfinished = practice.interlock("recover")
    assert unfinished.code == 1
    assert unfinished.err.startswith(f"error: Event 3 of {stream}")


def test_the_schema_is_upgraded_and_checked(practice: Stage) -> None:
    elsewhere = {"database_url": f"sqlite:///{practice.directory / 'new.db'}"}
    before = practice.interlock("db", "check", **elsewhere)
    assert before.code == 3
    assert "run `interlock db upgrade`" in before.err
    upgraded = practice.interlock("db", "upgrade", "--json", **elsewhere)
    assert upgraded.code == 0
    assert practice.interlock("db", "upgrade", **elsewhere).out == (
        f"the event store is at schema {upgraded.json['schema']}\n"
    )
    assert practice.interlock("db", "check", **elsewhere).out == "the schema is this release's\n"
    assert practice.interlock("db", "check", "--json", **elsewhere).json == {"differences": []}


def test_an_empty_store_has_no_rollouts_and_nothing_to_recover(practice: Stage) -> None:
    practice.forget()
    assert practice.interlock("history").out == "no rollout yet\n"
    assert practice.interlock("history", "--json").json == []
    assert practice.interlock("recover", "--json").json == []
    assert practice.interlock("replay", "--all", "--json").json["equal"] is True


def test_ids_are_found_by_their_beginning_and_only_if_it_is_one_s_own(practice: Stage) -> None:
    (row,) = practice.interlock("history", "--json").json
    assert practice.interlock("show", row["rollout"][:4], "--json").json["rollout"] == row["rollout"]
    for _ in range(16):
        practice.interlock("apply", practice.manifest(), "--bare", "--plan", "0" * 8)
    firsts = [one["rollout"][0] for one in practice.interlock("history", "--json").json]
    shared = next(digit for digit in firsts if firsts.count(digit) > 1)
    several = practice.interlock("show", shared)
    assert several.code == 2
    assert f"rollouts begin with `{shared}`: " in several.err


def test_an_artefact_is_read_offline(practice: Stage) -> None:
    path = practice.directory / "unit.service"
    path.write_text(
        "[Service]\nExecStart=/opt/sglang/bin/python -m sglang.launch_server --tp-size 4\n", encoding="utf-8"
    )
    read = practice.interlock("inspect", str(path), "--json")
    assert (read.code, read.err) == (0, "")
    assert isinstance(read.json, dict)
    assert practice.interlock("inspect", str(practice.directory / "none")).code == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(("show", ""), "An empty text names no rollout", id="show"),
        pytest.param(("report", ""), "An empty text names no rollout", id="report"),
        pytest.param(("answer", "", "promote", "--reason", "x"), "An empty text names no rollout", id="answer"),
        pytest.param(("apply", "MANIFEST", "--bare", "--plan", ""), "An empty text names no plan", id="apply"),
    ],
)
def test_an_empty_word_of_a_script_names_nothing(practice: Stage, words: tuple[str, ...], sentence: str) -> None:
    manifest = practice.manifest()
    ran = practice.interlock(*(manifest if word == "MANIFEST" else word for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_the_list_has_pages_that_leave_none_out(practice: Stage) -> None:
    for _ in range(4):
        practice.interlock("apply", practice.manifest(), "--bare", "--plan", "0" * 8)
    everything = [row["rollout"] for row in practice.interlock("history", "--limit", "0", "--json").json]
    assert len(everything) == 5
    newest = practice.interlock("history", "--limit", "2", "--json")
    assert [row["rollout"] for row in newest.json] == everything[3:]
    assert newest.err == f"older ones are left out: --before {everything[3]}, or --limit 0 for all\n"
    service = practice.interlock("history", "--json").json[0]["service"]
    before = practice.interlock("history", service, "--limit", "2", "--before", everything[3], "--json")
    assert [row["rollout"] for row in before.json] == everything[1:3]
    oldest = practice.interlock("history", "--before", everything[1][:6], "--json")
    assert ([row["rollout"] for row in oldest.json], oldest.err) == (everything[:1], "")
    assert practice.interlock("history", "--before", everything[0]).out == "no rollout yet\n"
