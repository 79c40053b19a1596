# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Acceptance by its definitions, `/metrics`, `/server_info` and finished answers."""

import pytest

from state.inspection.answer import read_answer
from state.inspection.degenerate import is_degenerate
from state.inspection.log import read_log
from state.inspection.metrics import read_metrics
from state.inspection.report import Boot
from state.inspection.server_info import read_server_info


def boot(*lines: str) -> Boot:
    return read_log([f"{line}\n".encode() for line in lines]).boots[-1]


def args(**more: object) -> str:
    values = {
        "model_path": "/m",
        "speculative_algorithm": "EAGLE",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        **more,
    }
    return f"[2026-10-07 10:00:00] server_args={values!r}"


def decode(
    length: str, rate: str, tail: str = "", rank: str = " TP0", second: int = 0, speed: str = "90.00", running: int = 1
) -> str:
    return f"[2026-10-07 10:{second // 60:02d}:{second % 60:02d}{rank}] Decode batch, #running-req: {running}, #token: 9, token usage: 0.01, accept len: {length}, accept rate: {rate}, cuda graph: True, gen throughput (token/s): {speed}, #queue-req: 2{tail}"


@pytest.mark.parametrize(
    ("lines", "mean", "definition"),
    [
        pytest.param((args(), decode("2.50", "0.63", ", ")), 0.5, "strict", id="converted-where-the-steps-are-known"),
        pytest.param((args(speculative_eagle_topk=4, speculative_num_steps=5, speculative_num_draft_tokens=8), decode("2.40", "0.30", ", ")), 0.30, "bonus-included", id="topk-as-printed-bonus"),
        pytest.param((args(speculative_eagle_topk=4, speculative_num_steps=5, speculative_num_draft_tokens=8), decode("2.40", "0.20")), 0.20, "strict", id="topk-as-printed-strict"),
        pytest.param((decode("2.40", "0.60", ", "), decode("2.52", "0.63", ", ")), 0.615, "bonus-included", id="unknown-steps-bonus"),
        pytest.param((decode("2.65", "0.55"), decode("2.50", "0.50")), 0.525, "strict", id="unknown-steps-strict"),
        pytest.param((args(speculative_algorithm="NGRAM", speculative_num_steps=None, speculative_eagle_topk=None, speculative_num_draft_tokens=12), decode("3.20", "0.20")), 0.2, "strict", id="ngram-drafts-are-tokens-less-one"),
        pytest.param((args(speculative_algorithm="DFLASH", speculative_num_steps=1, speculative_eagle_topk=1, speculative_num_draft_tokens=16), decode("4.00", "0.20")), 0.2, "strict", id="a-block-drafter-drafts-its-block-in-one-step"),
        pytest.param((args(speculative_num_steps=1, speculative_num_draft_tokens=2), decode("2.40", "0.70"), decode("2.60", "0.80")), 0.75, "strict", id="a-rate-above-one-cannot-be-and-is-not-derived"),
    ],
)  # fmt: skip
def test_accept_rate_is_strict_wherever_it_can_be(lines: tuple[str, ...], mean: float, definition: str) -> None:
    rate = boot(*lines).speculation.accept_rate
    assert rate is not None
    assert (round(rate.mean, 3), rate.definition) == (mean, definition)


def test_the_first_record_of_each_burst_is_no_throughput() -> None:
    lines = [
        decode("2.00", "0.33", second=s, speed=v)
        for s, v in ((0, "0.10"), (2, "80.00"), (4, "90.00"), (60, "0.20"), (62, "100.00"))
    ]
    throughput = boot(args(), *lines).throughput
    assert throughput is not None
    assert (throughput.gen_mean, throughput.gen_max, throughput.samples) == (90.0, 100.0, 3)


