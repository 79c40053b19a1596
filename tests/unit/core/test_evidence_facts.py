"""What evidence says and does not say: identity, arguments, draft weights, answers, acceptance."""

import json
from typing import Any

import pytest
from core_evidence import (
    ASKED,
    EFFECTIVE,
    MAIN,
    OLD,
    SEED,
    answers,
    asked,
    booted,
    evidence,
    facts,
    generations,
    items,
    journal,
    verdicts,
)
from core_samples import NEW_ARGV
from hypothesis import given, settings
from hypothesis import strategies as st

from state.claims import Outcome, conclusion
from state.engines.sglang.verification import ENGINE
from state.evidence import Evidence, common_facts
from state.judging import judge
from state.manifest.claim_specs import AcceptLengthSpec
from state.performance import accept_lengths
from state.stated_claims import manifest_claims


def refuted(given: Evidence, **target: Any) -> dict[str, Outcome]:
    return {name: v.outcome for name, v in verdicts(given, asked(**target)).items() if v.outcome != "held"}


def test_a_start_that_is_all_that_was_asked_for_is_held() -> None:
    found = verdicts(evidence())
    assert {name: v.reason for name, v in found.items() if v.outcome != "held"} == {}
    assert conclusion(tuple(found.values())) == "held"


def test_each_of_the_seeds_start_up_facts_is_a_claim_of_its_own() -> None:
    found = verdicts(evidence())
    stated = {name: found[name].statement for name in found}
    assert stated["speculative-algorithm"] == "speculative_algorithm is EAGLE (NEXTN was asked for; an alias)"
    assert "extra_buffer" in stated["mamba-strategy"]
    assert stated["disable-overlap-schedule"] == "overlap scheduling stays on beside speculation"
    assert found["draft-weights"].reason == "Qwen3_5ForCausalLMMTP on 4 ranks, 1.91 GB each"
    assert found["mem-fraction-static"].statement == "mem_fraction_static is 0.75"


def test_every_verdict_that_decides_cites_its_evidence() -> None:
    assert all(v.evidence for v in verdicts(evidence()).values())


class TestSeed:
    """The three journal lines that started it."""

    seed = evidence(
        journal=journal(SEED),
        server_info=None,
        unit=None,
        cmdline=None,
        environ=None,
        listeners=None,
        processes=None,
        drivers=None,
        kernel=None,
        models=None,
        answers=None,
        generations=None,
    )

    def test_evidence_is_of_the_new_process_alone(self) -> None:
        assert self.seed.boot is not None
        assert self.seed.boot.pids == (MAIN,)

    def test_the_old_one_is_counted(self) -> None:
        assert facts(self.seed)["journal.strangers"].value == 1
        assert verdicts(self.seed)["no-strangers"].outcome == "refuted"

    def test_speculation_is_active_with_five_of_five(self) -> None:
        fact = facts(self.seed)["speculation.state"]
        assert (fact.value, fact.text) == ("active", "active: 5 of 5 drafts accepted")
        assert verdicts(self.seed)["speculation-active"].outcome == "held"

    def test_the_level_of_acceptance_stays_open(self) -> None:
        (level,) = manifest_claims([AcceptLengthSpec(at_least=2.0)])
        (verdict,) = judge([level], facts(self.seed).values())
        assert (verdict.outcome, verdict.more) == ("inconclusive", True)
        assert verdict.reason == "no evidence of it in acceptance of our own requests"

    def test_one_request_of_our_own_leaves_it_open_too(self) -> None:
        (level,) = manifest_claims([AcceptLengthSpec(at_least=2.0)])
        one = evidence(journal=journal(SEED), generations=generations(6.0))
        (verdict,) = judge([level], facts(one).values())
        assert (verdict.outcome, verdict.more) == ("inconclusive", True)
        assert verdict.reason == "not enough data: 6.00 from 1 of at least 12 samples"

    def test_nothing_else_is_held(self) -> None:
        held = {name for name, v in verdicts(self.seed).items() if v.outcome == "held"}
        assert held == {"speculation-active"}


XID = b"2026-03-09T15:54:24+00:00 h kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
PARTS = sorted(items())


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_piece_of_evidence_never_makes_a_claim_held_that_was_not(part: str) -> None:
    whole, without = items(), items()
    del without[part]
    lost = verdicts(Evidence(without))
    assert {n for n, v in lost.items() if v.outcome == "held"} <= {
        n for n, v in verdicts(Evidence(whole)).items() if v.outcome == "held"
    }
    assert not any(v.outcome == "refuted" for v in lost.values())


