"""What is laid out on a host, and what its files may say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.practice.engine import install
from tasks.practice.engine.faults import NAMES, FaultsInvalid, parse_faults
from tasks.practice.engine.models import ModelMissing, read_model
from tasks.practice.engine.settings import STAGE_SECONDS, SettingsInvalid, parse_settings
from tests.engine_standin.standin_launch import Tree

STANDARD = {*sys.stdlib_module_names, "__future__"}


def test_the_installed_part_is_standard_library_alone(tmp_path: Path) -> None:
    install.install_engine(tmp_path)
    code = "import sys, sglang.server, sglang.entry; print('\\n'.join(sorted(sys.modules)))"
    found = subprocess.run([tmp_path / "opt/sglang/bin/python", "-c", code], capture_output=True, text=True, check=True)
    tops = {name.partition(".")[0] for name in found.stdout.split()}
    assert tops - STANDARD - {"__main__", "sglang"} == set()


def test_a_newer_version_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    install.install_engine(tmp_path, version="0.5.9")
    install.install_engine(tmp_path, version="0.5.23")
    assert [path.name for path in (tmp_path / "opt/sglang/site").glob("*.dist-info")] == ["sglang-0.5.23.dist-info"]


def test_the_metadata_says_what_it_is(tmp_path: Path) -> None:
    install.install_engine(tmp_path)
    (metadata,) = tmp_path.glob("opt/sglang/site/*.dist-info/METADATA")
    assert "stand-in" in metadata.read_text()


def test_model_folders_tell_their_mtp_weights() -> None:
    tree = Tree()
    base, draft = read_model(install.QWEN.path, tree), read_model(install.QWEN_MTP.path, tree)
    assert base.hybrid
    assert base.draft_class == draft.draft_class == "Qwen3_5ForCausalLMMTP"
    assert draft.mtp_bytes == draft.weight_bytes == base.mtp_bytes
    index = json.loads(tree.read(f"{install.QWEN_MTP.path}/model.safetensors.index.json"))
    assert all(name.startswith("mtp.") for name in index["weight_map"])


@pytest.mark.parametrize("path", ["/shared/models/none", "/opt/sglang/bin"], ids=["no folder", "no model in it"])
def test_no_model(path: str) -> None:
    with pytest.raises(ModelMissing):
        read_model(path, Tree())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{", "not JSON", id="no JSON"),
        pytest.param("{}", "must be a list", id="no list"),
        pytest.param('[{"fault": "tired"}]', "known are flag-ignored", id="unknown fault"),
        pytest.param('[{"fault": "cuda-oom", "when": 3}]', "`when` must be an object", id="condition that is none"),
    ],
)
def test_faults_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(FaultsInvalid, match=words):
        parse_faults(text)


@pytest.mark.parametrize(
    ("asked", "effective", "expected"),
    [
        pytest.param({"speculative_algorithm": "NEXTN"}, {"speculative_algorithm": "EAGLE"}, True, id="as asked for"),
        pytest.param({}, {"speculative_algorithm": "NEXTN"}, True, id="as in effect"),
        pytest.param({"speculative_algorithm": None}, {}, False, id="another value"),
        pytest.param({}, {}, False, id="no such argument"),
    ],
)
def test_a_condition_looks_at_arguments_asked_and_in_effect(
    asked: dict[str, object], effective: dict[str, object], expected: bool
) -> None:
    faults = parse_faults('[{"fault": "cuda-oom", "when": {"speculative_algorithm": "NEXTN"}}]')
    assert faults.matching(asked, effective).has("cuda-oom") is expected


@pytest.mark.parametrize("text", ["[]", '{"speed": 3}', '{"stage_seconds": {"lunch": 3}}', "x"])
def test_settings_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SettingsInvalid):
        parse_settings(text)


def test_a_stage_alone_can_be_set() -> None:
    found = parse_settings('{"stage_seconds": {"weights": 5}, "seed": 3}')
    assert found.stage_seconds == {**STAGE_SECONDS, "weights": 5}
    assert found.seed == 3


def test_every_fault_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs/reference/engine-stand-in.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in text] == []