def test_data_parallel_ranks_are_summed() -> None:
    lines = [decode("2.00", "0.33", rank=r, second=s, speed=v, running=n) for s, r, v, n in
             ((0, " DP0 TP0", "1.00", 3), (0, " DP1 TP0", "1.00", 5), (2, " DP0 TP0", "50.00", 4), (2, " DP1 TP0", "70.00", 2))]  # fmt: skip
    seen = boot(args(), *lines)
    assert seen.throughput is not None
    assert seen.queue is not None
    assert (seen.throughput.gen_mean, seen.queue.running_max, seen.queue.queued_max) == (120.0, 9, 4)


def test_a_drain_tail_is_not_used() -> None:
    tail = decode("1.10", "0.03").replace("#token: 9", "#token: 0")
    assert boot(args(), decode("2.00", "0.33"), tail).speculation.samples == 1


V1 = "INFO 04-05 10:00:{s} [metrics.py:86] SpecDecoding metrics: {rest}"
V0 = "INFO 11-20 12:30:04 metrics.py:465] Speculative metrics: Draft acceptance rate: {r}, System efficiency: 0.518, Number of speculative tokens: 2, Number of accepted tokens: {a}, Number of draft tokens: {d}, Number of emitted tokens: 9."


def test_v0_counts_are_running_totals() -> None:
    speculation = boot(V0.format(r="0.400", a=400, d=1000), V0.format(r="0.500", a=1000, d=2000)).speculation
    assert (speculation.accepted_tokens, speculation.drafted_tokens) == (1000, 2000)
    assert speculation.accept_length is not None
    assert speculation.accept_length.mean == 2.0


def test_v1_windows_are_pooled() -> None:
    rest = "Mean acceptance length: {m}, Accepted: {a} tokens, Drafted: {d} tokens, Per-position acceptance rate: {p}, Avg Draft acceptance rate: {r}%"
    speculation = boot(V1.format(s=10, rest=rest.format(m="2.00", a=100, d=200, p="0.600, 0.400", r="50.0")),
                       V1.format(s=20, rest=rest.format(m="3.00", a=20, d=20, p="1.000, 1.000", r="100.0"))).speculation  # fmt: skip
    assert speculation.accept_length is not None
    assert speculation.accept_length.mean == pytest.approx(1 + 120 / 110, abs=1e-5)
    assert speculation.accept_rate is not None
    assert speculation.accept_rate.mean == pytest.approx(120 / 220, abs=1e-5)
    assert speculation.per_position == (0.8, 0.7)


def test_nothing_drafted_is_configured_not_useless() -> None:
    idle = V1.format(s=10, rest="Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens")
    seen = boot(idle)
    assert (seen.speculation.state, seen.speculation.samples, [n.code for n in seen.notices]) == (
        "configured",
        0,
        ["nan-acceptance"],
    )


def test_drafted_and_never_accepted_is_useless() -> None:
    window = V1.format(
        s=10,
        rest="Mean acceptance length: 1.00, Accepted: 0 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.000, 0.000, 0.000, Avg Draft acceptance rate: 0.0%",
    )
    seen = boot(window)
    assert (seen.speculation.state, [n.code for n in seen.notices]) == ("useless", ["speculation-not-accepting"])


