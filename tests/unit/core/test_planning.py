"""Making a plan: from the wanted revision, what was observed, what is installed and what was proven before."""

from typing import Any

import pytest
from core_samples import GPUS, NEW_ARGV, OLD, OLD_ARGV, PORT, gpus, observation, revision, target, unit

from state.claims import Claim
from state.engines.sglang.claims import derive, hybrid, ranks, speculative
from state.engines.sglang.verification import ENGINE
from state.errors import Refused
from state.manifest.claim_specs import (
    AcceptLengthSpec,
    AnswersSpec,
    ClaimSpec,
    FirstTokenSpec,
    GoodputSpec,
    InterTokenSpec,
    ThroughputSpec,
)
from state.observation import Observation
from state.plan import Plan
from state.planning import Installed, make_plan, previous_target
from state.revision import Revision
from state.stated_claims import MINIMUM_REQUESTS, manifest_claims
from state.traffic import Traffic

INSTALLED = Installed("0.5.23", {"/m": ("Qwen3_5MoeForConditionalGeneration",)})


DOWN = OLD.model_copy(update={"unit": unit(active_state="inactive"), "argv": None})


def made(observed: Observation = OLD, proven: Revision | None = None, **changes: Any) -> Plan:
    return make_plan(revision(**changes), observed, ENGINE, INSTALLED, proven, PORT)


def test_a_plan_names_what_it_is_about() -> None:
    plan = made()
    assert (plan.service, plan.revision, plan.observed) == ("qwen", revision().digest, OLD.digest)
    assert plan.target.engine_version == "0.5.23"
    assert plan.target.architectures == ("Qwen3_5MoeForConditionalGeneration",)
    assert len(plan.changes) == len(plan.steps) == 6
    assert plan.gpus == (GPUS[0],)
    assert plan.unchanged == ""


def test_an_empty_plan_says_why() -> None:
    plan = made(observation())
    assert plan.steps == plan.changes == plan.gpus == ()
    assert plan.unchanged == (
        "1 file read as wanted, sglang.service is active with the revision's arguments, 2 GPUs are on their drivers"
    )


def test_claims_come_from_the_target_and_the_manifest() -> None:
    plan = made(claims=(AcceptLengthSpec(at_least=2.0),))
    assert plan.claims[: len(derive(plan.target))] == derive(plan.target)
    assert plan.claims[-1].name == "accept-length"


def test_a_stated_level_needs_its_sample() -> None:
    (claim,) = manifest_claims([AcceptLengthSpec(at_least=2.0, confidence=0.9, within=60.0)])
    assert (claim.relation, claim.expected, claim.confidence, claim.deadline_s) == ("at-least", 2.0, 0.9, 60.0)
    assert claim.minimum_sample == MINIMUM_REQUESTS


def test_a_change_is_refused_where_nothing_runs_to_compare_with() -> None:
    stated = (ThroughputSpec(at_least="+12%"), ThroughputSpec(at_least=900.0, concurrency=(8,)))
    with pytest.raises(Refused, match=r"^throughput-change-1: nothing to compare with, since .* is inactive"):
        made(DOWN, claims=stated)
    assert made(DOWN, claims=stated[1:]).claims[-1].name == "throughput-8"
    accepted = (stated[0].model_copy(update={"inconclusive": "accept"}),)
    assert made(DOWN, claims=accepted).claims[-1].doubt == "accept"


def test_a_change_of_acceptance_is_refused_where_nothing_is_accepted_before() -> None:
    stated = (AcceptLengthSpec(at_least="-5%"),)
    with pytest.raises(
        Refused, match=r"^accept-length-change: nothing to compare with, since the running service does"
    ):
        made(observation(argv=OLD_ARGV), claims=stated)
    accepted = (stated[0].model_copy(update={"inconclusive": "accept"}),)
    assert made(observation(argv=OLD_ARGV), claims=accepted).claims[-1].doubt == "accept"


