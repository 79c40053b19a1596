"""Every engine whose rollouts can be proven answers the `Engine` port in the same way: claims from a manifest alone, a
fact for each of their metrics, and nothing held without evidence."""

from collections.abc import Mapping
from typing import Any

import pytest

from state.claims import PLANES, Claim
from state.engines.engine import engine_for
from state.engines.registry import NAMES, part
from state.engines.rendering import rendering_for
from state.evidence import Evidence, common_facts
from state.judging import judge
from state.manifest.load import load_manifest
from state.planning import Installed, target_of
from state.revision import render
from state.target import Target
from tasks.practice.engine.install import QWEN
from tasks.practice.llamacpp_scene import as_llamacpp
from tasks.practice.scene import manifest_text, seed_manifest
from tasks.practice.vllm_scene import as_vllm
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

ENGINES = tuple(name for name in NAMES if part(name, "verification", "ENGINE"))
HOSTS = {"serving": {"address": "llm-two.example", "user": "interlock"}}
SEED = {**seed_manifest({}, 30000), "hosts": HOSTS, "gpus": None}
SEEDS: Mapping[str, Mapping[str, Any]] = {
    "sglang": SEED,
    "vllm": as_vllm(SEED, 8000),
    "llamacpp": as_llamacpp(SEED, 8080),
}
VERSIONS = {
    "sglang": ("0.5.9", "0.5.20"),
    "vllm": ("0.10.2", "0.20.2", "0.29.0"),
    "llamacpp": ("b8200", "b9849", "b11222"),
}
VERSION_SAID = {
    "sglang": ("0.5.20\n", "0.5.20"),
    "vllm": ("0.29.0\n", "0.29.0"),
    "llamacpp": ("version: 9849 (799fcc04a)\nbuilt with GNU 11.4.0 for Linux x86_64\n", "b9849"),
}
"""What the installation prints when it is asked, and the version in it."""
SPECULATION: dict[str, dict[str, Any]] = {
    "sglang": {
        "speculative_algorithm": None,
        "speculative_num_steps": None,
        "speculative_eagle_topk": None,
        "speculative_num_draft_tokens": None,
        "speculative_draft_model_path": None,
    },
    "vllm": {"speculative_config": None},
    "llamacpp": {"spec_type": None, "model_draft": None, "spec_draft_n_max": None},
}


def targets() -> list[Any]:
    return [
        pytest.param(engine, version, speculates, id=f"{engine}-{version}-{'mtp' if speculates else 'plain'}")
        for engine in ENGINES
        for version in (None, *VERSIONS[engine])
        for speculates in (True, False)
    ]


def target(engine: str, version: str | None, speculates: bool) -> Target:
    text = manifest_text(SEEDS[engine], None if speculates else SPECULATION[engine], claims=[])
    revision = render(load_manifest(text, "manifest.yaml"))
    return target_of(revision, Installed(version, {QWEN.path: (QWEN.architecture,)}))


def claims(engine: str, wanted: Target) -> tuple[Claim, ...]:
    return engine_for(engine).derive(wanted)


def test_the_engines_of_this_suite_are_all_that_can_be_rolled_out() -> None:
    assert set(ENGINES) == set(SEEDS) == set(VERSIONS) == set(VERSION_SAID)


@pytest.mark.parametrize(("engine", "version", "speculates"), targets())
def test_claims_follow_from_the_manifest_alone(engine: str, version: str | None, speculates: bool) -> None:
    derived = claims(engine, target(engine, version, speculates))
    names = [claim.name for claim in derived]
    assert len(set(names)) == len(names), "a claim is known by its name"
    assert [PLANES.index(c.plane) for c in derived] == sorted(PLANES.index(c.plane) for c in derived)
    assert {c.plane for c in derived} == {"identity", "control", "data", "resource", "function", "speculation"} - (
        set() if speculates or engine == "sglang" else {"data"}
    )
    assert all(claim.remedy and claim.source and claim.statement for claim in derived)
    assert all(len(claim.causes) >= 1 for claim in derived if claim.plane in ("control", "data", "speculation"))


@pytest.mark.parametrize(("engine", "version", "speculates"), targets())
def test_without_evidence_nothing_is_held(engine: str, version: str | None, speculates: bool) -> None:
    wanted, nothing = target(engine, version, speculates), Evidence({})
    facts = (*common_facts(wanted, nothing), *engine_for(engine).facts(wanted, nothing))
    verdicts = judge(claims(engine, wanted), facts)
    assert [(v.claim, v.outcome) for v in verdicts if v.outcome != "inconclusive"] == []


