"""What vLLM's evidence decides: each claim held by a sound start, and refuted, or left open, by the right damage."""

import json
from typing import Any

import pytest
from vllm_evidence import ASKED, CONFIG, MTP, SHOWN, evidence, facts, log, metrics, pairs, target, verdicts, window

from state.engines.vllm.verification import ENGINE

OWN = ("control", "data", "function", "speculation")


def without(mapping: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}


PLAIN_CONFIG = {**CONFIG, "speculative_config": "None"}
PLAIN = {"speculative_config": None}
ONE_DRAFT = {**CONFIG, "speculative_config": "SpeculativeConfig(method='mtp', model='/m', num_spec_tokens=1)"}


def test_a_sound_start_holds_everything_of_the_engines_own() -> None:
    found = verdicts(target(), evidence())
    assert {v.claim: v.reason for v in found.values() if v.plane in OWN and v.outcome != "held"} == {}


def test_a_sound_start_without_speculation_holds_everything() -> None:
    journal = log(without(SHOWN, "speculative_config"), PLAIN_CONFIG, windows=(), drafter=False)
    found = verdicts(target(PLAIN), evidence(journal=journal, metrics=metrics(-1, 0), generations=pairs()))
    assert {v.claim: v.reason for v in found.values() if v.plane in OWN and v.outcome != "held"} == {}


REFUTED = [
    pytest.param(
        {"journal": log(without(SHOWN, "speculative_config"), PLAIN_CONFIG, windows=(), drafter=False),
         "metrics": metrics(-1, 0), "metrics-before": metrics(-1, 0), "generations": []},
        {"speculative-method", "num-speculative-tokens", "draft-weights", "speculation-active"},
        id="the-flag-is-ignored",
    ),
    pytest.param(
        {"journal": log({**SHOWN, "speculative_config": {**MTP, "num_speculative_tokens": 1}}, ONE_DRAFT,
                        windows=((240, 400, 1),)),
         "metrics-before": metrics(10, 6, depth=1), "metrics": metrics(410, 246, depth=1),
         "generations": pairs(1.6, 1.6, 1.6, 1.6)},
        {"num-speculative-tokens", "draft-depth"},
        id="fewer-drafts-than-asked-for",
    ),
    pytest.param(
        {"journal": log(windows=((0, 1200),)), "metrics-before": metrics(0, 0), "metrics": metrics(400, 0),
         "generations": pairs(1.0, 1.0, 1.0, 1.0)},
        {"speculation-active", "accepted-in-our-traffic"},
        id="nothing-is-accepted",
    ),
    pytest.param({"generations": pairs(1.4, 1.4, 1.4, 1.4), "metrics": metrics(410, 12 + 160)}, {"figures-agree"},
                 id="the-log-says-more-than-was-counted"),
    pytest.param({"journal": log(drafter=False)}, {"draft-weights"}, id="no-drafter-in-the-log"),
    pytest.param({"journal": log({**SHOWN, "gpu_memory_utilization": 0.9})}, {"gpu-memory-utilization"},
                 id="another-share-of-memory"),
    pytest.param({"journal": log(config={**CONFIG, "max_seq_len": "8192"})}, {"max-model-len"},
                 id="the-configuration-line-wins-over-what-was-asked"),
    pytest.param({"journal": log(config={**CONFIG, "enable_chunked_prefill": "False"})}, {"enable-chunked-prefill"},
                 id="a-default-of-v1-is-off"),
    pytest.param({"journal": log({**SHOWN, "speculative_config": {**MTP, "rejection_sample_method": "synthetic"}})},
                 {"not-simulated"}, id="acceptance-is-simulated"),
    pytest.param({"models": {"data": [{"id": "other"}]}}, {"model-named"}, id="another-model"),
    pytest.param(
        {"journal": log(extra=("[config.py:9] gpu_memory_utilization is adjusted to 0.7",))},
        {"adjustments"}, id="a-setting-is-changed-by-itself"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "refuted"), REFUTED)