STATED = [
    pytest.param(
        ThroughputSpec(at_least="+12%", concurrency=(1, 8)),
        [
            ("throughput-change-1", "load.throughput.1", "change", "at-least", 0.12),
            ("throughput-change-8", "load.throughput.8", "change", "at-least", 0.12),
        ],
        id="a-gain-at-two-levels",
    ),
    pytest.param(
        ThroughputSpec(at_least=900.0), [("throughput-1", "load.throughput.1", "mean", "at-least", 900.0)], id="a-speed"
    ),
    pytest.param(
        FirstTokenSpec(at_most="+10%", concurrency=(8,)),
        [("time-to-first-token-change-8", "load.first_token.8", "change", "at-most", 0.1)],
        id="a-first-token-no-later",
    ),
    pytest.param(
        InterTokenSpec(at_most=0.05),
        [("inter-token-latency-1", "load.inter_token.1", "mean", "at-most", 0.05)],
        id="a-bound-between-tokens",
    ),
    pytest.param(
        GoodputSpec(at_least=0.95, first_token=2.0, inter_token=0.05, concurrency=(8,)),
        [("goodput-8", "load.goodput.8", "proportion", "at-least", 0.95)],
        id="goodput",
    ),
    pytest.param(
        AcceptLengthSpec(at_least="-5%"),
        [("accept-length-change", "generations.accept_length", "change", "at-least", -0.05)],
        id="an-accept-length-no-lower",
    ),
    pytest.param(
        AnswersSpec(at_least=0.9, concurrency=(2,)),
        [("answers-2", "quiz.right.2", "proportion", "at-least", 0.9)],
        id="answers-two-at-a-time",
    ),
]


@pytest.mark.parametrize(("spec", "wanted"), STATED)
def test_a_claim_of_the_manifest_is_one_verdict_at_each_level(spec: ClaimSpec, wanted: list[tuple[Any, ...]]) -> None:
    claims = manifest_claims([spec], Traffic(budget_s=90.0))
    assert [(c.name, c.metric, c.estimator, c.relation, c.expected) for c in claims] == wanted
    assert {c.deadline_s for c in claims} == {90.0}, "the budget of the traffic"
    assert all(Claim.model_validate(c.as_json()) == c for c in claims)


def test_the_traffic_is_hashed_into_the_plan() -> None:
    assert made(traffic=Traffic(tokens=64)).digest != made().digest


@pytest.mark.parametrize(
    ("observed", "good"),
    [
        pytest.param(OLD, True, id="something runs"),
        pytest.param(observation(unit=unit(active_state="failed"), argv=None), False, id="nothing runs"),
        pytest.param(observation(argv=("/usr/bin/nginx", "-g", "daemon off;")), False, id="another program runs"),
    ],
)
def test_whether_there_is_an_old_state_to_prove(observed: Observation, good: bool) -> None:
    plan = made(observed)
    assert plan.previous_good is good
    assert (plan.previous is not None) is good
    assert bool(plan.previous_claims) is good


def test_what_runs_is_read_from_its_own_arguments() -> None:
    seen = previous_target(revision(), OLD, INSTALLED, None)
    assert seen is not None
    assert (seen.arguments["tp_size"], seen.managed, seen.argv) == (2, False, OLD_ARGV)
    assert seen.drivers == {GPUS[0]: "vfio-pci", GPUS[1]: "nvidia"}


@pytest.mark.parametrize(
    ("words", "endpoint"),
    [
        pytest.param((), "http://127.0.0.1:30000", id="the engine's own port"),
        pytest.param(("--port", "31000"), "http://127.0.0.1:31000", id="the port it was given"),
    ],
)
def test_what_runs_is_asked_where_it_listens(words: tuple[str, ...], endpoint: str) -> None:
    seen = previous_target(revision(), observation(argv=(*OLD_ARGV, *words)), INSTALLED, None)
    assert seen is not None
    assert seen.endpoint == endpoint


def test_what_was_proven_before_is_known_better_than_by_its_arguments() -> None:
    before = revision(argv=OLD_ARGV, environment={"A": "1"}, arguments={"model_path": "/m", "tp_size": 2})
    seen = previous_target(revision(), OLD, INSTALLED, before)
    assert seen is not None
    assert (seen.managed, seen.environment, seen.argv) == (True, {"A": "1"}, OLD_ARGV)
    assert seen.drivers == {GPUS[0]: "vfio-pci", GPUS[1]: "nvidia"}


def test_what_was_proven_before_says_nothing_of_another_process() -> None:
    seen = previous_target(revision(), OLD, INSTALLED, revision(argv=NEW_ARGV))
    assert seen is not None
    assert seen.managed is False


def test_gpus_without_a_driver_are_not_expected_on_one() -> None:
    seen = previous_target(revision(), OLD.model_copy(update={"gpus": gpus(None, "nvidia")}), INSTALLED, None)
    assert seen is not None
    assert seen.drivers == {GPUS[1]: "nvidia"}


def test_the_same_facts_make_the_same_plan() -> None:
    assert made().digest == made().digest
    assert made(claims=(AcceptLengthSpec(at_least=2.0),)).digest != made().digest


NEXTN = {"model_path": "/m", "tp_size": 4, "speculative_algorithm": "NEXTN", "speculative_num_steps": 5}
HYBRID = ("Qwen3_5MoeForConditionalGeneration",)


def named(**changes: Any) -> dict[str, Claim]:
    return {claim.name: claim for claim in derive(target(**({"arguments": NEXTN, "architectures": HYBRID} | changes)))}


