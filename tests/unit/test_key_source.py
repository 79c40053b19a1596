"""Whether a new start is told its key as the running one: the same where everything that may tell it is the same."""

from typing import Any

import pytest

from state.key_source import told_the_same
from state.manifest.load import load_manifest
from state.planning import Installed, target_of
from state.revision import Revision, render
from tests.unit.test_revision import SMALL

CONFIG, SECRETS = "config: /etc/interlock/a.yaml, ", ", secrets: [/etc/interlock/a.env]"


def revision(text: str = SMALL, config: str = CONFIG, secrets: str = SECRETS) -> Revision:
    made = text.replace("{model_path:", "{" + config + "model_path:").replace('"1 $x"}}', '"1 $x"}' + secrets + "}")
    return render(load_manifest(made, "m.yaml"))


CHANGED = [
    pytest.param({}, True, id="nothing"),
    pytest.param({"text": SMALL.replace("tp: 4", "tp: 8")}, True, id="an-argument-that-tells-none"),
    pytest.param({"text": SMALL.replace("/opt/sglang/", "/opt/sglang-0.5.24/")}, True, id="the-engine's-folder"),
    pytest.param({"text": SMALL.replace("/opt/sglang/bin/python", "/opt/sglang/run")}, False, id="a-wrapper"),
    pytest.param({"config": "config: /etc/interlock/b.yaml, "}, False, id="another-config"),
    pytest.param({"config": ""}, False, id="no-config"),
    pytest.param({"secrets": ", secrets: [/etc/interlock/b.env]"}, False, id="another-file-of-secrets"),
    pytest.param({"secrets": ""}, False, id="no-file-of-secrets"),
    pytest.param({"secrets": SECRETS + ", working_directory: /srv"}, False, id="where-a-relative-path-leads"),
]


@pytest.mark.parametrize(("changes", "same"), CHANGED)
def test_it_is_the_same_where_nothing_that_may_tell_the_key_differs(changes: dict[str, Any], same: bool) -> None:
    old = revision()
    running = target_of(old, Installed(None, {}))
    assert told_the_same(running, old.files[0].content, revision(**changes)) is same


SHOWN = [
    # what the running unit's text has beside what interlock wrote
    pytest.param("", True, id="nothing"),
    pytest.param("[Service]\nNice=5\nEnvironment=HF_HOME=/srv\n", True, id="a-drop-in-of-other-things"),
    pytest.param("[Service]\nEnvironment=SGLANG_API_KEY=x\n", False, id="a-key-in-a-variable"),
    pytest.param("[Service]\nEnvironmentFile=/etc/more.env\n", False, id="one-more-file"),
    pytest.param(
        "[Service]\nEnvironmentFile=\nEnvironmentFile=-/etc/interlock/a.env\n", True, id="the-same-file-as-optional"
    ),
]


@pytest.mark.parametrize(("more", "same"), SHOWN)
def test_the_running_unit_counts_as_systemd_shows_it(more: str, same: bool) -> None:
    old = revision()
    running = target_of(old, Installed(None, {}))
    assert told_the_same(running, old.files[0].content + more, old) is same


def test_a_unit_that_cannot_be_read_is_not_sure_to_be_the_same() -> None:
    old = revision()
    assert not told_the_same(target_of(old, Installed(None, {})), "", old)


def test_another_engine_is_told_its_key_in_its_own_way() -> None:
    old = revision()
    running = target_of(old, Installed(None, {})).model_copy(update={"engine": "vllm"})
    assert not told_the_same(running, old.files[0].content, old)
