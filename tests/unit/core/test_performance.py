"""Facts from passes under load: what counts as a sample, and what never improves a figure."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.claims import Claim, Fact, Verdict
from state.engines.openai_chat import chunk
from state.evidence import Evidence
from state.judging import judge
from state.load_record import TimedLine, request_record
from state.manifest.claim_specs import (
    AcceptLengthSpec,
    AnswersSpec,
    ClaimSpec,
    FirstTokenSpec,
    GoodputSpec,
    InterTokenSpec,
    QuestionSpec,
    ThroughputSpec,
    TrafficSpec,
)
from state.performance import performance_facts
from state.smoke import LONG_PROMPTS
from state.stated_claims import manifest_claims
from state.traffic import Traffic, baseline_order, ordered, resolved

GAIN = ThroughputSpec(at_least="+12%", concurrency=(8,))
SPEED = ThroughputSpec(at_least=90.0, concurrency=(8,))
GOODPUT = GoodputSpec(at_least=0.5, first_token=0.2, inter_token=0.02, concurrency=(8,))


def request(**changes: Any) -> dict[str, Any]:
    sound = {"status": 200, "error": "", "seconds": 1.0, "tokens": 25, "first_token_s": 0.1, "inter_token_s": 0.01}
    return sound | changes


FAILED = request(status=503, error="HTTP 503", seconds=0.001, tokens=None, first_token_s=None, inter_token_s=None)


def a_pass(speed: float = 100.0, requests: Sequence[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    made = {"concurrency": 8, "warm_up": False, "cut": False, "silent": False, "seconds": 1.0, "tokens": speed}
    return made | {"held_back": 0.0, "requests": requests or [request()] * 4} | changes


def evidence(**items: Any) -> Evidence:
    named = {name.replace("_", "-").replace("-at-", "@"): json.dumps(value).encode() for name, value in items.items()}
    return Evidence(named, {name: f"digest of {name}" for name in named})


def fact_of(spec: ClaimSpec, found: Evidence) -> Fact:
    (fact,) = performance_facts(manifest_claims([spec]), found)
    return fact


def verdict(spec: ClaimSpec, found: Evidence) -> Verdict:
    claims = manifest_claims([spec])
    (one,) = judge(claims, performance_facts(claims, found))
    return one


def event(text: str = "", **more: Any) -> str:
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}}], **more})


USAGE = "data: " + json.dumps({"choices": [], "usage": {"completion_tokens": 5}})
WHOLE: tuple[TimedLine, ...] = (
    (0.5, event()),
    (0.6, event("a")),
    (0.8, event("bcd")),
    (1.0, event("e")),
    (1.0, USAGE),
    (1.0, "data: [DONE]"),
)

RECORDS = [
    pytest.param(200, "", WHOLE, {"error": "", "tokens": 5, "first_token_s": 0.6, "inter_token_s": 0.1}, id="whole"),
    pytest.param(200, "", WHOLE[:-1], {"error": "the stream broke off"}, id="no-end"),
    pytest.param(
        200, "", (*WHOLE[:-2], WHOLE[-1]), {"error": "the stream told no usage", "tokens": None}, id="no-usage"
    ),
    pytest.param(200, "", (WHOLE[0], *WHOLE[-2:]), {"error": "the stream brought no text"}, id="no-text"),
    pytest.param(503, "", (), {"error": "HTTP 503", "first_token_s": None, "inter_token_s": None}, id="refused"),
    pytest.param(0, "connection reset", (), {"error": "connection reset"}, id="no-answer"),
    pytest.param(200, "reset", WHOLE[:3], {"error": "reset", "first_token_s": 0.6}, id="reset-on-the-way"),
]


@pytest.mark.parametrize(("status", "error", "lines", "wanted"), RECORDS)
def test_a_request_is_whole_or_says_why_not(
    status: int, error: str, lines: Sequence[TimedLine], wanted: dict[str, Any]
) -> None:
    record = request_record(status, error, 1.0, lines, 5)
    assert {name: record[name] for name in wanted} == wanted


def stream(tokens: int, pieces: Sequence[str], every_s: float = 0.01) -> tuple[TimedLine, ...]:
    """A whole stream of the pieces that tells so many tokens."""
    end = 0.1 + len(pieces) * every_s
    usage = "data: " + json.dumps({"choices": [], "usage": {"completion_tokens": tokens}})
    return (
        *((0.1 + i * every_s, event(piece)) for i, piece in enumerate(pieces)),
        (end, usage),
        (end, "data: [DONE]"),
    )


WORDS = "The signals keep every train apart from all others, since a route is locked before it is shown clear."
TOLD = [
    pytest.param(64, stream(64, [f" {i % 10}ab" for i in range(64)]), "", id="a-piece-for-each"),
    pytest.param(64, stream(64, [" abc" * 8] * 8), "", id="eight-in-each-piece-under-speculation"),
    pytest.param(64, stream(64, ["\u4e2d"] * 22), "", id="three-tokens-for-one-rare-character"),
    pytest.param(64, stream(64, ["9"] * 64), "", id="digits-one-by-one"),
    pytest.param(64, stream(64, [" abc"] * 8), "", id="half-a-byte-for-each-as-after-the-end"),
    pytest.param(
        64, stream(64, [" abc"] * 7 + ["abc"]), "it told 64 tokens and sent 31 bytes of text", id="stopped-after-8"
    ),
    pytest.param(
        64, stream(64, [" abc"] * 64, 4e-7), "it told 64 tokens and sent them all at once", id="a-stream-kept-back"
    ),
    pytest.param(64, stream(64, [" abc" * 64]), "it told 64 tokens and sent them all at once", id="one-event"),
    pytest.param(8, stream(8, [" abc" * 8]), "", id="few-in-one-event"),
]


@pytest.mark.parametrize(("asked", "lines", "error"), TOLD)
def test_tokens_that_cannot_have_been_sent_are_a_failure(asked: int, lines: Sequence[TimedLine], error: str) -> None:
    record = request_record(200, "", 1.0, lines, asked)
    assert (record["error"], record["tokens"]) == (error, asked)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), min_size=2, max_size=40))
def test_a_stream_of_bytes_or_more_for_each_token_is_believed(pieces: list[str]) -> None:
    tokens = sum(len(piece.encode()) for piece in pieces)
    assert request_record(200, "", 1.0, stream(tokens, pieces), tokens)["error"] == ""


JUDGED = [
    pytest.param([f" {word}" for word in WORDS.split()], False, id="prose"),
    pytest.param([" the", " is", "!"] * 20, True, id="repetition"),
    pytest.param(["\u0434\u0430\u043c", "\u4e2d\u6587"] * 12, True, id="scripts-that-nobody-asked-for"),
    pytest.param(["Yes."], None, id="too-little-to-tell"),
    pytest.param(
        [*(f" {i} {word}" for i in range(8) for word in WORDS.split()), *[" the end"] * 400],
        False,
        id="repetition-far-past-the-end",
    ),
]


@pytest.mark.parametrize(("pieces", "degenerate"), JUDGED)
def test_the_text_under_load_is_judged(pieces: list[str], degenerate: bool | None) -> None:
    record = request_record(200, "", 1.0, stream(len(pieces), pieces), len(pieces), "Describe a railway.")
    assert record["degenerate"] is degenerate
    assert ("shown" in record) is (degenerate is True)


def test_reasoning_is_text_under_either_name() -> None:
    """vLLM renamed `reasoning_content` to `reasoning`; releases in between send both."""
    deltas = ({"reasoning": "ab"}, {"reasoning_content": "ab"}, {"reasoning": "ab", "reasoning_content": "ab"})
    found = [chunk("data: " + json.dumps({"choices": [{"delta": delta}]})) for delta in deltas]
    assert [one.text for one in found if one] == ["ab"] * 3


@pytest.mark.parametrize("asked", [4, 6])
def test_another_number_of_tokens_than_asked_for_is_a_failure(asked: int) -> None:
    assert request_record(200, "", 1.0, WHOLE, asked)["error"] == f"5 tokens, {asked} were asked for"


LEFT_OUT = [
    pytest.param(a_pass(900.0, warm_up=True), "", id="a-warm-up"),
    pytest.param(a_pass(900.0, concurrency=1), "", id="another-level"),
    pytest.param(a_pass(900.0, cut=True), "1 left out: cut off by the budget", id="a-pass-cut-off"),
    pytest.param(a_pass(900.0, held_back=0.2), "held back by the rate limit", id="a-pass-held-back"),
    pytest.param(a_pass(900.0, [request(), FAILED]), "1 of 2 requests failed (HTTP 503)", id="a-failed-request"),
    pytest.param(a_pass(900.0, [request(), {"status": 200}]), "1 of 2 requests failed", id="a-record-without-error"),
    pytest.param(
        a_pass(900.0, [request(), request(degenerate=True)]), "1 of 2 answers are degenerate", id="a-degenerate-answer"
    ),
    pytest.param(a_pass(900.0) | {"requests": "none"}, "without a request", id="requests-of-another-shape"),
    pytest.param(a_pass(900.0, seconds=0), "1 left out", id="no-time"),
    pytest.param("a pass", "", id="no-object"),
]


@pytest.mark.parametrize(("odd", "said"), LEFT_OUT)
def test_what_is_no_sample_of_throughput_is_left_out_and_said(odd: Any, said: str) -> None:
    fact = fact_of(SPEED, evidence(load=[a_pass(99.0), odd, a_pass(101.0)]))
    assert fact.samples == (99.0, 101.0)
    assert said in fact.text


def test_samples_of_all_rounds_count_and_are_cited() -> None:
    fact = fact_of(SPEED, evidence(load_at_1=[a_pass(99.0)], load=[a_pass(101.0)]))
    assert (fact.samples, fact.evidence) == ((99.0, 101.0), ("digest of load@1", "digest of load"))


LATENCIES = [
    pytest.param(FirstTokenSpec(at_most=0.2, concurrency=(8,)), 0.1, id="time-to-first-token"),
    pytest.param(InterTokenSpec(at_most=0.02, concurrency=(8,)), 0.01, id="inter-token-latency"),
]


@pytest.mark.parametrize(("spec", "middle"), LATENCIES)
def test_latency_is_the_median_of_a_pass(spec: ClaimSpec, middle: float) -> None:
    spread = [
        request(),
        request(first_token_s=0.01, inter_token_s=0.001),
        request(first_token_s=9.0, inter_token_s=9.0),
    ]
    assert fact_of(spec, evidence(load=[a_pass(requests=spread)])).samples == (middle,)


@pytest.mark.parametrize(("spec", "middle"), LATENCIES)
def test_a_pass_with_a_failed_request_is_no_sample_of_latency(spec: ClaimSpec, middle: float) -> None:
    assert fact_of(spec, evidence(load=[a_pass(requests=[request(), FAILED])])).value is None


GOOD = [
    pytest.param(request(), 1.0, id="within-both"),
    pytest.param(request(first_token_s=0.3), 0.0, id="late-to-begin"),
    pytest.param(request(inter_token_s=0.03), 0.0, id="slow-to-go-on"),
    pytest.param(FAILED, 0.0, id="failed-at-once"),
    pytest.param(request(error="the stream broke off"), 0.0, id="broken-off"),
    pytest.param(request(inter_token_s=None), 0.0, id="without-a-figure"),
    pytest.param(request(degenerate=True), 0.0, id="degenerate"),
    pytest.param(request(degenerate=False), 1.0, id="sound-text"),
    pytest.param(request(degenerate=None), 1.0, id="too-little-text-to-tell"),
]


@pytest.mark.parametrize(("one", "good"), GOOD)
def test_a_good_request_is_whole_and_within_both_bounds(one: dict[str, Any], good: float) -> None:
    assert fact_of(GOODPUT, evidence(load=[a_pass(requests=[one])])).samples == (good,)


def test_goodput_says_how_many_answers_were_degenerate() -> None:
    fact = fact_of(GOODPUT, evidence(load=[a_pass(requests=[request(), FAILED, request(degenerate=True)])]))
    assert fact.text == "1 of 3 requests within the bounds, 1 failed, 1 degenerate"


def quick(count: int, speed: float) -> list[dict[str, Any]]:
    return [a_pass(speed + i * speed / 1000) for i in range(count)]


GARBAGE = [a_pass(900.0, [request(degenerate=True)] * 16)] * 8
DECIDED = [
    pytest.param(SPEED, {"load": GARBAGE}, "inconclusive", "16 of 16 answers are degenerate", id="fast-garbage"),
    pytest.param(GOODPUT, {"load": GARBAGE}, "refuted", "share 0.0%", id="good-for-nothing"),
    pytest.param(GAIN, {"load": quick(8, 130.0), "baseline_load": quick(8, 100.0)}, "held", "+30", id="a-gain"),
    pytest.param(
        GAIN, {"load": quick(8, 105.0), "baseline_load": quick(8, 100.0)}, "refuted", "+5", id="too-small-a-gain"
    ),
    pytest.param(
        GAIN,
        {"load": [a_pass(s) for s in (90.0, 150.0, 105.0, 140.0)], "baseline_load": quick(8, 100.0)},
        "inconclusive",
        "noise between repeats of the old 0.2%",
        id="too-noisy-a-gain",
    ),
    pytest.param(
        GAIN, {"load": quick(8, 130.0)}, "inconclusive", "0 of at least 3 samples of the baseline", id="no-baseline"
    ),
    pytest.param(
        GAIN,
        {"load": quick(8, 130.0), "baseline_load": [a_pass(100.0, [FAILED])] * 8},
        "inconclusive",
        "not enough data: 0 of at least 3 samples of the baseline",
        id="a-baseline-that-failed",
    ),
    pytest.param(GAIN, {"baseline_load": quick(8, 100.0)}, "inconclusive", "no pass under load", id="nothing-measured"),
    pytest.param(SPEED, {"load": quick(2, 900.0)}, "inconclusive", "2 of at least 3 samples", id="too-few-passes"),
    pytest.param(SPEED, {"load": quick(8, 100.0)}, "held", "mean 100", id="a-speed"),
    pytest.param(SPEED, {"load": [a_pass(900.0, [FAILED] * 4)] * 8}, "inconclusive", "HTTP 503", id="all-refused"),
    pytest.param(GOODPUT, {"load": [a_pass(requests=[request()] * 16)] * 4}, "held", "share 100.0%", id="all-good"),
    pytest.param(GOODPUT, {"load": [a_pass(requests=[FAILED] * 16)] * 4}, "refuted", "share 0.0%", id="none-good"),
    pytest.param(GOODPUT, {"load": []}, "inconclusive", "no pass under load", id="no-requests"),
]


@pytest.mark.parametrize(("spec", "items", "outcome", "said"), DECIDED)
def test_passes_decide_or_leave_open(spec: ClaimSpec, items: dict[str, Any], outcome: str, said: str) -> None:
    found = verdict(spec, evidence(**items))
    assert found.outcome == outcome, found.reason
    assert said in found.reason


def generation(tokens: int, calls: int) -> dict[str, Any]:
    return {"status": 200, "tokens": tokens, "verify_calls": calls}


LENGTHS = [
    pytest.param([generation(256, 76 + i % 2) for i in range(12)], "held", id="as-long-as-before"),
    pytest.param([generation(256, 100 + i % 2) for i in range(12)], "refuted", id="shorter-than-before"),
    pytest.param([], "inconclusive", id="no-speculation-any-more"),
]


@pytest.mark.parametrize(("new", "outcome"), LENGTHS)
def test_accept_length_is_held_against_the_baseline(new: list[dict[str, Any]], outcome: str) -> None:
    old = [generation(256, 75 + i % 3) for i in range(12)]
    found = verdict(AcceptLengthSpec(at_least="-5%"), evidence(generations=new, baseline_generations=old))
    assert found.outcome == outcome, found.reason


QUESTIONS = (QuestionSpec(prompt="2 + 2?", matches=r"\b4\b"),)
QUIZ = AnswersSpec(at_least=0.5, concurrency=(2,), questions=QUESTIONS)


def asking(**changes: Any) -> dict[str, Any]:
    return {"claim": "answers-2", "prompt": "2 + 2?", "right": True, "status": 200, "shown": "4"} | changes


ANSWERED = [
    pytest.param([asking()] * 24, "held", id="right"),
    pytest.param([asking(right=False, shown="5")] * 24, "refuted", id="wrong"),
    pytest.param([asking(status=0)] * 24, "refuted", id="right-but-never-answered"),
    pytest.param([asking(claim="answers-8")] * 24, "inconclusive", id="another-claim's"),
]


@pytest.mark.parametrize(("asked", "outcome"), ANSWERED)
def test_answers_to_stated_questions_are_a_share(asked: list[dict[str, Any]], outcome: str) -> None:
    assert verdict(QUIZ, evidence(quiz=asked)).outcome == outcome


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 500) | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(a_pass())), inner, max_size=4),
    max_leaves=8,
)


@given(ANY, ANY)
def test_damaged_passes_are_unknown_and_never_an_error(load: Any, before: Any) -> None:
    found = Evidence({"load": json.dumps(load).encode(), "baseline-load": json.dumps(before).encode()})
    assert verdict(GAIN, found).outcome != "held"
    assert verdict(SPEED, found).outcome != "held"


REQUESTS = st.builds(
    request,
    first_token_s=st.floats(0.01, 0.4),
    inter_token_s=st.floats(0.001, 0.04),
    error=st.sampled_from(["", "", "HTTP 500"]),
)
PASSES = st.lists(st.builds(a_pass, st.floats(80, 140), st.lists(REQUESTS, min_size=1, max_size=6)), max_size=8)


@given(PASSES, st.data())
def test_a_request_that_fails_instead_never_makes_a_claim_hold(
    passes: list[dict[str, Any]], data: st.DataObject
) -> None:
    broken = [p | {"requests": [data.draw(st.sampled_from([r, FAILED])) for r in p["requests"]]} for p in passes]
    before, after = fact_of(GOODPUT, evidence(load=passes)), fact_of(GOODPUT, evidence(load=broken))
    assert (after.value or 0.0) <= (before.value or 0.0)
    assert set(fact_of(SPEED, evidence(load=broken)).samples) <= set(fact_of(SPEED, evidence(load=passes)).samples)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True), st.integers(0, 3))
def test_both_sides_get_the_same_prompts_and_none_begins_like_another(levels: list[int], salt: int) -> None:
    traffic = Traffic()
    claims = manifest_claims([ThroughputSpec(at_least="+1%", concurrency=tuple(levels))])
    old = baseline_order(claims, traffic, f"{salt:08x}")
    new = ordered(claims, traffic, f"{salt:08x}", 1, 0.0)
    assert old is not None
    assert (
        (old.levels, old.first_pass, old.salt)
        == (new.levels, new.first_pass, new.salt)
        == (tuple(sorted(levels)), 0, new.salt)
    )
    asked = [traffic.prompt(new.salt, str(p), i) for p in range(3) for i in range(16)]
    assert len({text.split("] ")[0] for text in asked}) == len(asked)


def test_a_round_goes_on_where_the_ones_before_it_ended() -> None:
    claims: Sequence[Claim] = manifest_claims([GAIN, QUIZ])
    rounds = [ordered(claims, Traffic(), "s", number, 0.0) for number in (1, 2, 3)]
    assert [(o.first_pass, o.passes) for o in rounds] == [(0, 4), (4, 4), (8, 8)]
    assert [(o.first_asking, o.askings) for o in rounds] == [(0, 24), (24, 24), (48, 48)]


@pytest.mark.parametrize(
    ("spent", "seconds"),
    [
        pytest.param(0.0, 180.0, id="all-of-it-at-first"),
        pytest.param(100.0, 80.0, id="what-is-left"),
        pytest.param(500.0, 45.0, id="a-quarter-at-least"),
    ],
)
def test_a_round_has_what_is_left_of_the_budget(spent: float, seconds: float) -> None:
    assert ordered(manifest_claims([GAIN]), Traffic(), "s", 2, spent).seconds == seconds


def test_nothing_is_asked_of_the_old_service_where_nothing_compares_with_it() -> None:
    assert baseline_order(manifest_claims([SPEED, GOODPUT, AcceptLengthSpec(at_least=2.0)]), Traffic(), "s") is None


def test_traffic_without_prompts_uses_the_built_in_ones() -> None:
    assert resolved(TrafficSpec(tokens=64)) == Traffic(prompts=LONG_PROMPTS, tokens=64)
    assert resolved(TrafficSpec(prompts=("Sing.",), rate=2.0)) == Traffic(prompts=("Sing.",), rate=2.0)


@pytest.mark.parametrize("order", [1, -1], ids=["the comparing claim first", "and last"])
def test_two_claims_about_one_figure_have_their_baseline_whatever_their_order(order: int) -> None:
    change, level = (ThroughputSpec(at_least=bound, concurrency=(8,)) for bound in ("+10%", 20.0))
    specs = [change, level][::order]
    claims, found = manifest_claims(specs), evidence(load=quick(8, 120.0), baseline_load=quick(8, 100.0))
    verdicts = {v.claim: v for v in judge(claims, performance_facts(claims, found))}
    assert {name: v.outcome for name, v in verdicts.items()} == {"throughput-change-8": "held", "throughput-8": "held"}
