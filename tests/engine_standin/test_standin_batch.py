"""The scheduler's figures: what a request counts must agree with what the log says."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.practice.engine.batch import Batch, Job
from tasks.practice.engine.drafts import Acceptance, mean_length, probability_for
from tasks.practice.engine.install import QWEN_MTP
from tasks.practice.engine.sizes import sizes_of
from tests.engine_standin.standin_launch import TRIPLE, decoded, fields, launched


@pytest.mark.parametrize(
    ("version", "words", "expected"),
    [
        pytest.param(
            "0.5.20",
            TRIPLE,
            [
                "#running-req",
                "#full token",
                "full token usage",
                "mamba num",
                "mamba usage",
                "accept len",
                "accept rate",
                "cuda graph",
                "gen throughput (token/s)",
                "#queue-req",
            ],
            id="hybrid, speculating",
        ),
        pytest.param(
            "0.5.20",
            "",
            [
                "#running-req",
                "#full token",
                "full token usage",
                "mamba num",
                "mamba usage",
                "cuda graph",
                "gen throughput (token/s)",
                "#queue-req",
            ],
            id="hybrid, no speculation",
        ),
    ],
)
def test_decode_fields_in_order(version: str, words: str, expected: list[str]) -> None:
    lines, _ = decoded(launched(words, version), 256)
    assert list(fields(lines[-1])) == expected


@pytest.mark.parametrize(
    ("version", "end"),
    [
        pytest.param("0.5.9", "input throughput (token/s): {}, cuda graph: False", id="0.5.9"),
        pytest.param("0.5.10", "#queue-req: 0, cuda graph: False, input throughput (token/s): {}", id="0.5.10"),
        pytest.param("0.5.11", "#pending-token: 0, cuda graph: False, input throughput (token/s): {}", id="0.5.11"),
    ],
)
def test_prefill_tail_by_version(version: str, end: str) -> None:
    line = decoded(launched("", version), 4)[0][0]
    pattern = re.escape(end).replace(r"\{\}", r"\d+\.\d\d") + "$"
    assert re.search(pattern, line)


@pytest.mark.parametrize(
    ("version", "rate"),
    [
        pytest.param("0.5.10", lambda length: length / 6, id="bonus included up to 0.5.10"),
        pytest.param("0.5.11", lambda length: (length - 1) / 5, id="strict from 0.5.11"),
    ],
)
def test_accept_rate_by_version(version: str, rate: Callable[[float], float]) -> None:
    words = TRIPLE + " --mamba-scheduler-strategy extra_buffer"
    lines, _ = decoded(launched(words, version, SGLANG_ENABLE_SPEC_V2="1"), 400)
    found = [fields(line) for line in lines if line.startswith("Decode")]
    assert found
    for record in found:
        assert float(record["accept rate"]) == pytest.approx(rate(float(record["accept len"])), abs=0.011)


def test_no_decode_line_before_the_fortieth_forward() -> None:
    lines, _ = decoded(launched(""), 40)
    assert [line.split()[0] for line in lines] == ["Prefill"]
    assert [line.split()[0] for line in decoded(launched(""), 41)[0]] == ["Prefill", "Decode"]


def test_nothing_accepted_takes_a_verify_call_for_each_token_but_the_first() -> None:
    lines, (job,) = decoded(launched(faults='[{"fault": "accept-nothing"}]'), 256)
    assert job.verify_calls == 255
    assert job.accepted == 0
    assert {fields(line)["accept len"] for line in lines[1:]} == {"1.00"}


def test_a_checkpoint_without_mtp_weights_accepts_nothing() -> None:
    launch = launched(f"{TRIPLE} --speculative-draft-model-path {QWEN_MTP.path}")
    assert launch.draft is not None
    stripped = replace(launch, draft=replace(launch.draft, mtp_bytes=0))
    assert decoded(stripped, 100)[1][0].accepted == 0


def test_mean_accept_length_is_about_the_one_that_was_set() -> None:
    _, jobs = decoded(launched(), 4000, jobs=2)
    calls = sum(job.verify_calls for job in jobs)
    assert (calls + sum(job.accepted for job in jobs)) / calls == pytest.approx(3.4, abs=0.15)


def test_requests_above_the_limit_wait() -> None:
    launch = launched(f"{TRIPLE} --max-running-requests 2")
    batch = Batch(launch, sizes_of(launch), 0.0)
    for name in "abc":
        batch.submit(Job(name, ("p",), ["x"] * 9, "length", 0.0))
    (line,) = batch.prefill(0.1)
    assert fields(line)["#new-seq"] == "2"
    assert fields(line)["#queue-req"] == "1"
    assert [job.rid for job in batch.waiting] == ["c"]


@given(tokens=st.integers(1, 300), jobs=st.integers(1, 5), steps=st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_every_request_gets_exactly_its_tokens(tokens: int, jobs: int, steps: int) -> None:
    words = (
        f"--speculative-algorithm EAGLE --speculative-num-steps {steps} --speculative-eagle-topk 1"
        f" --speculative-num-draft-tokens {steps + 1}"
    )
    for job in decoded(launched(words), tokens, jobs)[1]:
        assert job.done == tokens
        assert sum(job.histogram.values()) == job.verify_calls
        assert sum(count * times for count, times in job.histogram.items()) == job.accepted
        assert tokens - 1 <= job.verify_calls + job.accepted <= tokens - 1 + steps


@given(length=st.floats(1.0, 6.0), steps=st.just(5))
def test_probability_gives_back_the_length(length: float, steps: int) -> None:
    assert mean_length(steps, probability_for(length, steps)) == pytest.approx(length, abs=1e-3)


@given(steps=st.integers(0, 8), probability=st.floats(0, 1), seed=st.integers(0, 99))
def test_a_step_accepts_no_more_than_its_drafts(steps: int, probability: float, seed: int) -> None:
    assert 0 <= Acceptance(steps, probability).draw(random.Random(seed)) <= steps