MISSING = {
    "unit": {"active", "one-start", "no-restart"},
    "cmdline": {"argv"},
    "environ": {"not-simulated"},
    "listeners": {"port-ours"},
    "processes": {"port-ours"},
    "drivers": {"gpu-drivers"},
    "kernel": {"kernel-quiet"},
    "models": {"model-named"},
    "answers": {"answers"},
    "generations": {"accepted-per-request", "figures-agree"},
    "journal": {"no-strangers", "adjustments", "draft-weights", "draft-even", "speculation-active", "figures-agree"},
    "context": {"one-start", "no-strangers"},
}


@pytest.mark.parametrize(("part", "claims"), MISSING.items(), ids=MISSING)
def test_without_its_evidence_a_claim_is_open(part: str, claims: set[str]) -> None:
    found = refuted(evidence(**{part: None}))
    assert claims <= found.keys()
    assert {found[name] for name in claims} == {"inconclusive"}


@pytest.mark.parametrize("part", [p for p in PARTS if p != "kernel"])
def test_an_empty_piece_of_evidence_is_no_better_than_a_missing_one(part: str) -> None:
    empty, missing = items(), items()
    empty[part] = b""
    del missing[part]
    assert {n for n, v in verdicts(Evidence(empty)).items() if v.outcome == "held"} <= {
        n for n, v in verdicts(Evidence(missing)).items() if v.outcome == "held"
    }


def test_no_evidence_at_all_holds_nothing() -> None:
    assert {v.outcome for v in verdicts(Evidence({})).values()} == {"inconclusive"}


def test_reasons_are_sentences_even_without_evidence() -> None:
    assert not [v.reason for v in verdicts(Evidence({})).values() if v.reason.startswith("None") or not v.reason]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PARTS), st.binary(max_size=80) | st.sampled_from([b"null", b"{}", b"1", b'"x"', b"[1]", b"[{}]"])
)
def test_damaged_evidence_is_read_without_a_fall(part: str, damaged: bytes) -> None:
    raw = items()
    raw[part] = damaged
    assert len(verdicts(Evidence(raw))) == len(verdicts(evidence()))


