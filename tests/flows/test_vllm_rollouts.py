"""Rollouts of vLLM on a practice host in memory: promoted with MTP, turned back for each fault, judged alike in a
replay."""

from typing import Any

import pytest

from state.engines.rendering import rendering_for
from tasks.practice.scene import seed_manifest
from tasks.practice.vllm_scene import as_vllm
from tests.flows.engine_rollouts import differences, exchanged, refused_first, turned_back
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

MTP = {"method": "mtp", "num_speculative_tokens": 3}


def fault(name: str, **options: Any) -> dict[str, Any]:
    """A fault of the new configuration alone."""
    return {"fault": name, "when": {"speculative_config": MTP}, **options}


def test_mtp_is_proven_and_promoted() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="vllm") as stage:
            ended = await stage.roll_out()
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            assert {v.outcome for v in ended.verdicts} == {"held"}
            by_name = {v.claim: v for v in ended.verdicts}
            assert {"speculative-method", "draft-weights", "accepted-in-our-traffic", "draft-depth"} <= set(by_name)
            assert by_name["accept-length"].estimate is not None
            after = await stage.state()
            rendering = rendering_for("vllm")
            assert rendering is not None
            assert rendering.parse_arguments(after.argv)["speculative_config"] == MTP
            assert after.drivers["0000:81:00.0"] == "vfio-pci"
            assert (await stage.roll_out()).concluded.outcome == "unchanged"  # type: ignore[union-attr]
            assert await differences(stage) == []

    run()


ENDINGS = [
    pytest.param(
        fault("flag-ignored"), "speculative-method refuted: none", "drops the flag|breaks the quotes", id="flag-ignored"
    ),
    pytest.param(
        fault("accept-nothing"), "speculation-active refuted: useless", "MTP tensors", id="accept-length-1.00"
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
        fault("kv-too-small"), r"\(kv-cache-too-small\)", "--gpu-memory-utilization", id="no-room-for-a-cache"
    ),
    pytest.param(fault("cuda-oom"), r"\(cuda-oom\)", "memory", id="out-of-gpu-memory"),
    pytest.param(fault("graph-capture-failed"), r"\(graph-capture-failed\)", "enforce-eager", id="graphs-not-captured"),
    pytest.param(
        fault("wrong-mem-fraction"),
        "gpu-memory-utilization refuted",
        "another gpu_memory_utilization",
        id="another-share",
    ),
    pytest.param(
        fault("exit-after-ready"),
        r"(active|one-start|no-restart) refuted|The engine failed \(exited\)",
        "systemctl status|journal|restarted|printed",
        id="exits-after-ready",
    ),
    pytest.param(
        fault("host-oom"), r"The engine failed \((exited|killed|worker-died)\)", "kernel|OOM|log", id="killed"
    ),
]


@pytest.mark.parametrize(("scripted", "cause", "remedy"), ENDINGS)
def test_a_broken_start_is_found_and_the_old_state_put_back(scripted: dict[str, Any], cause: str, remedy: str) -> None:
    @in_virtual_time
    async def run() -> None:
        await turned_back("vllm", scripted, cause, remedy)

    run()


@pytest.mark.parametrize(
    ("version", "arguments", "refusal"),
    [
        pytest.param("0.29.0", {"swap_space": 4}, "does not accept --swap-space", id="a-flag-that-is-gone"),
        pytest.param("0.8.5", {"swap_space": 4, "async_scheduling": True}, "--async-scheduling", id="help-without-all"),
        pytest.param("0.20.2", {"model": "/none"}, "engine.arguments.model: /none does not exist", id="no-such-model"),
        pytest.param(
            "0.20.2",
            {"speculative_config": {"method": "eagle3", "model": "/none", "num_speculative_tokens": 3}},
            "engine.arguments.speculative_config.model: /none does not exist",
            id="no-such-draft",
        ),
        pytest.param(
            "0.20.2", {"per_request_spec_decode_metrics": "summary"}, "came with 0.28", id="before-its-release"
        ),
    ],
)
def test_what_the_installed_vllm_would_not_take_is_refused_first(
    version: str, arguments: dict[str, Any], refusal: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        await refused_first("vllm", version, arguments, refusal)

    run()


def test_figures_of_single_requests_are_used_where_the_engine_tells_them() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="vllm", version="0.29.0") as stage:
            ended = await stage.roll_out({"per_request_spec_decode_metrics": "summary"})
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            told = {v.claim: v for v in ended.verdicts}["accepted-per-request"]
            assert "samples" in told.reason
            assert told.sample > 20, "one for each generation, not one for each pair"

    run()


def test_a_window_of_the_environments_length_is_enough() -> None:
    """Shorter windows make for shorter traffic."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine="vllm") as stage:
            ended = await stage.roll_out(unit={"environment": {"VLLM_LOG_STATS_INTERVAL": "2"}})
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            assert {v.claim: v for v in ended.verdicts}["requests-answered"].sample < 40

    run()


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        pytest.param([], "promoted", id="promoted"),
        pytest.param([fault("accept-nothing")], "rolled-back", id="turned-back-and-the-old-engine-proven"),
    ],
)
def test_a_service_goes_from_one_engine_to_another(faults: list[dict[str, Any]], outcome: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            seed = as_vllm(seed_manifest(stage.scene.specs, stage.scene.port), stage.scene.port)
            ended = await exchanged("vllm", seed, faults, stage)
            assert ended.concluded is not None
            assert ended.concluded.outcome == outcome, ended.concluded.summary

    run()
