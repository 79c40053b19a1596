"""What a rollout does next, given what its history says."""

from collections.abc import Sequence

import pytest
from core_samples import (
    DO,
    OLD_PROOF,
    OPENING,
    PROOF,
    STEPS,
    UNDO,
    done,
    fact,
    failed,
    failure,
    observation,
    plan,
    requested,
    started,
)

from state.events import ActionStarted, CancelRequested, Event, LeaseTaken, RolloutResumed
from state.next_action import next_action, with_trouble
from state.rollout import RESTORINGS, fold

BEGIN: list[Event] = [requested()]
OPENED = [*BEGIN, *done(*OPENING)]
INSTALLED = [*OPENED, *done(*DO)]
GUARDED = [*OPENED, *done(*DO[:2])]
STOPPED = [*OPENED, *done(*DO[:3])]
READY = [*INSTALLED, *done("await-readiness:new", "verify:new:1")]
REFUTED = [*READY, *done("judge:new:1", outcome="refuted")]
UNDONE = tuple(reversed(UNDO[2:]))
GUARDS_DOWN = tuple(reversed(UNDO[:2]))
LOST = failure("host-unreachable", retryable=True, exit_code=3)
REVERTED = failure("host-reverted")
CANCEL = CancelRequested(actor="a person")


def resumed(session: int = 1) -> list[Event]:
    return [RolloutResumed(session=session, actor="another")]


def leased(key: str, *reverted: str) -> list[Event]:
    taken = LeaseTaken(
        action=key, attempt=1, holder="h", until="2030-01-01T00:00:00+00:00", fencing={}, reverted=reverted
    )
    return [*started(key), taken]


def reverted_each_time(times: int) -> list[Event]:
    """An undo step that met the timer's mark, and met it again under each lease that was taken then."""
    taken = "lease:reverted"
    again = [
        [ActionStarted(action=taken, attempt=n), leased(taken, "serving")[-1], *failed(UNDO[5], REVERTED)]
        for n in range(1, times + 1)
    ]
    return [*failed(UNDO[5], REVERTED), *(event for each in again for event in each)]


def asked_for(history: Sequence[Event]) -> str | None:
    action = next_action(fold(history))
    return action.key if action else None


NO_CHANGE = plan(observed=observation())
WAY = (*OPENING, *DO, *PROOF, "freeze", "conclude:promoted", "release")


@pytest.mark.parametrize("count", range(len(WAY) + 1), ids=[f"then {key}" for key in WAY] + ["then nothing"])
def test_the_way_forward_in_its_order(count: int) -> None:
    history = [*BEGIN, *done(*WAY[:count])]
    assert asked_for(history) == (WAY[count] if count < len(WAY) else None)


WAY_BACK = ("freeze", *UNDONE, *OLD_PROOF, *GUARDS_DOWN, "conclude:rolled-back", "release")


@pytest.mark.parametrize("count", range(len(WAY_BACK) + 1), ids=[f"then {key}" for key in WAY_BACK] + ["then nothing"])
def test_the_way_back_in_its_order(count: int) -> None:
    history = [*REFUTED, *done(*WAY_BACK[:count])]
    assert asked_for(history) == (WAY_BACK[count] if count < len(WAY_BACK) else None)