@pytest.mark.parametrize(
    ("changes", "claim", "outcome", "reason"),
    [
        pytest.param(
            {"unit": b"ActiveState=failed\n"}, "active", "refuted", "systemd says failed; wanted active", id="failed"
        ),
        pytest.param(
            {"unit": b"InvocationID=" + b"b" * 32 + b"\n"},
            "one-start",
            "refuted",
            f"InvocationID {'b' * 12}, but",
            id="another start",
        ),
        pytest.param(
            {"unit": b"NRestarts=2\n"}, "no-restart", "refuted", "2 restarts since the start; wanted 0", id="restarted"
        ),
        pytest.param(
            {"unit": b"NRestarts=[not set]\n"}, "no-restart", "inconclusive", "no evidence", id="restarts not told"
        ),
        pytest.param(
            {"unit": b"NRestarts=2\n", "context": {"restarts": 2}},
            "no-restart",
            "held",
            "0 restarts",
            id="restarts of before",
        ),
        pytest.param({"cmdline": b"python\0-m\0x\0"}, "argv", "refuted", "3 words", id="other words"),
        pytest.param(
            {"cmdline": b"/usr/bin/python3\0-S\0" + b"".join(word.encode() + b"\0" for word in NEW_ARGV[1:])},
            "argv",
            "held",
            "8 words: ",
            id="a wrapper became the engine",
        ),
        pytest.param(
            {"cmdline": b"/bin/sh\0" + b"".join(word.encode() + b"\0" for word in NEW_ARGV)},
            "argv",
            "held",
            "8 words: ",
            id="the program is a script",
        ),
        pytest.param(
            {"cmdline": b"".join(word.encode() + b"\0" for word in (*NEW_ARGV, "--more"))},
            "argv",
            "refuted",
            "8 words: ",
            id="one word more",
        ),
        pytest.param(
            {"listeners": [99]}, "port-ours", "refuted", "the port is held by PID 99", id="a stranger on the port"
        ),
        pytest.param(
            {"listeners": [MAIN, 99]}, "port-ours", "refuted", "the port is held by PID 99", id="a stranger beside us"
        ),
        pytest.param({"listeners": []}, "port-ours", "inconclusive", "no evidence", id="nobody on the port"),
        pytest.param({"listeners": [0]}, "port-ours", "inconclusive", "not shown", id="a listener that is not shown"),
        pytest.param({"listeners": [14410]}, "port-ours", "held", "PID 14410", id="a child on the port"),
        pytest.param(
            {"drivers": {"0000:01:00.0": "vfio-pci"}},
            "gpu-drivers",
            "refuted",
            "0000:01:00.0 is on vfio-pci",
            id="driver",
        ),
        pytest.param({"drivers": {}}, "gpu-drivers", "refuted", "0000:01:00.0 is on no driver", id="no driver"),
        pytest.param(
            {"environ": {"SGLANG_SIMULATE_ACC_LEN": "3"}}, "not-simulated", "refuted", "is set", id="simulated"
        ),
        pytest.param(
            {"models": {"data": [{"id": "other"}]}}, "model-named", "refuted", "it names other", id="another model"
        ),
        pytest.param({"models": {"data": []}}, "model-named", "refuted", "it names", id="no model"),
        pytest.param(
            {"journal": journal([(OLD, "late"), *booted(), (OLD, "later")])},
            "no-strangers",
            "refuted",
            "2 journal",
            id="strangers",
        ),
        pytest.param(
            {"journal": b"not a record\n"}, "no-strangers", "inconclusive", "no evidence", id="an unknown journal"
        ),
        pytest.param(
            {"context": {"main_pid": MAIN}}, "no-strangers", "inconclusive", "no evidence", id="old processes not known"
        ),
        pytest.param(
            {"kernel": XID},
            "kernel-quiet",
            "refuted",
            "wanted 0",
            id="a kernel fault",
        ),
        pytest.param(
            {"kernel-gpu": XID},
            "kernel-quiet",
            "refuted",
            "wanted 0",
            id="a kernel fault on the GPU host",
        ),
        pytest.param(
            {"kernel": b"-- No entries --\n"}, "kernel-quiet", "held", "no fault in the kernel log", id="a quiet kernel"
        ),
        pytest.param(
            {"kernel": b"cat: /dev/kmsg: no\n"},
            "kernel-quiet",
            "inconclusive",
            "a shape that is not known",
            id="no log",
        ),
        pytest.param(
            {"memory-events": b"low 0\noom 1\noom_kill 1\n"},
            "kernel-quiet",
            "refuted",
            "took 1 of",
            id="the OOM killer",
        ),
        pytest.param({"environ": {}}, "not-simulated", "inconclusive", "no evidence", id="an environment with nothing"),
    ],
)
def test_identity_and_resources(changes: dict[str, Any], claim: str, outcome: Outcome, reason: str) -> None:
    verdict = verdicts(evidence(**changes))[claim]
    assert (verdict.outcome, reason in verdict.reason) == (outcome, True), verdict.reason


def effective(**changes: Any) -> dict[str, Any]:
    return EFFECTIVE | changes