@pytest.mark.parametrize(
    ("changes", "present", "absent"),
    [
        pytest.param(
            {},
            {"draft-weights", "mamba-strategy", "disable-overlap-schedule", "speculation-active"},
            {"speculation-off"},
            id="NEXTN on a hybrid",
        ),
        pytest.param(
            {"architectures": ("LlamaForCausalLM",)}, {"draft-weights"}, {"mamba-strategy"}, id="a model without state"
        ),
        pytest.param(
            {"engine_version": "0.5.10"},
            {"mamba-strategy"},
            {"disable-overlap-schedule"},
            id="overlap is not the rule before 0.5.11",
        ),
        pytest.param(
            {"engine_version": "0.5.10", "environment": {"SGLANG_ENABLE_SPEC_V2": "1"}},
            {"disable-overlap-schedule"},
            set(),
            id="unless it is asked for",
        ),
        pytest.param({"engine_version": "0.5.7"}, {"draft-weights"}, {"mamba-strategy"}, id="no strategy before 0.5.8"),
        pytest.param(
            {"arguments": NEXTN | {"speculative_algorithm": "NGRAM"}},
            {"speculation-active"},
            {"draft-weights", "draft-even"},
            id="n-grams have no draft",
        ),
        pytest.param(
            {"arguments": {"model_path": "/m"}},
            {"speculation-off"},
            {"speculation-active", "draft-weights"},
            id="no speculation",
        ),
        pytest.param({"drivers": {GPUS[0]: "nvidia"}}, {"gpu-drivers"}, set(), id="a driver map"),
        pytest.param(
            {"arguments": NEXTN | {"mem_fraction_static": 0.75}}, {"mem-fraction-static"}, set(), id="a memory fraction"
        ),
        pytest.param(
            {"arguments": NEXTN | {"host": "::", "port": 1}}, set(), {"host", "port"}, id="what the kernel shows better"
        ),
    ],
)
def test_claims_that_follow(changes: dict[str, Any], present: set[str], absent: set[str]) -> None:
    found = named(**changes)
    assert present <= found.keys()
    assert not absent & found.keys()


def test_every_claim_has_a_name_of_its_own_a_statement_and_a_remedy() -> None:
    claims = derive(target(arguments=NEXTN, architectures=HYBRID, drivers={GPUS[0]: "nvidia"}))
    assert len({c.name for c in claims}) == len(claims)
    assert all(c.statement and c.remedy and c.source for c in claims)


def test_no_claim_expects_what_no_evidence_could_show() -> None:
    assert all(c.expected is not None for c in derive(target(arguments=NEXTN, architectures=HYBRID)))


@pytest.mark.parametrize(
    ("asked", "effective"),
    [("NEXTN", "EAGLE"), ("nextn", "EAGLE"), ("EAGLE3", "EAGLE3"), (None, None), ("", None)],
    ids=["alias", "in small letters", "another", "none", "empty"],
)
def test_the_effective_algorithm(asked: str | None, effective: str | None) -> None:
    assert speculative(target(arguments={"speculative_algorithm": asked})) == effective


def test_ranks_are_the_processes_that_load_weights() -> None:
    assert ranks(target(arguments={"tp_size": 4, "pp_size": 2})) == 8
    assert ranks(target(arguments={})) == 1


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [("Qwen3NextForCausalLM", True), ("FalconH1ForCausalLM", True), ("Qwen3ForCausalLM", False)],
    ids=["Qwen3-Next", "Falcon-H1", "Qwen3"],
)
def test_hybrids(architecture: str, expected: bool) -> None:
    assert hybrid(target(architectures=(architecture,))) is expected


@pytest.mark.parametrize(
    ("restarts", "now", "rests"),
    [
        pytest.param(0, {}, True, id="as it was"),
        pytest.param(3, {}, True, id="as it was, though it comes and goes"),
        pytest.param(0, {"argv": OLD_ARGV}, False, id="another start of a service that stays up"),
        pytest.param(3, {"argv": OLD_ARGV}, True, id="between two starts before, running now"),
        pytest.param(3, {"argv": OLD_ARGV, "unit_text": "[Service]"}, False, id="its unit was edited meanwhile"),
        pytest.param(3, {"argv": OLD_ARGV, "gpus": gpus(None, None)}, False, id="a GPU was moved meanwhile"),
    ],
)
def test_what_a_plan_rests_on_is_seen_again(restarts: int, now: dict[str, Any], rests: bool) -> None:
    shown = unit(restarts=restarts)
    planned = observation(unit=shown, argv=None)
    assert observation(**({"unit": shown, "argv": None} | now)).is_as_planned(planned.digest) is rests
