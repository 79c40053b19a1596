"""Rollouts of llama-server on a practice host in memory: promoted with a draft model and with an MTP head, turned back
for each fault, judged alike in a replay."""

from typing import Any

import pytest

from state.engines.rendering import rendering_for
from tasks.practice.engine.install import QWEN_DRAFT_GGUF
from tasks.practice.llamacpp_scene import as_llamacpp
from tasks.practice.scene import seed_manifest
from tests.flows.engine_rollouts import differences, exchanged, refused_first, turned_back
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

HEAD = {"model_draft": None, "spec_type": "draft-mtp", "spec_draft_n_max": 2}


def fault(name: str, **options: Any) -> dict[str, Any]:
    """A fault of the new configuration alone."""
    return {"fault": name, "when": {"model_draft": QWEN_DRAFT_GGUF.path}, **options}


@pytest.mark.parametrize(
    ("arguments", "version", "claims"),
    [
        pytest.param({}, "b9849", {"speculative-decoding", "draft-weights", "draft-max"}, id="a-draft-model"),
        pytest.param(HEAD, "b9849", {"speculative-decoding", "draft-weights", "draft-depth"}, id="an-mtp-head"),
        pytest.param({"metrics": True}, "b11222", {"figures-agree"}, id="the-newest-build"),
        pytest.param(
            {"spec_type": None, "spec_draft_n_max": None, "draft_max": 4}, "b8200", {"draft-depth"}, id="an-older-build"
        ),
    ],
)
def test_speculation_is_proven_and_promoted(arguments: dict[str, Any], version: str, claims: set[str]) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="llamacpp", version=version) as stage:
            changes: dict[str, Any] = {"claims": [{"claim": "accept-length", "at_least": 1.5}]}
            ended = await stage.roll_out(arguments, **changes)
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            by_name = {v.claim: v for v in ended.verdicts}
            assert {"accepted-per-request", "model-path", "build", "parallel", "ctx-size", *claims} <= set(by_name)
            assert {v.claim for v in ended.verdicts if v.outcome != "held"} <= {"draft-max"}
            assert by_name["accept-length"].estimate is not None
            after = await stage.state()
            rendering = rendering_for("llamacpp")
            assert rendering is not None
            assert rendering.parse_arguments(after.argv)["flash_attn"] == "on"
            assert after.drivers["0000:81:00.0"] == "vfio-pci"
            assert (await stage.roll_out(arguments, **changes)).concluded.outcome == "unchanged"  # type: ignore[union-attr]
            assert await differences(stage) == []

    run()


ENDINGS = [
    pytest.param(fault("flag-ignored"), "speculative-decoding refuted", "drops the flag", id="flag-ignored"),
    pytest.param(
        fault("accept-nothing"), "speculation-active refuted: useless", "shares its vocabulary", id="accepts-nothing"
    ),
    pytest.param(
        fault("crash-loading-draft"), r"\(weights-mismatch\)", "draft|weights|checkpoint", id="crash-loading-the-draft"
    ),
    pytest.param(
        fault("hang-after-ready"), "no generation came back within 10 s", "scheduler hangs", id="healthy-but-hanging"
    ),
    pytest.param(fault("garbage-answers"), "answers refuted|not-degenerate refuted", "speculation off", id="garbage"),
    pytest.param(fault("wrong-answers"), "answers refuted", "wrongly", id="wrong-answers"),
    pytest.param(
        fault("kv-too-small"), r"\(kv-cache-too-small\)", "--ctx-size or fewer slots", id="no-room-for-a-cache"
    ),
    pytest.param(fault("cuda-oom"), r"\(cuda-oom\)", "--n-gpu-layers", id="out-of-gpu-memory"),
    pytest.param(
        fault("exit-after-ready"),
        r"(active|one-start|no-restart) refuted|The engine failed \(",
        "systemctl status|journal|restarted|printed|illegal",
        id="aborts-after-ready",
    ),
    pytest.param(
        fault("host-oom"), r"The engine failed \((exited|killed|worker-died)\)", "kernel|OOM|log", id="killed"
    ),
]


