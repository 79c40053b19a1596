"""A revision is the manifest as it reaches the hosts, and its digest names exactly that."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from systemd_syntax import directives, environment, exec_start

from state.canonical import sha256_hex
from state.engines.sglang.rendering import RENDERING
from state.errors import ManifestInvalid, UsageInvalid
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from state.revision import FileContent, Revision, render

EXAMPLE = (Path(__file__).parents[2] / "docs" / "reference" / "example.yaml").read_text()

SMALL = """\
interlock: 1
service: qwen
hosts: {serving: {address: llm.example, user: interlock}}
unit: {host: serving, name: sglang.service, user: sglang, environment: {A: "1 $x"}}
engine:
  kind: sglang
  command: [/opt/sglang/bin/python, -m, sglang.launch_server]
  endpoint: http://127.0.0.1:30000
  arguments: {model_path: /m, tp: 4, json_model_override_args: '{"a": 1}'}
gpus: {host: serving, drivers: {nvidia: ["01:00.0"]}}
"""
SMALL_DIGEST = "f1a1869dd9cf19dbb25a08a3b49bf680876265fbb072186db29fffa879c04341"
"""Changes only where what reaches a host is meant to change: every known-good revision then gets a new name."""


def manifest(**changes: Any) -> Manifest:
    """The example with parts of its sections replaced, through the text of a file."""
    raw = yaml.safe_load(EXAMPLE)
    for name, value in changes.items():
        raw[name] = {**raw[name], **value} if isinstance(value, dict) else value
    return load_manifest(yaml.safe_dump(raw, allow_unicode=True), "m.yaml")


def reordered(value: Any) -> Any:
    """The same value with every mapping's keys in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def test_the_example_becomes_a_revision() -> None:
    revision = render(load_manifest(EXAMPLE, "example.yaml"))
    assert revision.unit == "sglang-qwen.service"
    assert revision.files[0].path == "/etc/systemd/system/sglang-qwen.service"
    assert revision.argv[:3] == ("/opt/sglang/bin/python", "-m", "sglang.launch_server")
    assert revision.arguments["speculative_num_steps"] == 5
    assert revision.drivers["0000:81:00.0"] == "vfio-pci"
    assert revision.secrets == ("/etc/interlock/qwen.env",)
    assert (revision.stop.drain_s, revision.stop.timeout_s, revision.policy.timer_s) == (60, 90, 300)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, (7200.0, "rollback"), id="default"),
        pytest.param({"hold": {"deadline": "30m", "default": "accept"}}, (1800.0, "accept"), id="said"),
    ],
)
def test_a_hold_has_a_deadline_and_a_default(policy: dict[str, Any], expected: tuple[float, str]) -> None:
    text = yaml.safe_dump({**yaml.safe_load(SMALL), "policy": policy})
    made = render(load_manifest(text, "m.yaml")).policy
    assert (made.hold_deadline_s, made.hold_default) == expected


def test_the_unit_carries_what_the_manifest_says() -> None:
    text = render(load_manifest(EXAMPLE, "example.yaml")).files[0].content
    service = directives(text, "Service")
    assert service["EnvironmentFile"] == ["/etc/interlock/qwen.env"]
    assert service["LimitMEMLOCK"] == ["infinity"]
    assert service["TimeoutStopSec"] == ["150"]
    assert directives(text, "Unit")["X-Interlock-Service"] == ["qwen35-122b"]


def test_the_digest_is_the_same_for_ever() -> None:
    assert render(load_manifest(SMALL, "small.yaml")).digest == SMALL_DIGEST


