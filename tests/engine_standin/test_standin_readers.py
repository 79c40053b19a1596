"""The project's own log reader over what the stand-in prints: a healthy start is active, a fault is found as itself."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from state.inspection.log import read_log
from state.inspection.report import Boot
from tasks.practice.engine.install import QWEN_WITHOUT_MTP
from tests.engine_standin.standin_process import MODEL, READY, SPECULATION, StandIn, serving, started

LONG = {"max_new_tokens": 256, "ignore_eos": True}


def read(standin: StandIn) -> Boot:
    (boot,) = read_log(standin.text.encode().splitlines(keepends=True)).boots
    return boot


@pytest.mark.parametrize("version", ["0.5.9", "0.5.13", "0.5.14", "0.5.18", "0.5.20", "0.5.23"])
def test_a_healthy_start_is_ready_and_active(tmp_path: Path, version: str) -> None:
    old = version in ("0.5.9", "0.5.13")
    more = ("--mamba-scheduler-strategy", "extra_buffer") if old else ()
    environment = {"SGLANG_ENABLE_SPEC_V2": "1"} if old else {}
    with serving(tmp_path, *MODEL, *SPECULATION, *more, version=version, environment=environment) as standin:
        for _ in range(2):
            standin.generate("Describe how bread is made.", **LONG)
        boot = read(standin)
        standin.stop()
        stopped = read(standin)
    assert (boot.stage, boot.outcome, boot.role, boot.failures) == ("ready", "ready", "unified", ())
    assert boot.arguments is not None
    assert boot.arguments["mem_fraction_static"] == 0.829
    drafts = [weight for weight in boot.weights if weight.role == "draft"]
    assert [(weight.rank, weight.class_, weight.gb) for weight in drafts] == [
        (f"TP{rank}", "Qwen3_5ForCausalLMMTP", 1.91) for rank in range(4)
    ]
    found = boot.speculation
    assert (found.algorithm, found.num_steps, found.topk, found.num_draft_tokens) == ("EAGLE", 5, 1, 6)
    assert found.state == "active"
    assert found.samples >= 3
    assert found.accept_length is not None
    assert found.accept_length.mean == pytest.approx(3.4, abs=0.7)
    assert found.accept_rate is not None
    assert found.accept_rate.definition == "strict"
    assert found.accept_rate.mean == pytest.approx((found.accept_length.mean - 1) / 5, abs=0.02)
    assert (stopped.outcome, stopped.failures) == ("stopped", ())


@pytest.mark.parametrize(
    ("arguments", "faults", "environment", "state"),
    [
        pytest.param(MODEL, [], {}, "off", id="not asked for"),
        pytest.param((*MODEL, *SPECULATION), [{"fault": "flag-ignored"}], {}, "off", id="flag ignored"),
        pytest.param((*MODEL, *SPECULATION), [{"fault": "accept-nothing"}], {}, "useless", id="nothing accepted"),
        pytest.param(
            ("--model-path", QWEN_WITHOUT_MTP.path, "--tp", "4", *SPECULATION[:-2]),
            [],
            {},
            "useless",
            id="checkpoint without MTP weights",
        ),
        pytest.param((*MODEL, *SPECULATION), [{"fault": "garbage-answers"}], {}, "active", id="garbage"),
        pytest.param((*MODEL, *SPECULATION), [], {"SGLANG_SIMULATE_ACC_LEN": "4"}, "active", id="simulated"),
    ],
)
def test_speculation_as_it_is(
    tmp_path: Path,
    arguments: Sequence[str],
    faults: Sequence[Mapping[str, object]],
    environment: Mapping[str, str],
    state: str,
) -> None:
    with serving(tmp_path, *arguments, faults=faults, environment=environment) as standin:
        standin.generate("Describe how bread is made.", **LONG)
        boot = read(standin)
    assert (boot.stage, boot.outcome, boot.failures) == ("ready", "ready", ())
    assert boot.speculation.state == state


@pytest.mark.parametrize(
    ("arguments", "fault", "code", "stage"),
    [
        pytest.param(SPECULATION, {"fault": "crash-loading-draft"}, "weights-mismatch", "draft-weights", id="draft"),
        pytest.param(SPECULATION, {"fault": "kv-too-small"}, "kv-cache-too-small", "draft-weights", id="kv-too-small"),
        pytest.param(SPECULATION, {"fault": "cuda-oom"}, "cuda-oom", "kv-cache", id="cuda-oom"),
        pytest.param(SPECULATION, {"fault": "graph-capture-failed"}, "graph-capture-failed", "graphs", id="graphs"),
        pytest.param(SPECULATION, {"fault": "nccl-failed"}, "nccl-init", "arguments", id="nccl-failed"),
        pytest.param(SPECULATION, {"fault": "host-oom"}, "killed exited", "weights", id="host-oom"),
        pytest.param(SPECULATION, {"fault": "warm-up-failed"}, "warm-up-failed", "warm-up", id="warm-up-failed"),
        pytest.param(SPECULATION, {"fault": "exit-after-ready"}, "killed exited", "ready", id="exit-after-ready"),
        pytest.param(("--mem-fraction-static", "0.4"), None, "kv-cache-too-small", "weights", id="fraction too low"),
        pytest.param(("--mem-fraction-static", "0.99"), None, "cuda-oom", "graphs", id="fraction too high"),
        pytest.param(("--tp-size", "1"), None, "cuda-oom", "weights", id="too large for one GPU"),
        pytest.param(("--bogus",), None, "bad-arguments", None, id="unknown flag"),
        pytest.param(SPECULATION[:4], None, "bad-arguments", None, id="steps alone"),
        pytest.param((*SPECULATION[:-1], "/none"), None, "model-not-found", None, id="no draft folder"),
    ],
)
def test_every_fault_is_found_as_itself(
    tmp_path: Path, arguments: Sequence[str], fault: Mapping[str, object] | None, code: str, stage: str | None
) -> None:
    with started(tmp_path, *MODEL, *arguments, faults=[fault] if fault else []) as standin:
        standin.end()
        boot = read(standin)
    (failure,) = boot.failures
    assert failure.code in code.split()
    assert boot.outcome == "failed"
    assert boot.stage == stage


def test_a_taken_port_is_no_readiness(tmp_path: Path) -> None:
    with serving(tmp_path / "first", *MODEL) as first:
        with started(tmp_path / "second", *MODEL, port=first.port) as second:
            assert second.end() == 1
            boot = read(second)
        assert READY in second.text
        assert [failure.code for failure in boot.failures] == ["port-in-use"]
        assert boot.outcome == "failed"
        assert first.stop() == -signal.SIGKILL