def case(name: str, history: Sequence[Event], expected: str | None) -> object:
    return pytest.param(history, expected, id=name)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        case("no request, no action", [], None),
        case("an intent without its fact is done again", [*BEGIN, *started("plan")], "plan"),
        case("a retryable failure is tried again", [*BEGIN, *failed("plan", LOST, attempts=2)], "plan"),
        case("attempts run out", [*BEGIN, *failed("plan", LOST, attempts=3)], "conclude:refused"),
        case("an error that is not retryable ends it at once", [*BEGIN, *failed("plan")], "conclude:refused"),
        case(
            "a policy of five attempts gives five",
            [requested(attempts=5), *failed("plan", LOST, attempts=4)],
            "plan",
        ),
        case(
            "an attempt that died with its orchestrator is made again, whatever the one before it said",
            [*BEGIN, *failed("plan", LOST, attempts=2), *started("plan", 3), *resumed()],
            "plan",
        ),
        case(
            "and when it fails after that, attempts have run out",
            [
                *BEGIN,
                *failed("plan", LOST, attempts=2),
                *started("plan", 3),
                *resumed(),
                *failed("plan", LOST, attempts=4)[-2:],
            ],
            "conclude:refused",
        ),
        case("a plan without changes costs no lease", [*BEGIN, *done("plan", made=NO_CHANGE)], "conclude:unchanged"),
        case("and ends there", [*BEGIN, *done("plan", made=NO_CHANGE), *done("conclude:unchanged")], None),
        case(
            "a held lease refuses",
            [*BEGIN, *done("plan"), *failed("lease:0", failure("lease-held"))],
            "conclude:refused",
        ),
        case(
            "a refused preflight touched nothing",
            [*BEGIN, *done("plan", "lease:0"), *failed("preflight")],
            "conclude:refused",
        ),
        case(
            "and gives the lease back",
            [*BEGIN, *done("plan", "lease:0"), *failed("preflight"), *done("conclude:refused")],
            "release",
        ),
        case("staging that failed is discarded", [*OPENED, *failed(DO[0])], UNDO[0]),
        case("a failed timer is taken down first", [*OPENED, *done(DO[0]), *failed(DO[1])], UNDO[1]),
        case("guards alone: aborted", [*OPENED, *failed(DO[0]), *done(UNDO[0])], "conclude:aborted"),
        case("a failed stop is undone, evidence first", [*GUARDED, *failed(DO[2])], "freeze"),
        case("a stop that only began is undone", [*GUARDED, *started(DO[2]), CANCEL, *done("freeze")], UNDO[2]),
        case(
            "evidence that cannot be frozen holds up no rollback",
            [*GUARDED, *failed(DO[2]), *failed("freeze")],
            UNDO[2],
        ),
        case("an engine that does not come up is rolled back", [*INSTALLED, *failed("await-readiness:new")], "freeze"),
        case("evidence that cannot be gathered rolls back", [*INSTALLED, *done(PROOF[0]), *failed(PROOF[1])], "freeze"),
        case("refuted: back", REFUTED, "freeze"),
        case("open without more to come: back", [*READY, *done(PROOF[2], outcome="inconclusive")], "freeze"),
        case(
            "open while more samples may decide: another round",
            [*READY, *done(PROOF[2], outcome="inconclusive", more=True)],
            "verify:new:2",
        ),
        case(
            "refuted with something still open: no other round",
            [*READY, *done(PROOF[2], outcome="refuted", more=True)],
            "freeze",
        ),
        case(
            "the second round is judged by itself",
            [*READY, *done(PROOF[2], outcome="inconclusive", more=True), *done("verify:new:2")],
            "judge:new:2",
        ),
        case(
            "held in the second round",
            [
                *READY,
                *done(PROOF[2], outcome="inconclusive", more=True),
                *done("verify:new:2", "judge:new:2", "freeze"),
            ],
            "conclude:promoted",
        ),
        case("cancelled before the plan", [*BEGIN, CANCEL], "conclude:cancelled"),
        case("cancelled with the lease taken", [*BEGIN, *done("plan", "lease:0"), CANCEL], "conclude:cancelled"),
        case(
            "a lease whose taking was cut off is given back",
            [*BEGIN, *done("plan"), *started("lease:0"), CANCEL, *done("conclude:cancelled")],
            "release",
        ),
        case("cancelled with guards up takes them down", [*GUARDED, CANCEL], UNDO[1]),
        case("cancelled before the stop: no rollback", [*GUARDED, CANCEL, *done(*GUARDS_DOWN)], "conclude:cancelled"),
        case("cancelled after the stop rolls back", [*STOPPED, CANCEL], "freeze"),
        case(
            "cancelled after the stop ends rolled back",
            [*STOPPED, CANCEL, *done("freeze", UNDO[2], *OLD_PROOF, *GUARDS_DOWN)],
            "conclude:rolled-back",
        ),
        case(
            "cancelled while it is being promoted: the promotion stands",
            [*READY, *done(PROOF[2], "freeze"), *started("conclude:promoted"), CANCEL],
            "conclude:promoted",
        ),
        case("a new session takes the lease anew", [*STOPPED, *resumed()], "lease:1"),
        case("and goes on where the old one was", [*STOPPED, *resumed(), *done("lease:1")], DO[3]),
        case("a second new session again", [*STOPPED, *resumed(), *done("lease:1"), *resumed(2)], "lease:2"),
        case("a new session before any lease asks for the first", [*BEGIN, *done("plan"), *resumed()], "lease:0"),
        case("a new session on the way back takes it too", [*REFUTED, *done("freeze"), *resumed()], "lease:1"),
        case("and goes on undoing", [*REFUTED, *done("freeze"), *resumed(), *done("lease:1")], UNDO[5]),
        case(
            "a new session that must only say how it ended needs no lease",
            [*BEGIN, *done("plan", "lease:0"), *failed("preflight"), *resumed()],
            "conclude:refused",
        ),
        case(
            "a host out of reach for the new session, with nothing begun, strands nobody",
            [*OPENED, *resumed(), *failed("lease:1", LOST, attempts=3)],
            "conclude:refused",
        ),
        case(
            "a host out of reach for the new session, with the service stopped: stranded",
            [*STOPPED, *resumed(), *failed("lease:1", LOST, attempts=3)],
            "conclude:stranded",
        ),
        case(
            "the host's own timer acted while nobody drove",
            [*INSTALLED, *resumed(), *leased("lease:1", "serving")],
            "freeze",
        ),
        case(
            "a step that meets the timer's mark asks for the lease anew",
            [*STOPPED, *failed(DO[3], REVERTED)],
            "lease:reverted",
        ),
        case("and then undoes", [*STOPPED, *failed(DO[3], REVERTED), *leased("lease:reverted", "serving")], "freeze"),
        case(
            "also when the mark had been written over before the crash",
            [*STOPPED, *failed(DO[3], REVERTED), *leased("lease:reverted")],
            "freeze",
        ),
        case(
            "an undo step that meets the mark is done again under the new lease",
            [*REFUTED, *done("freeze"), *failed(UNDO[5], REVERTED), *leased("lease:reverted", "serving")],
            UNDO[5],
        ),
        case(
            "but not for ever, where a host is changed under each way back",
            [*REFUTED, *done("freeze"), *reverted_each_time(RESTORINGS)],
            "conclude:stranded",
        ),
        case(
            "and once more before that",
            [*REFUTED, *done("freeze"), *reverted_each_time(RESTORINGS - 1)],
            "lease:reverted",
        ),
        case(
            "a lease that meets the mark asks again, knowingly",
            [*STOPPED, *resumed(), *failed("lease:1", REVERTED)],
            "lease:reverted",
        ),
        case(
            "and stays turned back when the session that wrote over it died",
            [
                *STOPPED,
                *resumed(),
                *failed("lease:1", REVERTED),
                *started("lease:reverted"),
                *resumed(2),
                *done("lease:2"),
            ],
            "lease:reverted",
        ),
        case(
            "another's fencing number ends it", [*STOPPED, *failed(DO[3], failure("fenced-out"))], "conclude:superseded"
        ),
        case(
            "another's number met by the undo ends it",
            [*REFUTED, *done("freeze"), *failed(UNDO[5], failure("fenced-out"))],
            "conclude:superseded",
        ),
        case(
            "a lease that another has by now ends it",
            [*STOPPED, *resumed(), *failed("lease:1", failure("lease-held"))],
            "conclude:superseded",
        ),
        case(
            "superseded touches nothing and gives back what is left",
            [*STOPPED, *failed(DO[3], failure("fenced-out")), *done("conclude:superseded")],
            "release",
        ),
        case("an undo that fails strands", [*REFUTED, *done("freeze"), *failed(UNDO[5])], "conclude:stranded"),
        case(
            "an old revision that does not come up strands",
            [*REFUTED, *done("freeze", *UNDONE), *failed("await-readiness:old")],
            "conclude:stranded",
        ),
        case(
            "an old revision that is refuted strands",
            [*REFUTED, *done("freeze", *UNDONE, *OLD_PROOF[:2]), *done(OLD_PROOF[2], outcome="refuted")],
            "conclude:stranded",
        ),
        case(
            "an old revision of unknown function strands",
            [*REFUTED, *done("freeze", *UNDONE, *OLD_PROOF[:2]), *done(OLD_PROOF[2], outcome="inconclusive")],
            "conclude:stranded",
        ),
        case(
            "an old revision gets its other rounds too",
            [
                *REFUTED,
                *done("freeze", *UNDONE, *OLD_PROOF[:2]),
                *done(OLD_PROOF[2], outcome="inconclusive", more=True),
            ],
            "verify:old:2",
        ),
        case(
            "stranded keeps the lease",
            [*REFUTED, *done("freeze"), *failed(UNDO[5]), *done("conclude:stranded")],
            None,
        ),
        case(
            "a conclusion that cannot be recorded is left to the next session",
            [*REFUTED, *done(*WAY_BACK[:-2]), *failed("conclude:rolled-back", LOST, attempts=3)],
            None,
        ),
        case(
            "which takes the lease anew",
            [*REFUTED, *done(*WAY_BACK[:-2]), *failed("conclude:rolled-back", LOST, attempts=3), *resumed()],
            "lease:1",
        ),
        case(
            "and tries again",
            [
                *REFUTED,
                *done(*WAY_BACK[:-2]),
                *failed("conclude:rolled-back", LOST, attempts=3),
                *resumed(),
                *done("lease:1"),
            ],
            "conclude:rolled-back",
        ),
        case(
            "a promotion that cannot be finished is not turned back",
            [*READY, *done(PROOF[2], "freeze"), *failed("conclude:promoted", LOST, attempts=3)],
            None,
        ),
        case(
            "unless the host has turned it back itself",
            [*READY, *done(PROOF[2], "freeze"), *failed("conclude:promoted", REVERTED)],
            "lease:reverted",
        ),
        case(
            "a lease that cannot be given back is left to the next session",
            [*REFUTED, *done(*WAY_BACK[:-1]), *failed("release", LOST, attempts=3)],
            None,
        ),
        case(
            "which gives it back",
            [*REFUTED, *done(*WAY_BACK[:-1]), *failed("release", LOST, attempts=3), *resumed()],
            "release",
        ),
    ],
)
def test_given_a_history_then(history: Sequence[Event], expected: str | None) -> None:
    assert asked_for(history) == expected


