"""What holds of every rollout, however its actions fail, whenever its orchestrators die or are cancelled."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from core_samples import DO, OLD, OLD_PROOF, OPENING, PROOF, UNDO, observation, plan, requested, revision, unit
from core_world import World, model_of, run
from hypothesis import given, settings
from hypothesis import strategies as st

from state.events import Event, RolloutConcluded, RolloutRequested
from state.next_action import next_action
from state.rollout import Rollout, fold

KEYS = (
    *OPENING,
    *DO,
    *PROOF,
    "verify:new:2",
    "judge:new:2",
    "open-hold",
    "hold",
    "soak",
    "freeze",
    "conclude:promoted",
    "release",
)
BACK_KEYS = (*UNDO, *OLD_PROOF[:2], "conclude:rolled-back", "conclude:stranded", "lease:1", "lease:reverted")
DOWN = OLD.model_copy(update={"unit": unit(active_state="inactive"), "argv": None})
STARTS = {
    "running": OLD,
    "down": DOWN,
    "files alike": observation(argv=OLD.argv),
    "new": OLD.model_copy(update={"files": ()}),
}

failing = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["for good", "once", "never ending"]), max_size=2)
failing_back = st.dictionaries(
    st.sampled_from(BACK_KEYS), st.sampled_from(["for good", "once", "never ending"]), max_size=2
)
judging = st.dictionaries(
    st.sampled_from(["judge:new:1", "judge:new:2", "judge:new:3"]),
    st.sampled_from(["refuted", "open", "more"]),
    max_size=2,
)
answering = st.dictionaries(st.just("hold"), st.just("rollback"), max_size=1)


def world(start: str = "running", **how: object) -> World:
    made = plan(observed=STARTS[start], previous_good=start != "down")
    model = model_of(STARTS[start], made)
    return World(plan=made, start=model, model=model, good=start != "down", **how)  # type: ignore[arg-type]  # fields by name


worlds = st.builds(
    lambda start, faults, back, verdicts, answers, late, die_at, cancel_at, revert_at: world(
        start,
        faults={**faults, **back, **verdicts, **answers},
        late=late,
        die_at=frozenset(die_at),
        cancel_at=cancel_at,
        revert_at=revert_at,
    ),
    st.sampled_from(sorted(STARTS)),
    failing,
    failing_back,
    judging,
    answering,
    st.booleans(),
    st.sets(st.integers(1, 120), max_size=3),
    st.none() | st.integers(1, 90),
    st.none() | st.integers(1, 90),
)
policies = st.sampled_from(["rollback", "hold", "accept"])


def steps_of(log: Sequence[str], direction: str) -> list[int]:
    """Indexes of the steps in the order in which they were first tried."""
    return list(dict.fromkeys(int(key.split(":")[1]) for key in log if key.startswith(f"{direction}:")))


def restored(w: World) -> bool:
    return (w.model.files, w.model.drivers, w.model.running) == (w.start.files, w.start.drivers, w.start.running)


def outage(w: World, index: int) -> bool:
    return w.plan.steps[index].role == "outage"


@settings(max_examples=400, deadline=None)
@given(worlds, policies)
def test_whatever_happens(w: World, policy: str) -> None:
    rollout = run(w, requested(inconclusive=policy))
    nothing_open_is_promoted_unanswered(w, rollout, policy)
    the_end_is_said_once(w, rollout)
    what_was_not_begun_is_not_undone(w)
    undoing_goes_newest_first(w)
    the_ending_is_true(w, rollout)
    the_lease_is_given_back(w, rollout)
    folding_again_comes_to_the_same(w.events, rollout)


def the_end_is_said_once(w: World, rollout: Rollout) -> None:
    concluded = [e for e in w.events if e.wire == "rollout-concluded"]
    said = [e.outcome for e in concluded if isinstance(e, RolloutConcluded)]
    assert all(outcome == "stranded" for outcome in said[:-1])  # a session that goes on with a stranded one tries again
    if rollout.concluded is None:  # its own conclusion failed for good, and no other session came
        assert any(rollout.failed(key, 3) for key in rollout.attempts if key.startswith("conclude:"))


def nothing_open_is_promoted_unanswered(w: World, rollout: Rollout, policy: str) -> None:
    new = [judged.outcome for judged in rollout.judged.values() if judged.side == "new"]
    if not rollout.concluded or rollout.concluded.outcome != "promoted":
        return
    assert new[-1] == "held" or policy in ("hold", "accept")
    asked = new[-1] != "held" and policy == "hold"
    assert (rollout.hold is not None) == (rollout.answer is not None) == asked
    if rollout.answer is not None:
        assert rollout.answer.answer == "promote"
        assert w.log.index("hold") < w.log.index("soak") < w.log.index("conclude:promoted")


def what_was_not_begun_is_not_undone(w: World) -> None:
    begun: set[int] = set()
    for key in w.log:
        direction, _, rest = key.partition(":")
        if direction == "do":
            assert not steps_of(w.log[: w.log.index(key)], "undo"), "forward again after the undo began"
            begun.add(int(rest.split(":")[0]))
        elif direction == "undo":
            assert int(rest.split(":")[0]) in begun


def undoing_goes_newest_first(w: World) -> None:
    undone = steps_of(w.log, "undo")
    assert all(a > b for a, b in pairwise(undone))


def the_ending_is_true(w: World, rollout: Rollout) -> None:
    ending = rollout.concluded.outcome if rollout.concluded else None
    begun = steps_of(w.log, "do")
    match ending:
        case "promoted":
            assert w.model.running == w.model.files
            assert w.model.timer is None
            assert not w.model.staged
            assert "judge:new:1" in rollout.done
        case "rolled-back":
            assert restored(w)
            assert w.model.timer is None
            assert not w.model.staged
            assert all(f"undo:{i}:{w.plan.steps[i].kind}" in rollout.done for i in begun)
            assert not w.good or any(key.startswith("judge:old") for key in rollout.done)
        case "aborted" | "cancelled":
            assert restored(w)
            assert not any(outage(w, i) for i in begun)
        case "refused" | "unchanged":
            assert restored(w)
            assert not begun


def the_lease_is_given_back(w: World, rollout: Rollout) -> None:
    ending = rollout.concluded.outcome if rollout.concluded else None
    gave_up = rollout.failed("release", 3) is not None
    if ending is not None and ending != "stranded" and not gave_up:
        assert not w.leased
    if ending == "stranded":
        assert w.leased


def folding_again_comes_to_the_same(events: Sequence[Event], rollout: Rollout) -> None:
    assert fold(events) == rollout
    assert next_action(fold(events)) == next_action(rollout)
    assert next_action(rollout) is None


SCENARIOS = {
    "promoted": ("running", {}),
    "one retry": ("running", {DO[2]: "once", "verify:new:1": "once", UNDO[3]: "once"}),
    "refuted": ("running", {"judge:new:1": "refuted"}),
    "refused": ("running", {"preflight": "for good"}),
    "a guard fails": ("running", {DO[1]: "for good"}),
    "the stop fails": ("running", {DO[2]: "for good"}),
    "GPUs fail": ("running", {DO[3]: "for good"}),
    "the start fails, from nothing": ("down", {DO[4]: "for good"}),
    "undecided twice": ("running", {"judge:new:1": "more", "judge:new:2": "open"}),
    "asked, and promoted": ("running", {"judge:new:1": "open"}),
    "asked, and turned back": ("running", {"judge:new:1": "open", "hold": "rollback"}),
    "stranded": ("running", {"judge:new:1": "refuted", UNDO[4]: "for good"}),
}


def asked(name: str) -> RolloutRequested:
    """Under the policy that the scenario is about."""
    return requested(inconclusive="hold" if name.startswith("asked") else "rollback")


@pytest.mark.parametrize("late", [False, True], ids=["failing before the effect", "failing after it"])
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_killed_at_any_moment_it_comes_to_the_same_end(name: str, late: bool) -> None:
    start, faults = SCENARIOS[name]
    whole = world(start, faults=faults, late=late)
    expected = run(whole, asked(name)).concluded
    assert expected is not None
    for moment in range(1, whole.moments + 1):
        killed = world(start, faults=faults, late=late, die_at=frozenset({moment}))
        ended = run(killed, asked(name))
        assert ended.concluded is not None
        assert (moment, ended.concluded.outcome) == (moment, expected.outcome)
        assert (moment, killed.model, killed.leased) == (moment, whole.model, whole.leased)


@pytest.mark.parametrize("again", range(1, 9))
def test_killed_twice_around_the_timer_it_still_comes_back(again: int) -> None:
    """The host reverts at each moment of the way, and the orchestrator that finds it dies `again` moments later."""
    whole = world()
    run(whole, requested())
    for moment in range(1, whole.moments + 1):
        w = world(revert_at=moment, die_at=frozenset({moment + again}))
        rollout = run(w, requested())
        assert rollout.concluded is not None
        assert rollout.concluded.outcome in ("promoted", "rolled-back", "aborted")
        assert w.model.running == w.model.files, moment
        assert restored(w) or rollout.concluded.outcome == "promoted"
        assert not w.leased


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_cancelled_at_any_moment_it_is_safe(name: str) -> None:
    start, faults = SCENARIOS[name]
    whole = world(start, faults=faults)
    run(whole, asked(name))
    for moment in range(1, whole.moments + 1):
        w = world(start, faults=faults, cancel_at=moment)
        rollout = run(w, asked(name))
        assert rollout.concluded is not None
        the_ending_is_true(w, rollout)
        the_lease_is_given_back(w, rollout)
        if rollout.cancelled and rollout.concluded.outcome == "promoted":
            assert "conclude:promoted" in w.log


def test_the_old_is_proved_before_the_guards_come_down() -> None:
    w = world(faults={"judge:new:1": "refuted"})
    run(w, requested())
    assert w.log.index("judge:old:1") < w.log.index(UNDO[1]) < w.log.index(UNDO[0])


def test_the_evidence_is_frozen_before_anything_is_undone() -> None:
    w = world(faults={"judge:new:1": "refuted"})
    run(w, requested())
    assert w.log.index("freeze") < w.log.index(UNDO[5])


def test_a_revision_with_everything_in_place_is_not_touched() -> None:
    made = plan(revision(), observation())
    model = model_of(observation(), made)
    w = World(plan=made, start=model, model=model)
    rollout = run(w, requested())
    assert rollout.concluded is not None
    assert rollout.concluded.outcome == "unchanged"
    assert w.log == ["plan", "conclude:unchanged"]