def test_damage_is_refuted_by_the_claim_that_is_about_it(changes: dict[str, Any], refuted: set[str]) -> None:
    found = verdicts(target(), evidence(**changes))
    assert {v.claim for v in found.values() if v.outcome == "refuted"} == refuted
    for claim in refuted:
        assert found[claim].remedy
        assert found[claim].causes, f"{claim} names no likely cause"
        assert found[claim].evidence, f"{claim} cites no evidence"


OPEN = [
    pytest.param(
        {"journal": None}, {"speculative-method", "draft-weights", "figures-agree", "adjustments"}, id="no-log"
    ),
    pytest.param(
        {"metrics": None, "generations": pairs()}, {"accepted-in-our-traffic"}, id="neither-counters-nor-pairs"
    ),
    pytest.param({"journal": log(windows=())}, {"figures-agree"}, id="no-window-has-ended-yet"),
    pytest.param({"metrics": metrics(5, 6)}, {"draft-depth"}, id="a-counter-went-back"),
    pytest.param({"metrics": b"sglang:num_running_reqs 0\n"}, {"draft-depth"}, id="another-engine's-metrics"),
    pytest.param({"generations": pairs(2.8, 2.8)}, {"accepted-in-our-traffic"}, id="two-pairs-are-no-sample"),
    pytest.param({"answers": []}, {"answers"}, id="no-answers"),
]


@pytest.mark.parametrize(("changes", "left"), OPEN)
def test_missing_evidence_leaves_claims_open(changes: dict[str, Any], left: set[str]) -> None:
    if changes.get("generations") == []:
        changes = {**changes, "journal": log(windows=())}
    found = verdicts(target(), evidence(**changes))
    assert {claim: found[claim].outcome for claim in left if found[claim].outcome == "held"} == {}
    assert [v.claim for v in found.values() if v.outcome == "refuted"] == []


def test_words_of_a_prompt_are_no_record() -> None:
    """A request's text stands in the log with --enable-log-requests."""
    quoted = (
        f"(APIServer pid=1) INFO 10-03 11:20:41 [logger.py:41] Received request cmpl-1: prompt: '{window(900, 900)}'"
    )
    told = facts(target(), evidence(journal=[*log(windows=()), (1, quoted)], generations=pairs()))
    assert "requests.accept_length" not in told


@pytest.mark.parametrize(
    ("arguments", "asked", "effective"),
    [
        pytest.param({"method": "qwen3_next_mtp", "num_speculative_tokens": 3}, "qwen3_next_mtp", "mtp", id="family"),
        pytest.param({"method": "mtp", "num_speculative_tokens": 3}, "mtp", "mtp", id="mtp"),
    ],
)
def test_a_familys_mtp_is_mtp(arguments: dict[str, Any], asked: str, effective: str) -> None:
    wanted = target({"speculative_config": arguments})
    (claim,) = [c for c in ENGINE.derive(wanted) if c.name == "speculative-method"]
    assert claim.expected == effective
    assert ("an alias" in claim.statement) == (asked != effective)
    assert verdicts(wanted, evidence())["speculative-method"].outcome == "held"


def test_an_argument_that_the_log_leaves_out_is_at_its_default() -> None:
    wanted = target({"enable_lora": True, "seed": 3})
    found = verdicts(wanted, evidence())
    assert found["enable-lora"].outcome == "refuted", "the default is known"
    assert (found["seed"].outcome, found["seed"].doubt) == ("inconclusive", "accept"), "the default is not known"


def test_server_info_is_a_further_word_on_what_is_in_effect() -> None:
    line = ", ".join(f"{name}={value}" for name, value in {**CONFIG, "max_seq_len": "4096"}.items())
    found = verdicts(target(), evidence(**{"server-info": json.dumps({"vllm_config": line}).encode()}))
    assert found["max-model-len"].outcome == "inconclusive"
    assert "/server_info says 4096" in found["max-model-len"].reason