@pytest.mark.parametrize(
    ("server_info", "log", "claim", "outcome", "reason"),
    [
        pytest.param(
            effective(),
            effective(),
            "speculative-num-steps",
            "held",
            "5 (/server_info, log)",
            id="both agree",
        ),
        pytest.param(None, effective(), "speculative-num-steps", "held", "5 (log)", id="the log alone"),
        pytest.param(effective(), {}, "speculative-num-steps", "held", "5 (/server_info)", id="/server_info alone"),
        pytest.param(
            effective(speculative_num_steps=3),
            effective(),
            "speculative-num-steps",
            "inconclusive",
            "speculative_num_steps: /server_info says 3, log says 5",
            id="they contradict each other",
        ),
        pytest.param(
            effective(speculative_num_steps=3),
            effective(speculative_num_steps=3),
            "speculative-num-steps",
            "refuted",
            "3 (/server_info, log); wanted 5",
            id="both say another value",
        ),
        pytest.param(
            effective(speculative_num_steps=None),
            effective(speculative_num_steps=None),
            "speculative-num-steps",
            "refuted",
            "None (/server_info, log); wanted 5",
            id="the engine shows none",
        ),
        pytest.param(
            {"model_path": "/m"},
            {"model_path": "/m"},
            "speculative-num-steps",
            "inconclusive",
            "no source shows speculative_num_steps as it is in effect",
            id="neither has it",
        ),
        pytest.param(
            effective(speculative_algorithm=None),
            effective(speculative_algorithm=None),
            "speculative-algorithm",
            "refuted",
            "wanted EAGLE",
            id="the flag was ignored",
        ),
        pytest.param(
            effective(speculative_algorithm=None),
            effective(),
            "speculative-algorithm",
            "inconclusive",
            "says None",
            id="ignored by one, shown by the other",
        ),
        pytest.param(
            effective(disable_overlap_schedule=True),
            effective(disable_overlap_schedule=True),
            "disable-overlap-schedule",
            "refuted",
            "wanted False",
            id="overlap was turned off",
        ),
        pytest.param(
            effective(mamba_scheduler_strategy="no_buffer"),
            effective(mamba_scheduler_strategy="no_buffer"),
            "mamba-strategy",
            "refuted",
            "wanted one of extra_buffer",
            id="the strategy that breaks the state",
        ),
        pytest.param(
            effective(mem_fraction_static=0.85),
            effective(mem_fraction_static=0.85),
            "mem-fraction-static",
            "refuted",
            "wanted 0.75",
            id="another memory fraction",
        ),
    ],
)
def test_arguments_by_source(
    server_info: dict[str, Any] | None, log: dict[str, Any], claim: str, outcome: Outcome, reason: str
) -> None:
    verdict = verdicts(evidence(server_info=server_info, journal=journal(booted(log))))[claim]
    assert (verdict.outcome, reason in verdict.reason) == (outcome, True), verdict.reason


@pytest.mark.parametrize(
    ("drafts", "weights", "even"),
    [
        pytest.param((1.91,) * 4, "held", "held", id="four ranks alike"),
        pytest.param((1.91,) * 3, "refuted", "held", id="three of four"),
        pytest.param((1.91, 1.91, 1.91, 0.4), "held", "refuted", id="one rank with less"),
        pytest.param((1.91, 1.90, 1.92, 1.91), "held", "held", id="a little apart"),
        pytest.param((), "inconclusive", "inconclusive", id="no second load"),
    ],
)
def test_draft_weights(drafts: tuple[float, ...], weights: Outcome, even: Outcome) -> None:
    found = verdicts(evidence(journal=journal(booted(drafts=drafts))))
    assert (found["draft-weights"].outcome, found["draft-even"].outcome) == (weights, even)


OVERLAP_OFF = "[2026-03-09 15:54:20] Overlap scheduler is disabled because of using speculative decoding."


def test_a_setting_that_the_engine_changed_by_itself_is_refuted_or_allowed() -> None:
    changed = [
        *booted()[:1],
        (MAIN, OVERLAP_OFF),
    ]
    found = facts(evidence(journal=journal([*changed, *booted()[1:]])))["adjustments.unexpected"]
    boot = evidence(journal=journal([*changed, *booted()[1:]])).boot
    assert boot is not None
    assert found.value == [a.code for a in boot.adjustments if a.code == "overlap-off"]