METRICS = (
    ("gauges-at-zero-prove-nothing", "sglang:spec_accept_length{tp_rank=\"0\"} 0.0\nsglang:num_running_reqs{tp_rank=\"0\"} 0.0", None, None, 0),
    ("verify-calls-show-it-is-configured", "sglang:spec_accept_length{tp_rank=\"0\"} 0.0\nsglang:spec_verify_calls_total{tp_rank=\"0\"} 7.0", "configured", None, None),
    ("a-steps-gauge-shows-it-too", "sglang:spec_num_steps{tp_rank=\"0\"} 3.0", "configured", None, None),
    ("length-of-one-is-useless", "sglang:spec_accept_length{tp_rank=\"0\"} 1.0\nsglang:spec_accept_rate{tp_rank=\"0\"} 0.0", "useless", 1.0, None),
    ("ranks-of-one-batch-are-one", "sglang:num_running_reqs{tp_rank=\"0\"} 4.0\nsglang:num_running_reqs{tp_rank=\"1\"} 4.0", None, None, 4),
    ("data-parallel-ranks-are-summed", "sglang:num_running_reqs{dp_rank=\"0\"} 4.0\nsglang:num_running_reqs{dp_rank=\"1\"} 3.0", None, None, 7),
    ("a-draft-engine-is-left-out", "sglang:num_running_reqs{engine_type=\"unified\"} 4.0\nsglang:num_running_reqs{engine_type=\"draft\"} 9.0", None, None, 4),
    ("vllm-engines-are-summed", "vllm:spec_decode_num_drafts_total{engine=\"0\"} 10\nvllm:spec_decode_num_drafts_total{engine=\"1\"} 10\nvllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 30\nvllm:spec_decode_num_draft_tokens_total{engine=\"1\"} 30\nvllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 10\nvllm:spec_decode_num_accepted_tokens_total{engine=\"1\"} 20\nvllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2", "active", 2.5, 3),
    ("vllm-registered-and-idle", "vllm:spec_decode_num_drafts_total{engine=\"0\"} 0\nvllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 0\nvllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 0", "configured", None, None),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "state", "mean", "running"), [pytest.param(*rest, id=name) for name, *rest in METRICS]
)
def test_metrics(text: str, state: str | None, mean: float | None, running: float | None) -> None:
    report = read_metrics(text + "\n")
    length = report.speculation.accept_length
    assert (report.speculation.state, length.mean if length else None, report.running) == (state, mean, running)