OPEN = [*done(*OPENING, *DO, *PROOF[:2]), *done(PROOF[2], outcome="inconclusive")]
HELD = [requested(inconclusive="hold"), *OPEN]
ASKED = [*HELD, *done("open-hold"), *started("hold")]
ANSWERED = fact("hold", answer="promote")
REFUSED = fact("hold", answer="rollback")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("rollback", ("freeze", UNDO[5]), id="rollback"),
        pytest.param("hold", ("open-hold", "hold", "soak", "freeze", "conclude:promoted"), id="hold asks a person"),
        pytest.param("accept", ("freeze", "conclude:promoted"), id="accept goes on, evidence first"),
    ],
)
def test_what_stays_open_is_for_the_policy(policy: str, expected: Sequence[str]) -> None:
    history = [requested(inconclusive=policy), *OPEN]
    for key in expected:
        assert asked_for(history) == key
        history += done(key)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        case("the question is put once", [*HELD, *done("open-hold"), *resumed(), *done("lease:1")], "hold"),
        case("a wait that was cut off goes on", [*ASKED, *resumed(), *done("lease:1")], "hold"),
        case("before anything else the lease is taken anew", [*ASKED, *resumed()], "lease:1"),
        case("an answer ends the wait, before the wait was begun too", [*HELD, *done("open-hold"), ANSWERED], "soak"),
        case("promote: the same start has to last", [*ASKED, ANSWERED], "soak"),
        case("and is rolled back if it does not", [*ASKED, ANSWERED, *failed("soak"), *done("freeze")], UNDO[5]),
        case("rollback: evidence first", [*ASKED, REFUSED], "freeze"),
        case("then the way back", [*ASKED, REFUSED, *done("freeze")], UNDO[5]),
        case("a cancellation is as good as an answer", [*ASKED, CANCEL], "freeze"),
        case("and stands against an answer after it", [*ASKED, CANCEL, ANSWERED, *done("freeze")], UNDO[5]),
        case("a host that reverted meanwhile", [*ASKED, *resumed(), *leased("lease:1", "serving")], "freeze"),
        case("a promotion is concluded once", [*ASKED, ANSWERED, *done("soak", "freeze")], "conclude:promoted"),
        case(
            "a claim's own policy is stricter than the rollout's",
            [requested(inconclusive="accept"), *OPEN[:-1], fact(PROOF[2], outcome="inconclusive", doubt="hold")],
            "open-hold",
        ),
        case(
            "or milder",
            [requested(), *OPEN[:-1], fact(PROOF[2], outcome="inconclusive", doubt="accept"), *done("freeze")],
            "conclude:promoted",
        ),
        case(
            "nobody is asked about a rollback that a person asked for: no answer would bring back what they left",
            [requested("rollback", inconclusive="hold"), *OPEN, *done("freeze")],
            "conclude:promoted",
        ),
        case(
            "nobody is asked while more samples may decide",
            [requested(inconclusive="hold"), *OPEN[:-1], fact(PROOF[2], outcome="inconclusive", more=True)],
            "verify:new:2",
        ),
        case(
            "nobody is asked about what is refuted",
            [requested(inconclusive="hold"), *OPEN[:-1], fact(PROOF[2], outcome="refuted", doubt="accept")],
            "freeze",
        ),
    ],
)
def test_a_person_is_asked(history: Sequence[Event], expected: str) -> None:
    assert asked_for(history) == expected