@pytest.mark.parametrize(("scripted", "cause", "remedy"), ENDINGS)
def test_a_broken_start_is_found_and_the_old_state_put_back(scripted: dict[str, Any], cause: str, remedy: str) -> None:
    @in_virtual_time
    async def run() -> None:
        await turned_back("llamacpp", scripted, cause, remedy)

    run()


def test_a_file_without_mtp_layers_is_healthy_and_turned_back() -> None:
    """The engine warns, goes on without speculation, and answers every request."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="llamacpp") as stage:
            before = await stage.state()
            ended = await stage.roll_out({**HEAD, "model": QWEN_DRAFT_GGUF.path}, claims=[])
            assert ended.concluded is not None
            assert ended.concluded.outcome == "rolled-back", ended.concluded.summary
            refuted = {v.claim: v.reason for v in ended.judged["new:1"].verdicts if v.outcome == "refuted"}
            assert set(refuted) == {"speculative-decoding", "draft-weights", "speculation-active"}
            assert "doesn't contain MTP layers" in refuted["speculative-decoding"]
            assert await stage.state() == before
            assert await differences(stage) == []

    run()


@pytest.mark.parametrize(
    ("version", "arguments", "refusal"),
    [
        pytest.param(
            "b9849",
            {"spec_draft_n_max": None, "draft_max": 4},
            "does not accept --draft-max; it was removed; use --spec-",
            id="a-flag-that-was-removed",
        ),
        pytest.param("b8200", {}, "does not accept --spec-draft-n-max", id="a-flag-that-is-not-there-yet"),
        pytest.param(
            "b9849", {"model": "/none.gguf"}, "engine.arguments.model: /none.gguf does not exist", id="no-file"
        ),
        pytest.param(
            "b9849",
            {"model_draft": "/none.gguf"},
            "engine.arguments.model_draft: /none.gguf does not exist",
            id="no-draft",
        ),
        pytest.param("b9849", {"ctx_sise": 4096}, "did you mean --ctx-size?", id="misspelt"),
    ],
)
def test_what_the_installed_build_would_not_take_is_refused_first(
    version: str, arguments: dict[str, Any], refusal: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        await refused_first("llamacpp", version, arguments, refusal)

    run()


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        pytest.param([], "promoted", id="promoted"),
        pytest.param([fault("accept-nothing")], "rolled-back", id="turned-back-and-the-old-engine-proven"),
    ],
)
def test_a_service_goes_from_another_engine_to_this_one(faults: list[dict[str, Any]], outcome: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            seed = as_llamacpp(seed_manifest(stage.scene.specs, stage.scene.port), stage.scene.port)
            ended = await exchanged("llamacpp", seed, faults, stage, claims=[])
            assert ended.concluded is not None
            assert ended.concluded.outcome == outcome, ended.concluded.summary

    run()


def test_the_seed_without_speculation_is_proven_too() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="llamacpp") as stage:
            plain = {"model_draft": None, "spec_type": None, "spec_draft_n_max": None}
            ended = await stage.roll_out(plain, claims=[])
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            by_name = {v.claim: v.outcome for v in ended.verdicts}
            assert (by_name["speculation-off"], by_name["speculative-decoding"]) == ("held", "held")

    run()


def test_a_change_of_speed_is_measured_against_the_old_configuration() -> None:
    """Accept lengths of single requests, and throughput before and after at two concurrencies."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="llamacpp", settings={"noise": 0.02}) as stage:
            wanted = [{"claim": "throughput", "at_least": "-50%", "concurrency": [1, 2]}]
            ended = await stage.roll_out({}, claims=wanted)
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            told = [v for v in ended.verdicts if v.plane == "performance"]
            assert len(told) == 2
            assert {v.outcome for v in told} == {"held"}

    run()
