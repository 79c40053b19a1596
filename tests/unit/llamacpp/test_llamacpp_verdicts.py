"""What llama-server's evidence decides: each claim held by a sound start, and refuted, or left open, by the right
damage."""

import json
from typing import Any

import pytest
from llamacpp_evidence import DRAFT, HEAD, MTP, PLAIN, PROPS, SLOTS, evidence, facts, log, own, served, target, verdicts

from state.engines.llamacpp.verification import ENGINE

OWN = ("identity", "control", "data", "resource", "function", "speculation")
COMMON = {"active", "one-start", "no-restart", "argv", "port-ours", "no-strangers", "kernel-quiet"}
NONE = ((0, 0),) * 4


def open_or_refuted(found: dict[str, Any]) -> dict[str, str]:
    return {v.claim: v.reason for v in found.values() if v.outcome != "held" and v.claim not in COMMON}


SOUND = [
    pytest.param({}, {}, id="a-draft-model"),
    pytest.param(HEAD, {"journal": log(draft=(MTP,))}, id="a-head-of-its-own"),
    pytest.param(PLAIN, {"journal": log(draft=(), requests=NONE), "generations": own((None, None))}, id="plain"),
    pytest.param({"alias": "qwen,other", "n_gpu_layers": "all"}, {"models": {"data": [{"id": "qwen"}]}}, id="an-alias"),
    pytest.param({}, {"models": {"data": [{"id": "m.gguf"}]}}, id="newer-builds-list-the-file"),
    pytest.param(
        {"parallel": -1, "ctx_size": 16384},
        {"journal": log(slots=SLOTS.replace("false", "true"))},
        id="slots-that-share-the-context",
    ),
]


@pytest.mark.parametrize(("arguments", "changes"), SOUND)
def test_a_sound_start_holds_everything_of_the_engines_own(arguments: dict[str, Any], changes: dict[str, Any]) -> None:
    assert open_or_refuted(verdicts(target(arguments), evidence(**changes))) == {}


def props(**changes: Any) -> dict[str, Any]:
    return {"props": {**PROPS, **changes}}


NOT_BUILT = "common_speculative_init: no implementations specified for speculative decoding"
REFUTED = [
    pytest.param(
        {"journal": log(draft=(), requests=NONE), "generations": own((None, None))},
        {"speculative-decoding", "draft-weights", "speculation-active"}, id="the-flags-are-ignored",
    ),
    pytest.param(
        {"journal": log(draft=(), requests=NONE, extra=(DRAFT, NOT_BUILT)), "generations": own((None, None))},
        {"speculative-decoding", "speculation-active"}, id="the-draft-is-loaded-and-not-used",
    ),
    pytest.param(
        {"journal": log(requests=((0, 400),) * 4), "generations": own(*(((0, 400),) * 4))},
        {"speculation-active", "accepted-per-request"}, id="nothing-is-accepted",
    ),
    pytest.param({"journal": log(requests=((290, 300),) * 4)}, {"figures-agree"},
                 id="the-log-says-more-than-our-answers"),
    pytest.param({"journal": log(depth=16)}, {"draft-max", "draft-depth"}, id="more-is-drafted-than-asked-for"),
    pytest.param({"journal": log(layers="20/29")}, {"gpu-layers"}, id="layers-on-the-cpu"),
    pytest.param({**props(total_slots=4), "journal": log(slots=SLOTS.replace("slots = 2", "slots = 4"))},
                 {"parallel"}, id="other-slots"),
    pytest.param(
        {**props(default_generation_settings={"n_ctx": 4096}), "journal": log(slots=SLOTS.replace("16384", "4096"))},
        {"ctx-size"}, id="less-context"),
    pytest.param(props(model_path="/other.gguf"), {"model-path"}, id="another-file"),
    pytest.param(props(build_info="b9000-abc"), {"build"}, id="another-build-runs"),
    pytest.param({"models": {"data": [{"id": "other"}]}}, {"model-named"}, id="another-model"),
    pytest.param({"environ": {"LLAMA_ARG_SPEC_SYNTH_LEN": "4"}}, {"not-simulated"}, id="simulated-by-a-variable"),
    pytest.param({"cmdline": b"llama-server\0--spec_synth_len\x003\0"}, {"not-simulated"}, id="simulated-by-a-flag"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "refuted"), REFUTED)