def test_the_answer_is_told_beside_what_stayed_open() -> None:
    trouble = with_trouble(fold([*ASKED, REFUSED])).trouble
    assert trouble is not None
    assert (trouble.action, trouble.error.code) == ("hold", "claim-inconclusive")
    assert trouble.error.message == "c inconclusive: because; ada answered rollback: so"


def test_accept_does_not_accept_a_refuted_claim() -> None:
    history = [requested(inconclusive="accept"), *done(*OPENING, *DO, *PROOF[:2]), *done(PROOF[2], outcome="refuted")]
    assert asked_for([*history, *done("freeze")]) == UNDO[5]


def test_rounds_are_bounded() -> None:
    history = [*INSTALLED, *done("await-readiness:new")]
    for round_ in (1, 2, 3):
        assert asked_for(history) == f"verify:new:{round_}"
        history += [*done(f"verify:new:{round_}"), *done(f"judge:new:{round_}", outcome="inconclusive", more=True)]
    assert asked_for(history) == "freeze"
    assert asked_for([*history, *done("freeze")]) == UNDO[5]


def test_a_judgement_of_no_claims_proves_nothing() -> None:
    empty = fact("judge:new:1", outcome="inconclusive").model_copy(update={"verdicts": ()})
    rollout = fold([*READY, *started("judge:new:1"), empty])
    assert with_trouble(rollout).trouble is not None
    assert asked_for([*READY, *started("judge:new:1"), empty, *done("freeze")]) == UNDO[5]


