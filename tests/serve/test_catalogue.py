"""Manifests on file: which revision a file is, and that a mistake takes only its own file away."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.serve.catalogue import FolderCatalogue, read_folder
from state.errors import ManifestInvalid, NotFound

TEXT = """interlock: 1
service: {service}
hosts:
  serving: {{address: llm-one.example, user: interlock}}
unit: {{host: serving, name: sglang.service, user: sglang}}
engine:
  kind: sglang
  command: [/opt/sglang/bin/sglang, serve]
  endpoint: http://127.0.0.1:30000
  arguments: {{model_path: /models/a}}
"""


def put(folder: Path, name: str, service: str = "a", more: str = "") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEXT.format(service=service) + more, encoding="utf-8")
    return path


def test_a_revision_is_named_by_its_file_and_a_service_by_its_manifest(tmp_path: Path) -> None:
    for name in ("day.yaml", "a/night-vm.yaml", "x/y/too-deep.yaml", ".hidden.yaml", "a/notes.yml"):
        put(tmp_path, name)
    put(tmp_path, "b/day.yaml", "b")
    assert read_folder(tmp_path).targets == ("a/day", "a/night-vm", "b/day")
    assert read_folder(tmp_path).mistakes == ()
    assert read_folder(tmp_path / "absent").targets == ()


def test_of_two_files_for_one_revision_neither_is_offered(tmp_path: Path) -> None:
    first, second = put(tmp_path, "a/day.yaml"), put(tmp_path, "day.yaml", more="# another text\n")
    put(tmp_path, "a/night.yaml")
    contents = read_folder(tmp_path)
    assert contents.targets == ("a/night",)
    assert [str(m).splitlines()[1] for m in contents.mistakes] == [
        f"{one}:1: service: `a/day` is in {other} too, so that neither is offered; give one another name"
        for one, other in ((first, second), (second, first))
    ]


def test_what_is_no_file_is_told_and_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "a/day.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    contents = read_folder(tmp_path)
    assert contents.targets == ("a/day",)
    assert [str(m) for m in contents.mistakes] == [
        f"{tmp_path}/folder.yaml is no regular file",
        f"{tmp_path}/pipe.yaml is no regular file",
    ]


@pytest.mark.parametrize("name", ["sp ace", "é", "-first", "a" * 129])
def test_a_name_that_nobody_could_ask_for_is_no_revision(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"{name}.yaml")
    contents = read_folder(tmp_path)
    assert contents.targets == ()
    assert [f"`{name}` names no revision" in str(m) for m in contents.mistakes] == [True]


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        pytest.param('{cron: "0 7 * * *", revision: night}', None, id="a revision beside it, in UTC"),
        pytest.param('{cron: "0 7 * * *", revision: night, timezone: Europe/Berlin}', None, id="in another zone"),
        pytest.param('{cron: "0 7 * * *", revision: gone}', "revision: there is no manifest of a at",
                     id="no such file"),
        pytest.param('{cron: "0 7 * * *", revision: other}', "revision: there is no manifest of a at",
                     id="a file of another service"),
        pytest.param('{cron: "0 7 * * *", revision: far}', "revision: there is no manifest of a at",
                     id="a file of another folder"),
    ],
)  # fmt: skip
def test_a_schedule_names_a_revision_beside_it(tmp_path: Path, schedule: str, told: str | None) -> None:
    day = put(tmp_path, "a/day.yaml", more=f"schedule:\n  - {schedule}\n")
    put(tmp_path, "a/night.yaml")
    put(tmp_path, "a/other.yaml", "b")
    put(tmp_path, "far.yaml")
    contents = read_folder(tmp_path)
    assert "a/day" in contents.targets
    assert len(contents.switches) == (told is None)
    assert [told in str(m) and f"{day}:12: schedule[0]." in str(m) for m in contents.mistakes] == [True] * bool(told)


def test_a_time_zone_that_there_is_not_is_a_mistake_of_its_file(tmp_path: Path) -> None:
    zone = "timezone: Mars/Olympus"
    day = put(tmp_path, "a/day.yaml", more=f'schedule:\n  - {{cron: "0 7 * * *", revision: night, {zone}}}\n')
    put(tmp_path, "a/night.yaml")
    contents = read_folder(tmp_path)
    assert (contents.targets, contents.switches) == (("a/night",), ())
    told = f"{day}:12: schedule[0].timezone: `Mars/Olympus` is not in this machine's time zone database"
    assert [told in str(mistake) for mistake in contents.mistakes] == [True]


WITHOUT = """
import json, pathlib, sys, zoneinfo
zoneinfo.reset_tzpath(to=[])
sys.modules["tzdata"] = None
from deployments.serve.catalogue import read_folder
contents = read_folder(pathlib.Path(sys.argv[1]))
print(json.dumps([contents.targets, len(contents.switches), [str(mistake) for mistake in contents.mistakes]]))
"""


def test_without_a_time_zone_database_a_manifest_is_read_and_its_switch_is_not_made(tmp_path: Path) -> None:
    """Nobody can say there whether the zone is one: a rollout is not kept from it, a switch needs its time."""
    zone = "timezone: Europe/Berlin"
    day = put(tmp_path, "a/day.yaml", more=f'schedule:\n  - {{cron: "0 7 * * *", revision: day, {zone}}}\n')
    words = (sys.executable, "-c", WITHOUT, str(tmp_path))
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    targets, switches, (mistake,) = json.loads(done.stdout)
    assert (targets, switches) == (["a/day"], 0)
    assert f"{day}:12: schedule[0].timezone: `Europe/Berlin` is not in this machine's time zone database" in mistake


def test_the_same_switch_in_two_manifests_is_one(tmp_path: Path) -> None:
    same = 'schedule:\n  - {cron: "0 22 * * *", revision: night}\n'
    put(tmp_path, "a/day.yaml", more=same)
    put(tmp_path, "a/night.yaml", more=same)
    assert [s.target for s in read_folder(tmp_path).switches] == ["a/night"]


def test_what_is_not_on_file_is_refused_with_what_is_and_a_mistake_with_its_line(tmp_path: Path) -> None:
    put(tmp_path, "a/day.yaml")
    put(tmp_path, "a/broken.yaml", more="surplus: 1\n")
    catalogue = FolderCatalogue(tmp_path)
    with pytest.raises(NotFound, match="no manifest `a/night`") as missing:
        asyncio.run(catalogue.manifest("a", "night"))
    assert missing.value.hint == "on file: a/day"
    with pytest.raises(ManifestInvalid, match=r"broken\.yaml:11: surplus: is not known here"):
        asyncio.run(catalogue.manifest("a", "broken"))
    assert [(s.service, s.revisions) for s in asyncio.run(catalogue.services())] == [("a", ("day",))]
