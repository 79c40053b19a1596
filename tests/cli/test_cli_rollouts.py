"""Whole rollouts through the command line, over real SSH: what is printed where, and the exit codes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.practice import Ran, Stage, stage

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "EAGLE3"}}
THREE = {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}
ANSI = "\x1b["


@pytest.fixture
def practice(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, faults=[IGNORED]) as made:
        yield made


def promoted(practice: Stage, manifest: str, *words: str) -> Ran:
    ran = practice.interlock("apply", manifest, "--bare", *words)
    assert ran.code == 0, ran
    return ran


def test_a_change_is_planned_applied_proven_and_found_again(practice: Stage) -> None:
    manifest = practice.manifest()
    before = practice.facts()

    planned = practice.interlock("plan", manifest, "--claims")
    assert (planned.code, planned.err) == (0, "")
    assert "stop sglang-qwen.service and prove that nothing of it is left" in planned.out
    assert "Claims to be proven" in planned.out
    assert "refuted by" in planned.out
    assert "not decidable here: metrics-agree: without enable_metrics the engine serves no /metrics" in planned.out
    assert practice.facts() == before, "a plan changes nothing"
    (digest,) = re.findall(r"interlock apply --plan ([0-9a-f]{12}) MANIFEST", planned.out)
    in_json = practice.interlock("plan", manifest, "--json").json
    assert in_json["digest"].startswith(digest)
    assert in_json["plan"]["unchanged"] == ""

    stale = practice.interlock("apply", manifest, "--bare", "--plan", "0" * 12)
    assert stale.code == 3
    assert stale.err.startswith("error: The host changed since the plan was made (plan 000000000000, now ")
    assert practice.facts() == before

    applied = promoted(practice, manifest, "--plan", digest, "--reason", "switch MTP on")
    assert "PROMOTED" in applied.out
    assert ANSI not in applied.out + planned.out
    assert applied.err == ""
    proven = practice.facts()
    assert proven.main_pid != before.main_pid
    assert "--speculative-algorithm" in practice.on_host("cat", "--", f"/proc/{proven.main_pid}/cmdline")

    again = promoted(practice, manifest)
    assert "nothing to do" in again.out
    assert practice.facts() == proven, "no downtime: the same process"

    verified = practice.interlock("verify", manifest, "--bare", "--json")
    assert (verified.code, verified.err) == (0, "")
    assert verified.json["outcome"] == "verified"
    assert {verdict["outcome"] for verdict in verified.json["verdicts"]} == {"held"}

    looked_up(practice)
    changed_by_hand(practice, manifest)


def looked_up(practice: Stage) -> None:
    """The past, by every command that tells of it."""
    listed = practice.interlock("history", "--json").json
    assert [row["state"] for row in listed] == ["refused", "promoted", "unchanged", "verified"]
    name = listed[1]["rollout"]
    told = practice.interlock("history", "qwen35-122b", "--verify")
    assert told.code == 0
    assert "every digest whole" in told.out
    assert name in told.out
    assert practice.interlock("history", "--verify", "--json").json["faults"] == []

    shown = practice.interlock("show", name[:6])
    assert shown.code == 0
    assert "PROMOTED" in shown.out
    assert practice.interlock("show", name, "--json").json["events"][0]["data"]["reason"] == "switch MTP on"

    replayed = practice.interlock("replay", name[:6], "--json").json
    assert (replayed["rejudged"], replayed["equal"]) == (1, True)
    everything = practice.interlock("replay", "--all")
    assert everything.code == 0
    assert "digests whole; projections rebuild equal; 2 judgements judge equal today" in everything.out


def changed_by_hand(practice: Stage, manifest: str) -> None:
    """Somebody starts the engine by hand with another flag: verify says so, and changes nothing."""
    unit = practice.facts().unit_file
    assert unit is not None
    practice.write_unit(unit.replace(b"--speculative-num-steps 5", b"--speculative-num-steps 3"))
    practice.on_host("systemctl", "restart", "--", "sglang-qwen.service")
    practice.until_it_answers()
    before = practice.facts()
    refuted = practice.interlock("verify", manifest, "--bare")
    assert refuted.code == 1
    assert "UNPROVEN" in refuted.out
    assert "wanted 5" in refuted.out
    assert practice.facts() == before


def test_a_flag_that_the_engine_ignores_is_put_back(practice: Stage) -> None:
    before = practice.facts()
    ran = practice.interlock("apply", practice.manifest({"speculative_algorithm": "EAGLE3"}), "--bare", "--json")
    assert ran.code == 1
    assert ran.err == ""
    assert ran.json["outcome"] == "rolled-back"
    assert "speculative-algorithm refuted" in ran.json["error"]["message"]
    assert "did not take the flag" in ran.json["error"]["hint"]
    after = practice.facts()
    assert (after.unit_file, after.active, after.drivers) == (before.unit_file, before.active, before.drivers)


def test_a_service_goes_back_to_what_was_proven_before(practice: Stage) -> None:
    five, three = practice.manifest(), practice.manifest(THREE, name="three.yaml")
    none_yet = practice.interlock("rollback", "qwen35-122b", "--bare")
    assert (none_yet.code, none_yet.out) == (2, "")
    first = promoted(practice, five, "--json").json["revision"]
    second = promoted(practice, three, "--json").json["revision"]
    back = practice.interlock("rollback", "qwen35-122b", "--bare", "--json")
    assert (back.code, back.json["outcome"], back.json["purpose"]) == (0, "promoted", "rollback")
    assert back.json["revision"] == first
    forth = practice.interlock("rollback", "qwen35-122b", "--to", second[:10], "--bare", "--json")
    assert (forth.code, forth.json["revision"]) == (0, second)
    unknown = practice.interlock("rollback", "qwen35-122b", "--to", "ffff", "--bare")
    assert unknown.code == 2
    assert unknown.err.startswith("error: qwen35-122b has ")
    assert " proven revisions: none begins with `ffff`\nhint: " in unknown.err


def test_a_service_that_does_not_exist_yet_is_created(practice: Stage) -> None:
    remove_unit(practice)
    applied = promoted(practice, practice.manifest())
    assert "create /etc/systemd/system/sglang-qwen.service" in applied.out
    assert practice.facts().active == "active"


def test_a_first_install_that_is_broken_leaves_nothing_behind(practice: Stage) -> None:
    remove_unit(practice)
    ran = practice.interlock("apply", practice.manifest({"speculative_algorithm": "EAGLE3"}), "--bare")
    assert ran.code == 1
    assert "there was no good state to verify" in " ".join(ran.out.split())
    after = practice.facts()
    assert (after.unit_file, after.active, after.main_pid) == (None, "inactive", "0")
    assert set(after.drivers) == {"nvidia"}


def remove_unit(practice: Stage) -> None:
    practice.on_host("systemctl", "stop", "--", "sglang-qwen.service")
    practice.on_host("rm", "-f", "--", "/etc/systemd/system/sglang-qwen.service")
    practice.on_host("systemctl", "daemon-reload")
