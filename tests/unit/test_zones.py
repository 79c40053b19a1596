"""Time zones of a schedule: one that there is not is told with its line and with the one that was probably meant."""

from zoneinfo import available_timezones

import pytest

from state.errors import ManifestInvalid
from state.manifest.load import load_manifest
from state.manifest.zones import unknown_zone
from tasks.zones import zone_mistake

SOUND = """\
interlock: 1
service: qwen
hosts:
  serving: {address: llm.example, user: interlock}
unit: {host: serving, name: sglang.service, user: sglang}
engine:
  kind: sglang
  command: [/opt/sglang/bin/python, -m, sglang.launch_server]
  endpoint: http://127.0.0.1:30000
  arguments: {model_path: /m}
schedule:
  - cron: "0 7 * * *"
    revision: day
    timezone: %s
  - {cron: "0 22 * * *", revision: night}
"""
NOT_THERE = "is not in this machine's time zone database;"


def mistakes(zone: str) -> tuple[str, ...]:
    with pytest.raises(ManifestInvalid) as caught:
        load_manifest(SOUND % zone, "m.yaml", zone_mistake)
    return caught.value.mistakes


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "CET"])
def test_a_zone_of_the_database_is_taken(zone: str) -> None:
    assert load_manifest(SOUND % zone, "m.yaml", zone_mistake).schedule[0].timezone == zone


@pytest.mark.parametrize(
    ("zone", "asked"),
    [
        pytest.param("Europe/Berln", "did you mean `Europe/Berlin`?", id="a-letter-is-missing"),
        pytest.param("europe/berlin", "did you mean `Europe/Berlin`?", id="small-letters"),
        pytest.param("CEST", "expected one such as Europe/Berlin", id="letters-that-are-no-zone-are-not-another-s"),
        pytest.param("Berlin", "did you mean `Europe/Berlin`?", id="a-city-without-its-continent"),
        pytest.param("US/New_York", "did you mean `America/New_York`?", id="a-city-of-another-continent"),
        pytest.param("Asia/Peking", "expected one such as Europe/Berlin", id="nothing-is-near"),
        pytest.param("Europe", "expected one such as Europe/Berlin", id="a-folder-of-zones"),
    ],
)
def test_another_is_told_with_the_one_that_was_meant(zone: str, asked: str) -> None:
    assert mistakes(zone) == (f"m.yaml:14: schedule[0].timezone: `{zone}` {NOT_THERE} {asked}",)


def test_what_no_zone_is_called_is_told_once() -> None:
    (told,) = mistakes("../../etc/passwd")
    assert told.endswith("`../../etc/passwd` does not fit; expected a time zone such as Europe/Berlin")


def test_the_database_is_asked_only_for_zones_other_than_utc() -> None:
    asked: list[str] = []
    for zone in ("UTC", "Europe/Berlin"):
        load_manifest(SOUND % zone, "m.yaml", asked.append)
    assert asked == ["Europe/Berlin"]


def test_who_names_no_judge_takes_every_zone() -> None:
    assert load_manifest(SOUND % "Mars/Olympus", "m.yaml").schedule[0].timezone == "Mars/Olympus"


def test_each_zone_of_this_machine_is_one_and_near_itself() -> None:
    known = available_timezones()
    assert [zone for zone in known if zone_mistake(zone)] == []
    wrong = {zone: unknown_zone(f"{zone}x", known) for zone in known if "/" in zone}
    assert [zone for zone, told in wrong.items() if "did you mean" not in told] == []