@pytest.mark.parametrize(
    ("history", "cause"),
    [
        pytest.param([*REFUTED, CANCEL], "judge:new:1", id="a cancellation during the rollback"),
        pytest.param([*REFUTED, *done("freeze"), *failed(UNDO[5])], "judge:new:1", id="a failure in the undo"),
        pytest.param(
            [*STOPPED, *failed(DO[3]), *resumed(), *leased("lease:1", "serving")],
            DO[3],
            id="a timer that fired after it",
        ),
        pytest.param(
            [*STOPPED, *failed(DO[3]), *resumed(), *failed("lease:1", LOST, attempts=3)],
            DO[3],
            id="a lease lost after it",
        ),
        pytest.param([*STOPPED, CANCEL, *failed("freeze")], "cancel", id="a freeze that fails after the cancellation"),
    ],
)
def test_what_failed_first_stays_the_cause_despite(history: Sequence[Event], cause: str) -> None:
    trouble = with_trouble(fold(history)).trouble
    assert trouble is not None
    assert trouble.action == cause


VERIFY: list[Event] = [requested("verify")]
LOOKED = [*VERIFY, *done("plan", made=plan().model_copy(update={"steps": (), "changes": ()}))]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        case("first a look", VERIFY, "plan"),
        case("no lease, no preflight, no step", LOOKED, "verify:new:1"),
        case("even where nothing differs", [*VERIFY, *done("plan", made=NO_CHANGE)], "verify:new:1"),
        case("held: verified", [*LOOKED, *done(*PROOF[1:], "freeze")], "conclude:verified"),
        case("refuted: unproven", [*LOOKED, *done(PROOF[1]), *done(PROOF[2], outcome="refuted")], "conclude:unproven"),
        case(
            "open: unproven", [*LOOKED, *done(PROOF[1]), *done(PROOF[2], outcome="inconclusive")], "conclude:unproven"
        ),
        case(
            "open: nobody is asked, since nothing was changed",
            [
                requested("verify", inconclusive="hold"),
                *LOOKED[1:],
                *done(PROOF[1]),
                *done(PROOF[2], outcome="inconclusive"),
            ],
            "conclude:unproven",
        ),
        case("unreachable: refused", [*VERIFY, *failed("plan", LOST, attempts=3)], "conclude:refused"),
        case("cancelled", [*LOOKED, CANCEL], "conclude:cancelled"),
        case("nothing to release", [*LOOKED, *done(*PROOF[1:], "freeze", "conclude:verified")], None),
        case("a new session needs no lease", [*LOOKED, *resumed()], "verify:new:1"),
    ],
)
def test_a_verification_changes_nothing(history: Sequence[Event], expected: str | None) -> None:
    assert asked_for(history) == expected