UNDECIDABLE = [
    pytest.param({}, {}, {"draft-even", "accepted-per-request"}, id="mtp"),
    pytest.param({"per_request_spec_decode_metrics": "summary"}, {"engine_version": "0.29.0"}, {"draft-even"},
                 id="figures-of-requests"),
    pytest.param({"disable_log_stats": True}, {}, {"draft-even", "speculation-active"}, id="no-statistics"),
    pytest.param({"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, {},
                 {"draft-weights", "accepted-per-request"}, id="ngram"),
    pytest.param({"speculative_config": None}, {}, set(), id="plain"),
    pytest.param({"compilation_config": {"mode": 3}}, {}, {"compilation-config", "draft-even", "accepted-per-request"},
                 id="an-object-that-is-shown-with-its-defaults"),
    pytest.param({}, {"engine_version": None}, {"version-defaults", "draft-even", "accepted-per-request"},
                 id="unknown-version"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "changes", "named"), UNDECIDABLE)
def test_what_cannot_be_decided_is_named(arguments: dict[str, Any], changes: dict[str, Any], named: set[str]) -> None:
    wanted = target(arguments, **changes)
    assert {one.claim for one in ENGINE.undecidable(wanted)} == named
    assert not named & {claim.name for claim in ENGINE.derive(wanted)}


@pytest.mark.parametrize(
    ("version", "environment", "derived"),
    [
        pytest.param("0.8.5", {}, True, id="before-0.11-v0-may-run-unasked"),
        pytest.param("0.8.5", {"VLLM_USE_V1": "0"}, False, id="v0-is-asked-for"),
        pytest.param("0.20.2", {}, False, id="v0-is-gone"),
    ],
)
def test_the_v1_engine_is_claimed_where_v0_could_run(version: str, environment: dict[str, str], derived: bool) -> None:
    wanted = target(engine_version=version, environment=environment)
    assert ("engine-v1" in {c.name for c in ENGINE.derive(wanted)}) is derived


def test_figures_of_single_requests_come_before_those_of_pairs() -> None:
    own = [{"status": 200, "tokens": 256, "verify_calls": 85, "degenerate": False, "shown": ""} for _ in range(4)]
    wanted = target({"per_request_spec_decode_metrics": "summary"}, engine_version="0.29.0")
    told = facts(wanted, evidence(generations=own))["requests.accept_length"]
    assert told.samples == (3.0,) * 4
    assert "accepted-per-request" in {c.name for c in ENGINE.derive(wanted)}


@pytest.mark.parametrize(
    ("arguments", "environment", "seconds"),
    [
        pytest.param({}, {}, 10.0, id="windows-of-ten-seconds"),
        pytest.param({}, {"VLLM_LOG_STATS_INTERVAL": "2"}, 2.0, id="as-the-environment-says"),
        pytest.param({}, {"VLLM_LOG_STATS_INTERVAL": "often"}, 10.0, id="nonsense-is-the-default"),
        pytest.param({"speculative_config": None}, {}, 0.0, id="nothing-to-wait-for"),
    ],
)
def test_traffic_outlasts_a_window(arguments: dict[str, Any], environment: dict[str, str], seconds: float) -> None:
    assert ENGINE.record_interval_s(target(arguments, environment=environment)) == seconds


def test_the_name_to_ask_for_is_the_first_served() -> None:
    assert ENGINE.model_name(target({"served_model_name": ["a", "b"]})) == "a"
    assert ENGINE.model_name(target()) == ASKED["model"]


@pytest.mark.parametrize(
    ("arguments", "shown", "outcome"),
    [
        pytest.param({"quantization": "awq"}, {"quantization": "awq_marlin"}, "held", id="awq-by-its-kernel"),
        pytest.param({"quantization": "awq"}, {"quantization": "fp8"}, "refuted", id="another-quantisation"),
        pytest.param({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "fp8_e4m3"}, "held", id="fp8-by-its-format"),
        pytest.param({"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "auto"}, "refuted", id="no-fp8-after-all"),
    ],
)
def test_the_engines_own_translations_are_allowed(
    arguments: dict[str, Any], shown: dict[str, str], outcome: str
) -> None:
    (name,) = arguments
    found = verdicts(target(arguments), evidence(journal=log({**SHOWN, **arguments}, {**CONFIG, **shown})))
    assert found[name.replace("_", "-")].outcome == outcome