@pytest.mark.parametrize(
    ("changes", "claim", "outcome", "reason"),
    [
        pytest.param({}, "answers", "held", "8 of 8 right", id="all right"),
        pytest.param(
            {"answers": answers(6)}, "answers", "held", "6 of 8 right; 'question 6' got 'answer 6'", id="most right"
        ),
        pytest.param({"answers": answers(5)}, "answers", "refuted", "5 of 8 right", id="too many wrong"),
        pytest.param({"answers": answers(3, 3)}, "answers", "inconclusive", "of at least 8", id="too few asked"),
        pytest.param({"answers": []}, "answers", "inconclusive", "no evidence", id="none asked"),
        pytest.param(
            {"answers": answers(degenerate=1)},
            "not-degenerate",
            "refuted",
            "1 of 14 degenerate: 'answer 0'",
            id="garbage",
        ),
        pytest.param(
            {"generations": generations(4, 4, 4, 4, 4, 4, degenerate=6)},
            "not-degenerate",
            "refuted",
            "6 of 14",
            id="garbage with the best acceptance there is",
        ),
        pytest.param(
            {"load": [{"requests": [{"degenerate": False}, {"degenerate": True, "shown": "the the"}, {}]}]},
            "not-degenerate",
            "refuted",
            "1 of 16 degenerate: 'the the'",
            id="garbage under load alone",
        ),
        pytest.param(
            {"load": [{"requests": [{"status": 200}]}, {"requests": "none"}]},
            "not-degenerate",
            "held",
            "0 of 14",
            id="passes of before texts were judged",
        ),
        pytest.param(
            {"answers": [a | {"degenerate": None} for a in answers()], "generations": []},
            "not-degenerate",
            "inconclusive",
            "no evidence",
            id="too little text to tell",
        ),
        pytest.param({}, "accepted-per-request", "held", "6 samples", id="accepted"),
        pytest.param(
            {"generations": generations(*[1.0] * 6)}, "accepted-per-request", "refuted", "mean 1.00", id="useless draft"
        ),
        pytest.param(
            {"generations": generations(3.0)},
            "accepted-per-request",
            "inconclusive",
            "1 of at least 3",
            id="one request",
        ),
        pytest.param(
            {"generations": generations(1.0, 1.4, 1.0)}, "accepted-per-request", "inconclusive", "interval", id="open"
        ),
        pytest.param(
            {"generations": generations(*[1.5] * 6)},
            "figures-agree",
            "refuted",
            "log 3.20, our requests 1.50",
            id="apart",
        ),
        pytest.param(
            {"journal": journal(booted(accept=0))},
            "figures-agree",
            "inconclusive",
            "no accept length",
            id="the log has none",
        ),
    ],
)
def test_answers_and_acceptance(changes: dict[str, Any], claim: str, outcome: Outcome, reason: str) -> None:
    verdict = verdicts(evidence(**changes))[claim]
    assert (verdict.outcome, reason in verdict.reason) == (outcome, True), verdict.reason


@pytest.mark.parametrize(
    ("accept", "outcome"),
    [
        pytest.param(3.2, "held", id="accepted"),
        pytest.param(1.0, "refuted", id="nothing accepted"),
        pytest.param(0.0, "refuted", id="no figures in decode records"),
    ],
)
def test_the_log_tells_whether_speculation_is_active(accept: float, outcome: Outcome) -> None:
    assert verdicts(evidence(journal=journal(booted(accept=accept))))["speculation-active"].outcome == outcome


OFF: dict[str, Any] = {"arguments": {"model_path": "/m", "tp_size": 4}}
OFF_SHOWN = {**EFFECTIVE, "speculative_algorithm": None}


def test_a_service_without_speculation_is_held_by_what_shows_that_there_is_none() -> None:
    quiet = evidence(server_info=OFF_SHOWN, journal=journal(booted(OFF_SHOWN, drafts=(), accept=0)), generations=[])
    assert refuted(quiet, **OFF) == {}


def test_speculation_that_nobody_asked_for_is_refuted() -> None:
    found = refuted(evidence(), **OFF)
    assert found["speculative-algorithm"] == "refuted"
    assert found["speculation-off"] == "refuted"


@pytest.mark.parametrize(
    ("generation", "lengths"),
    [
        pytest.param({"tokens": 256, "verify_calls": 51}, [5.0], id="the first token comes from prefill"),
        pytest.param({"tokens": 256, "verify_calls": 255}, [1.0], id="nothing accepted"),
        pytest.param({"tokens": 256, "verify_calls": 0}, [], id="no verify call"),
        pytest.param({"tokens": 256, "verify_calls": None}, [], id="no figure"),
        pytest.param({"tokens": 1, "verify_calls": 1}, [], id="prefill alone"),
        pytest.param({"tokens": None, "verify_calls": 9}, [], id="no answer"),
        pytest.param({}, [], id="nothing"),
    ],
)
def test_accept_lengths(generation: dict[str, Any], lengths: list[float]) -> None:
    assert accept_lengths([generation]) == lengths


def test_the_same_evidence_gives_the_same_facts() -> None:
    first, second = evidence(), evidence()
    assert common_facts(asked(), first) == common_facts(asked(), second)
    assert ENGINE.facts(asked(), first) == ENGINE.facts(asked(), second)


def test_facts_can_be_stored() -> None:
    for fact in facts(evidence()).values():
        assert type(fact).model_validate(json.loads(json.dumps(fact.as_json()))) == fact


def test_claims_name_metrics_that_the_facts_know() -> None:
    known = facts(evidence())
    assert [c.name for c in ENGINE.derive(asked()) if c.metric not in known] == []
    assert [c.name for c in ENGINE.derive(asked(arguments=ASKED | {"tp_size": 1})) if c.metric not in known] == []
