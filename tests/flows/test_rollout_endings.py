"""Each way a rollout can go, on a practice host in memory: the right end, its cause and remedy, the host as it was."""

import re
from typing import Any

import pytest

from tasks.practice.engine.install import QWEN_WITHOUT_MTP
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

NEW = {"speculative_algorithm": "NEXTN"}


def fault(name: str, *, always: bool = False, **options: Any) -> dict[str, Any]:
    """A fault of the new configuration alone, or of every start."""
    return {"fault": name, **({} if always else {"when": NEW}), **options}


ENDINGS = [
    pytest.param(fault("flag-ignored"), "speculative-algorithm refuted", "did not take the flag", id="flag-ignored"),
    pytest.param(
        fault("crash-loading-draft"),
        r"The engine failed \(weights-mismatch\)",
        "draft|weights|checkpoint",
        id="crash-while-loading-the-draft",
    ),
    pytest.param(
        fault("hang-after-ready"), "no generation came back within 10 s", "scheduler hangs", id="200-but-hanging"
    ),
    pytest.param(
        fault("garbage-answers"), "answers refuted|not-degenerate refuted", "speculation off", id="garbage-answers"
    ),
    pytest.param(fault("accept-nothing"), "speculation-active refuted: useless", "mtp", id="accept-length-1.00"),
    pytest.param(fault("kv-too-small"), r"\(kv-cache-too-small\)", "mem", id="no-room-for-the-pool"),
    pytest.param(fault("cuda-oom"), r"\(cuda-oom\)", "mem|memory", id="out-of-gpu-memory"),
    pytest.param(
        fault("graph-capture-failed"), r"\(graph-capture-failed\)", "--cuda-graph-max-bs", id="graphs-not-captured"
    ),
    pytest.param(
        fault("exit-after-ready"),
        r"(active|one-start|no-restart) refuted|The engine failed \(exited\)",
        "systemctl status|journal|restarted|printed",
        id="exits-after-ready",
    ),
    pytest.param(
        fault("wrong-mem-fraction"),
        "mem-fraction-static refuted",
        "another mem_fraction_static",
        id="another-memory-fraction",
    ),
    pytest.param(
        fault("fewer-drafts-on-one-rank"),
        "draft-even refuted|draft-weights refuted",
        "rank",
        id="a-rank-with-less-draft",
    ),
    pytest.param(fault("warm-up-failed"), r"\(warm-up-failed\)", "SGLANG_WARMUP_TIMEOUT", id="warm-up-failed"),
    pytest.param(fault("wrong-answers"), "answers refuted", "wrongly", id="wrong-answers"),
]


@pytest.mark.parametrize(("scripted", "cause", "remedy"), ENDINGS)
def test_a_broken_start_is_found_and_the_old_state_put_back(scripted: dict[str, Any], cause: str, remedy: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=[scripted]) as stage:
            before = await stage.state()
            ended = await stage.roll_out()
            assert ended.concluded is not None
            assert (ended.concluded.outcome, ended.concluded.exit_code) == ("rolled-back", 1)
            assert re.search(cause, ended.concluded.summary), ended.concluded.summary
            await hold_as_before(stage, before, ended.concluded.summary)
            first = list(ended.failures.values()) or [v for v in ended.judged["new:1"].verdicts if v.remedy]
            told = " ".join(getattr(x, "hint", "") or getattr(x, "remedy", "") for x in first)
            assert len(told) > 20, told
            assert re.search(remedy, told, re.IGNORECASE), told

    run()


async def hold_as_before(stage: Rehearsal, before: Any, why: str) -> None:
    after = await stage.state()
    assert after == before, why


def test_a_whole_start_is_proven_and_promoted() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            ended = await stage.roll_out()
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            assert {v.outcome for v in ended.verdicts} == {"held"}
            assert ended.released
            after = await stage.state()
            assert "--speculative-algorithm" in after.argv
            assert after.leftovers == ()
            assert after.drivers["0000:81:00.0"] == "vfio-pci"
            assert (await stage.roll_out()).concluded.outcome == "unchanged"  # type: ignore[union-attr]

    run()


def test_a_checkpoint_without_mtp_weights_is_refused_before_the_stop() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            before = await stage.state()
            ended = await stage.roll_out(
                {"model_path": QWEN_WITHOUT_MTP.path, "speculative_draft_model_path": QWEN_WITHOUT_MTP.path}
            )
            assert ended.concluded is not None
            assert ended.concluded.outcome == "refused"
            assert "holds no MTP layers" in ended.concluded.summary
            assert await stage.state() == before

    run()


def test_a_draft_that_accepts_nothing_is_useless_speculation() -> None:
    """EAGLE with a folder that is no draft of this model: nothing says so but what is accepted."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            before = await stage.state()
            ended = await stage.roll_out(
                {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": QWEN_WITHOUT_MTP.path}
            )
            assert ended.concluded is not None
            assert ended.concluded.outcome == "rolled-back"
            verdicts = ended.judged["new:1"].verdicts
            assert any(v.claim == "speculation-active" and v.outcome == "refuted" for v in verdicts)
            await hold_as_before(stage, before, ended.concluded.summary)

    run()


@pytest.mark.parametrize("leftovers", ["refuse", "kill"])
def test_a_leftover_of_the_old_service_is_named(leftovers: str) -> None:
    """With `refuse` the rollout turns back and says who is left; with `kill` it is ended and the rollout goes on."""

    @in_virtual_time
    async def run() -> None:
        stays = fault("slow-stop-leftover", always=True, seconds=1, leftover_seconds=600)
        async with rehearsal(faults=[stays], kill_mode="process") as stage:
            before = await stage.state()
            stage.scene.script_faults()
            ended = await stage.roll_out(unit={"stop": {"leftovers": leftovers, "timeout": "20s"}})
            assert ended.concluded is not None
            if leftovers == "kill":
                assert ended.concluded.outcome == "promoted", ended.concluded.summary
                return
            assert ended.concluded.outcome == "rolled-back"
            assert re.search(r"left PID \d+ .*which holds (port \d+|the cgroup)", ended.concluded.summary)
            after = await stage.state()
            assert (after.unit_file, after.drivers, after.argv) == (before.unit_file, before.drivers, before.argv)

    run()