INFO = {"model_path": "/m", "tp_size": 1, "mem_fraction_static": 0.8, "speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4, "api_key": "sk-demo-1234", "version": "0.5.23", "max_running_requests": 48}  # fmt: skip


def test_server_info_shows_what_was_asked_and_is_not_so() -> None:
    report = read_server_info(
        {
            **INFO,
            "launch_command": "python -m sglang.launch_server --model-path /m --speculative-algorithm NEXTN --max-running-requests 64 --api-key sk-demo-1234",
        }
    )
    assert dict(report.effective_differs) == {
        "speculative_algorithm": ("NEXTN", "EAGLE"),
        "max_running_requests": (64, 48),
    }
    assert "sk-demo" not in str(report)


@pytest.mark.parametrize(
    ("states", "state"),
    [
        pytest.param([{}], "configured", id="no-average-yet"),
        pytest.param([{"avg_spec_accept_length": 2.5}], "active", id="an-average"),
        pytest.param([{"avg_spec_accept_length": 1.0}], "useless", id="an-average-of-one"),
    ],
)
def test_server_info_speculation(states: list[dict[str, float]], state: str) -> None:
    assert read_server_info({**INFO, "internal_states": states}).speculation.state == state


def test_server_info_without_speculation_is_off() -> None:
    speculation = read_server_info({**INFO, "speculative_algorithm": None}).speculation
    assert (speculation.state, speculation.algorithm) == ("off", "none")


def test_a_missing_field_is_unknown() -> None:
    speculation = read_server_info({k: v for k, v in INFO.items() if not k.startswith("speculative")}).speculation
    assert (speculation.state, speculation.algorithm) == (None, None)


TEXT = "The quick brown fox jumps over the lazy dog while nobody watches it from the other side."


def generate(tokens: int, verify: int | None, text: str = TEXT, **more: object) -> dict[str, object]:
    meta: dict[str, object] = {
        "completion_tokens": tokens,
        "finish_reason": {"type": "length", "length": tokens},
        **more,
    }
    return {"text": text, "meta_info": meta if verify is None else {**meta, "spec_verify_ct": verify}}


@pytest.mark.parametrize(
    ("answer", "state", "mean"),
    [
        pytest.param(
            generate(64, 23, spec_num_correct_drafts=43, spec_num_proposed_drafts=69), "active", 63 / 23, id="active"
        ),
        pytest.param(generate(64, 63), "useless", 1.0, id="useless"),
        pytest.param(generate(8, 7), None, 1.0, id="too-short-to-say"),
        pytest.param(generate(64, None), None, None, id="no-figures"),
        pytest.param(generate(64, 0), "configured", None, id="nothing-verified"),
    ],
)
def test_an_answer_proves_its_own_speculation(answer: dict[str, object], state: str | None, mean: float | None) -> None:
    report = read_answer(answer)
    length = report.speculation.accept_length
    assert (report.engine, report.speculation.state, report.finish_reason) == ("sglang", state, "length")
    assert (length.mean if length else None) == (pytest.approx(mean, abs=1e-5) if mean else None)


def test_counts_go_by_every_versions_names() -> None:
    for accepted, drafted in (
        ("spec_accept_token_num", "spec_draft_token_num"),
        ("spec_accepted_drafts", "spec_proposed_drafts"),
        ("spec_num_correct_drafts", "spec_num_proposed_drafts"),
    ):
        speculation = read_answer(generate(64, 23, **{accepted: 41, drafted: 69})).speculation
        assert (speculation.accepted_tokens, speculation.drafted_tokens, speculation.verify_calls) == (41, 69, 23)


def test_a_chat_answer_carries_no_figures() -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop", "matched_stop": 3}
    report = read_answer({"id": "x", "choices": [choice], "usage": {"completion_tokens": 20}})
    assert (report.engine, report.completion_tokens, report.finish_reason, report.speculation.state) == (
        "sglang",
        20,
        "stop",
        None,
    )
    assert (report.degenerate, report.text_chars) == (False, len(TEXT))


@pytest.mark.parametrize(
    ("text", "degenerate"),
    [
        pytest.param(TEXT, False, id="prose"),
        pytest.param("short", None, id="too-short"),
        pytest.param("!" * 200, True, id="one-character"),
        pytest.param("Well, " + "99 just platform" * 20, True, id="a-loop-at-the-end"),
        pytest.param("\n".join(f"{n}. item number {n} of the list" for n in range(30)), False, id="a-numbered-list"),
    ],
)
def test_degenerate_text(text: str, degenerate: bool | None) -> None:
    assert is_degenerate(text) is degenerate


def test_the_record_of_vllm_v0_proves_the_drafts_for_each_step() -> None:
    record = (
        b"INFO 04-05 10:00:10 metrics.py:455] Speculative metrics: Draft acceptance rate: 0.512, System efficiency: 0.518, "
        b"Number of speculative tokens: 2, Number of accepted tokens: 1024, Number of draft tokens: 2000, Number of emitted tokens: 1554.\n"
    )
    speculation = read_log([record]).boots[0].speculation
    assert (speculation.num_steps, speculation.num_draft_tokens, speculation.algorithm) == (2, None, None)


def test_labels_are_shown_without_their_escapes() -> None:
    report = read_metrics('vllm:num_requests_running{model_name="a \\"q\\" {x} \\\\ b",engine="0"} 3.0\n')
    assert report.per_label[0]["labels"]["model_name"] == 'a "q" {x} \\ b'


def test_nothing_accepted_is_a_length_of_one_even_without_a_count_of_drafts() -> None:
    text = 'vllm:spec_decode_num_accepted_tokens_total{m="a"} 0\nvllm:spec_decode_num_draft_tokens_total{m="a"} 500\n'
    speculation = read_metrics(text).speculation
    assert speculation.accept_length is not None
    assert (speculation.state, speculation.accept_length.mean) == ("useless", 1.0)


def test_a_rate_of_zero_is_known_where_the_length_is() -> None:
    row = 'sglang:spec_accept_length{m="a"} 1.0\nsglang:spec_accept_rate{m="a"} 0.0\n'
    assert read_metrics(row).per_label[0]["accept_rate"] == 0.0
    assert read_metrics(row.replace(" 1.0", " 0.0")).per_label[0]["accept_rate"] is None


def test_a_record_with_two_doubtful_figures_is_one_line() -> None:
    (entry,) = boot(args(), decode("nan", "nan")).notices
    assert (entry.code, entry.count) == ("nan-acceptance", 1)