def test_without_a_good_baseline_there_is_nothing_to_prove_of_the_old() -> None:
    history = [*BEGIN, *done(*OPENING[:3]), *done("baseline", good=False), *done(*DO[:3]), *failed(DO[3])]
    assert asked_for([*history, *done("freeze", UNDO[3], UNDO[2])]) == UNDO[1]


def test_samples_have_every_kind_of_step_in_order() -> None:
    assert tuple(step.kind for step in plan().steps) == tuple(STEPS)


def test_a_soak_comes_between_proof_and_promotion_where_it_is_asked_for() -> None:
    begin = [requested(soak_s=120.0), *done(*OPENING, *DO, *PROOF)]
    assert asked_for(begin) == "soak"
    assert asked_for([*begin, *done("soak")]) == "freeze"
    assert asked_for([*begin, *failed("soak")]) == "freeze"  # evidence first, then the way back
    assert asked_for([*begin, *failed("soak"), *done("freeze")]) == UNDO[5]


def test_a_soak_comes_after_a_doubt_that_was_accepted() -> None:
    accepted = [requested(soak_s=120.0, inconclusive="accept"), *OPEN]
    assert asked_for(accepted) == "soak"
    held = [requested(soak_s=120.0, inconclusive="hold"), *OPEN, *done("open-hold", "hold")]
    assert asked_for(held) == "soak"
    assert asked_for([*held, *done("soak")]) == "freeze"