DAMAGES = {
    "empty": b"",
    "text": b"no JSON at all",
    "a-list": b"[]",
    "a-number": b"7",
    "an-object": b"{}",
    "nested": b'{"data": 3, "vllm_config": 4, "internal_states": "x"}',
    "not-utf8": b"\xff\xfe{",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_evidence_holds_nothing_and_raises_nothing(engine: str, damage: bytes) -> None:
    wanted = target(engine, None, True)
    items = ["journal", "answers", "generations", "metrics", "metrics-before", "context", "unit", "cmdline"]
    evidence = Evidence(dict.fromkeys([*items, *engine_for(engine).probes()], damage))
    facts = (*common_facts(wanted, evidence), *engine_for(engine).facts(wanted, evidence))
    held = [v.claim for v in judge(claims(engine, wanted), facts) if v.outcome == "held"]
    assert held == []


@pytest.mark.parametrize(("engine", "version", "speculates"), targets())
def test_what_is_undecidable_says_why_and_is_no_claim_as_well(
    engine: str, version: str | None, speculates: bool
) -> None:
    wanted = target(engine, version, speculates)
    derived = {claim.name for claim in claims(engine, wanted)}
    for one in engine_for(engine).undecidable(wanted):
        assert one.why
        assert one.claim not in derived


@pytest.mark.parametrize("engine", ENGINES)
def test_requests_and_their_answers_are_the_engines_own(engine: str) -> None:
    port = engine_for(engine)
    assert port.kind == engine
    for question in (
        port.generation("x", 8, exact=True),
        port.chat("m", "x", 8, stream=False, extra={"tools": []}),
        port.load("m", "x", 8),
    ):
        assert question.method == "POST"
        assert question.body is not None
        assert 8 in question.body.values() or 8 in question.body["sampling_params"].values()
    assert {"models", "metrics"} <= set(port.probes())
    assert all(q.method == "GET" and q.body is None for q in port.probes().values())
    assert port.reply(b"") is None
    assert port.reply(b'{"object": "error"}') is None
    whole = b'{"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}'
    reply = port.reply(whole)
    assert reply is not None
    assert (reply.text, reply.tokens, reply.finish_reason) == ("42", 2, "stop")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_installation_is_asked_without_being_started(engine: str) -> None:
    port, rendering = engine_for(engine), rendering_for(engine)
    assert rendering is not None
    command = tuple(SEEDS[engine]["engine"]["command"])
    version = port.version_argv(command)
    assert version is not None
    assert version[0].rpartition("/")[0] == command[0].rpartition("/")[0], "of the installation that is started"
    said, told = VERSION_SAID[engine]
    assert port.read_version(said, "") == told
    assert port.read_version("", "") is None
    for way in port.help_argvs(command):
        assert way[: len(command)] == command
        assert way[len(command)].startswith("--help")
    assert rendering.has_entry_point(command)
    assert port.version_argv(("/opt/run.sh",)) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_running_argv_gives_the_same_claims_as_its_manifest(engine: str) -> None:
    """What is found running is proven like what was rendered, when a rollback puts it back."""
    wanted, rendering = target(engine, None, True), rendering_for(engine)
    assert rendering is not None
    found = wanted.model_copy(update={"arguments": dict(rendering.parse_arguments(wanted.argv))})
    assert found.arguments == wanted.arguments
    assert claims(engine, found) == claims(engine, wanted)


@pytest.mark.parametrize("speculates", [pytest.param(True, id="mtp"), pytest.param(False, id="plain")])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_claim_finds_its_fact_on_a_sound_start(engine: str, speculates: bool) -> None:
    """On the engine's stand-in: each metric that a claim names is a fact with a value."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            changes: dict[str, Any] = {"readiness": {"timeout": "90s"}} if speculates else {"claims": []}
            plain = {**SPECULATION[engine], PLAIN[engine]: True}
            ended = await stage.roll_out({} if speculates else plain, **changes)
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            assert ended.plan is not None
            (judged,) = (one for key, one in ended.judged.items() if key == max(ended.judged))
            known = {fact.metric for fact in judged.facts if fact.value is not None}
            assert [claim.name for claim in ended.plan.claims if claim.metric not in known] == []

    run()


PLAIN = {"sglang": "enable_metrics", "vllm": "enforce_eager", "llamacpp": "jinja"}
"""A switch that makes the plain configuration another than the one that runs already."""