def test_the_order_of_keys_does_not_count() -> None:
    text = yaml.safe_dump(reordered(yaml.safe_load(EXAMPLE)), sort_keys=False)
    assert render(load_manifest(text, "m.yaml")).digest == render(load_manifest(EXAMPLE, "m.yaml")).digest


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"engine": {"arguments": {"model_path": "/m"}}}, id="arguments"),
        pytest.param({"unit": {"environment": {"A": "1"}}}, id="environment"),
        pytest.param({"unit": {"user": "other"}}, id="user"),
        pytest.param({"unit": {"secrets": []}}, id="secrets"),
        pytest.param({"unit": {"stop": {"timeout": "91s"}}}, id="stop-timeout"),
        pytest.param({"gpus": {"drivers": {"nvidia": ["0000:01:00.0"]}}}, id="drivers"),
        pytest.param({"gpus": {"persist": "boot"}}, id="persistence"),
        pytest.param({"service": "other"}, id="service"),
    ],
)
def test_what_reaches_a_host_changes_the_digest(changes: dict[str, Any]) -> None:
    assert render(manifest(**changes)).digest != render(manifest()).digest


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"claims": []}, id="claims"),
        pytest.param({"policy": {"soak": "1h"}}, id="policy"),
        pytest.param({"readiness": {"timeout": "1h"}}, id="readiness"),
        pytest.param({"schedule": []}, id="schedule"),
        pytest.param({"engine": {"version": "0.5.22"}}, id="expected-version"),
        pytest.param({"engine": {"key_file": "/etc/other.key"}}, id="key-file"),
    ],
)
def test_how_it_is_proven_does_not_change_the_digest(changes: dict[str, Any]) -> None:
    assert render(manifest(**changes)).digest == render(manifest()).digest


def test_a_revision_survives_json() -> None:
    revision = render(manifest())
    again = Revision.model_validate(revision.as_json())
    assert (again, again.digest) == (revision, revision.digest)
    assert revision.digest.startswith(revision.short)
    assert len(revision.short) == 12


def test_a_file_is_named_by_the_digest_of_its_bytes() -> None:
    assert FileContent(path="/x", content="ü\n").digest == sha256_hex("ü\n".encode())


def test_aliases_do_not_make_another_revision() -> None:
    short, long = ({"model_path": "/m", name: 4} for name in ("tp", "tensor_parallel_size"))
    assert render(manifest(engine={"arguments": short})).digest == render(manifest(engine={"arguments": long})).digest


def test_an_engine_that_cannot_be_rendered_is_refused() -> None:
    sound = manifest()
    foreign = sound.model_copy(update={"engine": sound.engine.model_copy(update={"kind": "other"})})
    with pytest.raises(UsageInvalid, match="No rendering for engine `other`"):
        render(foreign)


TEXT = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"], include_characters=" "))
NAMES = st.one_of(
    st.sampled_from(["tp", "model_path", "mem_fraction_static"]), st.from_regex(r"x_[a-z]{1,6}", fullmatch=True)
)
LISTED = st.one_of(st.integers(0, 9), TEXT.filter(lambda word: not word.startswith("-")))
VALUES = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.lists(LISTED, min_size=1, max_size=3),
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=6)
ENVIRONMENT = st.dictionaries(st.from_regex(r"X_[A-Z]{1,6}", fullmatch=True), TEXT, max_size=3)


@given(ARGUMENTS, ENVIRONMENT)
def test_any_accepted_manifest_runs_the_argv_that_it_asks_for(
    arguments: dict[str, Any], variables: dict[str, str]
) -> None:
    try:
        accepted = manifest(engine={"arguments": arguments}, unit={"environment": variables})
    except ManifestInvalid:
        return
    revision = render(accepted)
    unit = revision.files[0].content
    assert exec_start(unit) == list(revision.argv)
    assert environment(unit) == variables
    assert RENDERING.parse_arguments(revision.argv) == revision.arguments == RENDERING.canonical_arguments(arguments)


@pytest.mark.parametrize(
    ("kind", "command", "started"),
    [
        pytest.param("vllm", ["/opt/sglang/bin/python", "-m", "sglang.launch_server"], "sglang", id="sglang as vllm"),
        pytest.param("llamacpp", ["/opt/vllm/bin/vllm", "serve"], "vllm", id="vllm as llamacpp"),
    ],
)
def test_a_command_of_another_engine_is_refused(kind: str, command: list[str], started: str) -> None:
    text = yaml.safe_dump(
        yaml.safe_load(SMALL)
        | {
            "engine": {
                "kind": kind,
                "command": command,
                "endpoint": "http://127.0.0.1:9000",
                "arguments": {"port": 9000, "model": "/m"},
            }
        }
    )
    with pytest.raises(UsageInvalid, match=f"engine.kind is {kind}, but engine.command starts {started}"):
        render(load_manifest(text, "m.yaml"))


def test_a_wrapper_may_start_any_engine() -> None:
    text = SMALL.replace("[/opt/sglang/bin/python, -m, sglang.launch_server]", "[/usr/local/bin/start-qwen]")
    assert render(load_manifest(text, "m.yaml")).argv[0] == "/usr/local/bin/start-qwen"