def test_damage_is_refuted_by_the_claim_that_is_about_it(changes: dict[str, Any], refuted: set[str]) -> None:
    found = verdicts(target(), evidence(**changes))
    assert {v.claim for v in found.values() if v.outcome == "refuted"} == refuted
    for claim in refuted:
        assert found[claim].remedy
        assert found[claim].causes or claim == "model-named", f"{claim} names no likely cause"
        assert found[claim].evidence, f"{claim} cites no evidence"


OPEN = [
    pytest.param(
        {"journal": None},
        {"speculative-decoding", "draft-weights", "adjustments", "figures-agree", "gpu-layers"},
        id="no-log",
    ),
    pytest.param({"journal": log()[5:]}, {"adjustments"}, id="a-log-without-its-beginning"),
    pytest.param(
        {"journal": log(draft=(), ready=False, requests=())}, {"speculative-decoding"}, id="a-start-that-goes-on"
    ),
    pytest.param({"props": None, "journal": None}, {"model-path", "build", "parallel", "ctx-size"}, id="no-props"),
    pytest.param(props(total_slots=3), {"parallel", "ctx-size"}, id="sources-that-contradict-each-other"),
    pytest.param({"environ": None}, {"not-simulated"}, id="no-environment"),
    pytest.param({"generations": own((150, 300), (150, 300))}, {"accepted-per-request"}, id="two-are-no-sample"),
    pytest.param({"generations": own((400, 300), (None, 300))}, {"accepted-per-request"}, id="figures-that-cannot-be"),
    pytest.param({"answers": []}, {"answers"}, id="no-answers"),
]


@pytest.mark.parametrize(("changes", "left"), OPEN)
def test_missing_evidence_leaves_claims_open(changes: dict[str, Any], left: set[str]) -> None:
    found = verdicts(target(), evidence(**changes))
    assert {claim: found[claim].outcome for claim in left if found[claim].outcome != "inconclusive"} == {}
    assert [v.claim for v in found.values() if v.outcome == "refuted"] == []


SHIFT = "srv    load_model: ctx_shift is not supported by this context, it will be disabled"


@pytest.mark.parametrize(
    ("asked", "line", "outcome"),
    [
        pytest.param({}, SHIFT, "held", id="a-default-of-older-builds"),
        pytest.param({"context_shift": True}, SHIFT, "refuted", id="as-asked-for"),
        pytest.param(
            {},
            "srv    load_model: the slot context (65536) exceeds the training context of the model (32768) - capping",
            "refuted",
            id="more-context-than-the-model-has",
        ),
    ],
)
def test_only_what_was_asked_for_can_be_taken_back(asked: dict[str, Any], line: str, outcome: str) -> None:
    assert verdicts(target(asked), evidence(journal=log(extra=(line,))))["adjustments"].outcome == outcome


def test_a_log_that_says_less_rolls_nobody_back() -> None:
    """Newer builds print layers and caches at a higher level than the default."""
    told = [line for line in log() if not any(word in line for word in ("load_tensors", "llama_", "common_specu"))]
    found = verdicts(target({"log_verbosity": None}), evidence(journal=told))
    left = {v.claim: v.doubt for v in found.values() if v.outcome == "inconclusive" and v.claim not in COMMON}
    assert left == dict.fromkeys(("cache-type-k", "draft-max", "draft-depth", "gpu-layers"), "accept")


def test_words_of_a_prompt_are_no_record() -> None:
    quoted = (
        '0.30.000.000 I srv  log_server_r: request: {"prompt": "draft acceptance = 0.9 ( 90 accepted / 100 generated)"}'
    )
    told = facts(target(), evidence(journal=[*log(requests=NONE), quoted], generations=own((None, None))))
    assert told["speculation.state"].value == "off"


def test_the_accept_length_is_of_steps_of_the_target() -> None:
    """256 tokens, the first from the prompt, 155 of them accepted drafts: 100 steps."""
    told = facts(target(), evidence(generations=own(*(((155, 300),) * 3))))["requests.accept_length"]
    assert told.samples == (2.55,) * 3


def test_older_builds_print_without_times_and_over_several_lines() -> None:
    old = [line.partition(" I ")[2] for line in log(requests=())]
    old = [
        line.replace(
            "initializing, n_slots = 2, n_ctx_slot = 16384, kv_unified = 'false'", "initializing slots, n_slots = 2"
        )
        for line in old
    ]
    old += [
        "slot         init: id  0 | task -1 | new slot n_ctx_slot = 16384",
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
    ]
    old += [
        "slot print_timing: id  0 | task 0 | ",
        "prompt eval time =     128.30 ms /     4 tokens",
        "       eval time =    5959.10 ms /   571 tokens",
        "draft acceptance rate = 0.50000 (  600 accepted /  1200 generated)",
    ]
    found = verdicts(target({"spec_draft_n_max": None, "draft_max": 8}), evidence(journal=old))
    assert {v.claim for v in found.values() if v.outcome != "held"} - COMMON == {"draft-depth"}


def test_counters_are_a_further_word() -> None:
    def metrics(drafts: int, drafted: int, accepted: int) -> bytes:
        names = ("drafts", "draft_tokens", "accepted_tokens")
        values = zip(names, (drafts, drafted, accepted), strict=True)
        return "\n".join(f"llamacpp:spec_decode_num_{name}_total {value}" for name, value in values).encode()

    counted = {"metrics-before": metrics(10, 80, 20), "metrics": metrics(160, 1280, 620)}
    assert verdicts(target(), evidence(**counted))["figures-agree"].outcome == "held"
    damaged = {**counted, "metrics": metrics(160, 1280, 120)}
    assert verdicts(target(), evidence(**damaged))["figures-agree"].outcome == "refuted"
    back = {**counted, "metrics": metrics(1, 8, 2)}
    assert verdicts(target(), evidence(**back))["figures-agree"].outcome == "held", "a counter that went back is unused"


UNDECIDABLE = [
    pytest.param({}, {}, set(), id="all-is-shown"),
    pytest.param({"threads": 8}, {}, {"threads"}, id="an-argument-that-is-not-shown"),
    pytest.param({"log_disable": True, "log_verbosity": None}, {}, {"speculation-active"}, id="no-log"),
    pytest.param({"log_jsonl": True}, {}, {"speculation-active"}, id="a-log-of-json"),
    pytest.param({**PLAIN, "log_verbosity": 1}, {}, {"speculation-off"}, id="a-log-of-errors-alone"),
    pytest.param({"spec_type": "ngram-mod", "model_draft": None}, {}, {"draft-weights"}, id="from-repetitions"),
    pytest.param({}, {"engine_version": None}, {"build"}, id="unknown-build"),
]


@pytest.mark.parametrize(("arguments", "changes", "named"), UNDECIDABLE)
def test_what_cannot_be_decided_is_named(arguments: dict[str, Any], changes: dict[str, Any], named: set[str]) -> None:
    wanted = target(arguments, **changes)
    assert {one.claim for one in ENGINE.undecidable(wanted)} == named
    assert not named & {claim.name for claim in ENGINE.derive(wanted)}


def test_drafts_from_repetitions_need_not_be_made() -> None:
    wanted = target({"spec_type": "ngram-mod", "model_draft": None, "spec_draft_n_max": None})
    journal = log(draft=(), requests=NONE, extra=("spec common_specu: adding speculative implementation 'ngram-mod'",))
    found = open_or_refuted(verdicts(wanted, evidence(journal=journal, generations=own((None, None)))))
    assert set(found) == {"figures-agree"}
    assert verdicts(wanted, evidence(journal=journal))["figures-agree"].doubt == "accept"


@pytest.mark.parametrize(
    ("stdout", "stderr", "version"),
    [
        pytest.param("", "version: 6123 (4fc4ec554)\nbuilt with GNU 14.2.0 for Linux x86_64\n", "b6123", id="older"),
        pytest.param(
            "0.00.000.343 I srv llama_server: initializing ...\nversion: 0.4.1-dev (build 11073, commit 1aa2954bd)\n",
            "",
            "b11073",
            id="newer",
        ),
        pytest.param(
            "ggml_cuda_init: found 4 CUDA devices\nversion: 9859 (4fc4ec554)\n", "", "b9859", id="behind-devices"
        ),
        pytest.param("version: unknown", "", None, id="no-number"),
    ],
)
def test_the_build_is_its_version(stdout: str, stderr: str, version: str | None) -> None:
    assert ENGINE.read_version(stdout, stderr) == version


def test_its_own_completions_are_replies() -> None:
    answer = {"content": "bread", "tokens_predicted": 7, "stop_type": "limit", "timings": {"predicted_n": 7}}
    reply = ENGINE.reply(json.dumps(answer).encode())
    assert reply is not None
    assert (reply.text, reply.tokens, reply.finish_reason) == ("bread", 7, "length")


def test_a_request_without_figures_is_no_draft() -> None:
    lines = [*log(requests=()), *served(0, 0, 0)]
    assert (
        facts(target(PLAIN), evidence(journal=lines, generations=own((None, None))))["speculation.state"].value == "off"
    )
