"""What a rollout does next: a pure function of its history.

Forward: plan, lease, preflight, baseline, the plan's steps, readiness, verification, a question to a person where the
proof stays open and the policy says so, a soak if asked, promotion. The first action that fails for good, a refuted or
undecided claim, an answer that says so, or a cancellation turns it backward: freeze the
evidence, undo every step that was started, newest first, prove the old revision by its own claims, take down the
guards. Each way is a list of keys; the next action is the first that is not done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from state import action as actions
from state.action import Action
from state.claims import Doubt
from state.events import Ending, ErrorFacts, Judged, Side
from state.hold import policy_for, told
from state.rollout import UNSEEN, Rollout, Trouble
from state.sampling import ROUNDS, another
from state.steps import Step

ATTEMPTS = 3
"""Attempts an action gets while its errors are retryable; a policy may say otherwise (`policy.attempts`)."""


def next_action(rollout: Rollout) -> Action | None:
    """The one action that the history asks for; None when the rollout has ended. The same history, the same action."""
    if rollout.requested is None or rollout.ended:
        return None
    action = _wanted(rollout)
    if action and action.kind in ("conclude", "release") and rollout.failed(action.key, attempt_limit(rollout)):
        return None  # it cannot be said or given back now; the next session tries again
    return action


def _wanted(rollout: Rollout) -> Action | None:
    if rollout.concluded:
        return actions.release()
    rollout = with_trouble(rollout)
    if rollout.trouble:
        return _backward(rollout, rollout.trouble)
    return next((a for a in forward(rollout) if a.key not in rollout.done and not _dispensable(rollout, a)), None)


def _dispensable(rollout: Rollout, action: Action) -> bool:
    """Evidence that cannot be frozen is missed, but turns no proven revision back."""
    return action.kind == "freeze" and rollout.failed(action.key, attempt_limit(rollout)) is not None


def with_trouble(rollout: Rollout) -> Rollout:
    """The rollout with its first cause, if there is one: what failed on the way forward, else what interrupted it."""
    cause = _failure(rollout) or rollout.trouble or _lost_lease(rollout)
    return replace(rollout, trouble=cause)


def _failure(rollout: Rollout) -> Trouble | None:
    for action in _way(rollout):
        error = rollout.failed(action.key, attempt_limit(rollout))
        if error and (action.kind not in ("conclude", "freeze") or error.code in _NO_LONGER_OURS):
            return Trouble(action.key, error)
        if action.key not in rollout.done and not (error and action.kind == "freeze"):
            return None
        if action.kind == "judge" and (doubt := _doubt(rollout, action)):
            return Trouble(action.key, doubt)
        if action.kind == "hold" and (refusal := _refusal(rollout)):
            return Trouble(action.key, refusal)
    return None


_NO_LONGER_OURS = ("host-reverted", "fenced-out")
"""Errors that turn back even a promotion that was begun; after any other it can only be gone on with, since the guards
that a way back needs may be down by then."""


def _lost_lease(rollout: Rollout) -> Trouble | None:
    """A lease that met the timer's mark, in whatever session, since the mark is written over by the next; else the
    newest session's own that cannot be had."""
    for key, error in rollout.failures.items():
        if key.startswith("lease:") and error.code in UNSEEN:
            return Trouble(key, error)
    key = actions.lease(str(rollout.session)).key
    failed = rollout.failed(key, attempt_limit(rollout)) if rollout.session else None
    return Trouble(key, failed) if failed else None


def attempt_limit(rollout: Rollout) -> int:
    return rollout.requested.revision.policy.attempts if rollout.requested else ATTEMPTS


def forward(rollout: Rollout) -> Iterator[Action]:
    """The way forward as far as the history lets it be known; a new session takes the lease anew first."""
    if rollout.session and rollout.leased:
        yield actions.lease(str(rollout.session))
    yield from _way(rollout)


def _way(rollout: Rollout) -> Iterator[Action]:
    yield actions.plan()
    plan = rollout.plan
    if plan is None:
        return
    if rollout.requested and rollout.requested.purpose == "verify":
        yield from _proving(rollout, "verified")
        return
    if plan.unchanged:
        yield actions.conclude("unchanged")
        return
    yield actions.lease("0")
    yield actions.preflight()
    yield actions.baseline()
    for index, step in enumerate(plan.steps):
        yield actions.step(index, step.kind, "do")
    if plan.starts:
        yield actions.await_readiness("new")
    yield from _proving(rollout, "promoted")


def _proving(rollout: Rollout, ending: Ending) -> Iterator[Action]:
    for round_ in range(1, ROUNDS + 1):
        yield actions.verify("new", round_)
        yield actions.judging("new", round_)
        if not _again(rollout, "new", round_):
            break
    asked = ending == "promoted" and _policy(rollout, rollout.judged.get(f"new:{round_}")) == "hold"
    if asked:
        yield actions.open_hold()
        yield actions.hold()
    if ending == "promoted" and (asked or _soak_s(rollout) > 0):
        yield actions.soak()  # after a hold even of no seconds: what was judged may have ended while a person thought
    yield actions.freeze()
    yield actions.conclude(ending)


def _again(rollout: Rollout, side: Side, round_: int) -> bool:
    """Whether another round could decide, after what this one and those before it took."""
    key = f"{side}:{round_}"
    judged = rollout.judged.get(key)
    return judged is not None and another(judged.verdicts, round_, rollout.spent.get(key, 0.0))


def _soak_s(rollout: Rollout) -> float:
    return rollout.requested.revision.policy.soak_s if rollout.requested else 0.0


def _policy(rollout: Rollout, judged: Judged | None) -> Doubt | None:
    """What follows from an open judgement; None for one that is not. A verification changes nothing and asks nobody; a
    rollback that a person asked for is not held up by a question, whose default would bring back what they left."""
    if judged is None or judged.outcome != "inconclusive" or rollout.requested is None:
        return None
    found = policy_for(judged.verdicts, rollout.requested.revision.policy.inconclusive)
    unasked: dict[str, Doubt] = {"verify": "rollback", "rollback": "accept"}
    return unasked.get(rollout.requested.purpose, found) if found == "hold" else found


def _doubt(rollout: Rollout, action: Action) -> ErrorFacts | None:
    """Why a judgement turns the rollout back: refuted, or still open after its last round under policy `rollback`."""
    judged = rollout.judged.get(f"{action.side}:{action.round}")
    if judged is None or judged.outcome == "held" or _again(rollout, action.side, action.round):
        return None
    return None if _policy(rollout, judged) in ("hold", "accept") else _not_held(judged)


def _not_held(judged: Judged) -> ErrorFacts:
    code = f"claim-{judged.outcome}"
    named = [v for v in judged.verdicts if v.outcome == judged.outcome]
    if not named:
        return ErrorFacts(code=code, message="there was no claim to judge, and no evidence is no proof")
    first = named[0]
    rest = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
    return ErrorFacts(code=code, message=f"{first.claim} {judged.outcome}: {first.reason}{rest}", hint=first.remedy)


def _refusal(rollout: Rollout) -> ErrorFacts | None:
    """Why the answer to the hold turns the rollout back, if it does."""
    answered, judged = rollout.answer, [j for j in rollout.judged.values() if j.side == "new"]
    if answered is None or answered.answer != "rollback" or not judged:
        return None
    left = _not_held(judged[-1])
    return left.model_copy(update={"message": f"{left.message}; {told(answered)}"})


def _backward(rollout: Rollout, trouble: Trouble) -> Action:
    if _superseded(rollout):
        return actions.conclude("superseded")
    if rollout.requested and rollout.requested.purpose == "verify":
        return actions.conclude("unproven" if trouble.action.startswith("judge") else _ending(rollout))
    for action in backward(rollout):
        error = rollout.failed(action.key, attempt_limit(rollout))
        if error and action.kind != "freeze" and not _left_stuck(rollout, action):
            return actions.conclude("stranded")
        if action.kind == "judge" and _unproven(rollout, action):
            return actions.conclude("stranded")
        if action.key not in rollout.done and not error:
            return action
    return actions.conclude(_ending(rollout))


def _left_stuck(rollout: Rollout, action: Action) -> bool:
    error = rollout.failed(action.key, attempt_limit(rollout))
    return error is not None and error.code == "unbind-stuck"


def backward(rollout: Rollout) -> Iterator[Action]:
    """Compensation newest first, over every step that was started; then the old revision's proof; then the guards."""
    begun = tuple(reversed(begun_steps(rollout)))
    outage = [(i, s) for i, s in begun if s.role == "outage"]
    renewed = actions.lease(str(rollout.session))
    if rollout.session and rollout.leased and begun and not _found_reverted(rollout, renewed):
        yield renewed
    if begun and _reverted(rollout):
        yield actions.lease("reverted")
    if outage or (begun and _reverted(rollout)):  # the host's timer restarts the service, whoever stopped it
        yield actions.freeze()
        for index, step in outage:
            yield actions.step(index, step.kind, "undo")
        if rollout.baseline is not None and rollout.baseline.good:
            yield from _proving_old(rollout)
    for index, step in begun:
        if step.role == "guard":
            yield actions.step(index, step.kind, "undo")


def begun_steps(rollout: Rollout) -> tuple[tuple[int, Step], ...]:
    """The steps whose intent is recorded, with their index in the plan. They count as possibly done."""
    steps = rollout.plan.steps if rollout.plan else ()
    return tuple((i, s) for i, s in enumerate(steps) if rollout.started(f"do:{i}:{s.kind}"))


def _proving_old(rollout: Rollout) -> Iterator[Action]:
    if rollout.plan and rollout.plan.starts:
        yield actions.await_readiness("old")
    for round_ in range(1, ROUNDS + 1):
        yield actions.verify("old", round_)
        yield actions.judging("old", round_)
        if not _again(rollout, "old", round_):
            return


def _unproven(rollout: Rollout, action: Action) -> bool:
    """Whether the old revision failed its proof: anything refuted, or who it is and what it does left open."""
    judged = rollout.judged.get(f"{action.side}:{action.round}")
    if judged is None or judged.outcome == "held" or _again(rollout, action.side, action.round):
        return False
    essential = [v for v in judged.verdicts if v.plane in ("identity", "control", "function")]
    refuted = [v for v in judged.verdicts if v.outcome == "refuted"]
    lost = [v for v in refuted if v.claim != "gpu-drivers" or not _only_in_quarantine(rollout, judged)]
    return bool(lost) or any(v.outcome != "held" for v in essential) or not essential


def _only_in_quarantine(rollout: Rollout, judged: Judged) -> bool:
    """Whether every device that is not on its old driver is in quarantine, which keeps it out of later plans."""
    wanted = rollout.plan.previous.drivers if rollout.plan and rollout.plan.previous else {}
    found = next((fact.value for fact in judged.facts if fact.metric == "gpu.drivers"), None)
    if not isinstance(found, Mapping):
        return False
    return {address for address, driver in wanted.items() if found.get(address) != driver} <= rollout.quarantined.keys()


def _reverted(rollout: Rollout) -> bool:
    """A host was changed by its own timer, or unseen by this history: the lease is taken anew before anything is
    undone."""
    return rollout.started("lease:reverted") or any(e.code in UNSEEN for e in rollout.failures.values())


def _found_reverted(rollout: Rollout, lease: Action) -> bool:
    """Whether taking the lease anew met such a mark: `lease:reverted`, asked for knowingly, writes over it."""
    error = rollout.failures.get(lease.key)
    return error is not None and error.code in UNSEEN


def _superseded(rollout: Rollout) -> bool:
    """Somebody else's fencing number is on the host, or the lease is no longer ours: nothing more may be touched."""
    lost = [e for key, e in rollout.failures.items() if key.startswith("lease:") and key != "lease:0"]
    return any(e.code == "fenced-out" for e in rollout.failures.values()) or any(e.code == "lease-held" for e in lost)


def _ending(rollout: Rollout) -> Ending:
    """The ending of a rollout that left, or put back, everything as it was."""
    begun = begun_steps(rollout)
    if any(s.role == "outage" for _, s in begun) or (begun and _reverted(rollout)):
        return "rolled-back"
    if rollout.trouble and rollout.trouble.error.code == "cancelled":
        return "cancelled"
    return "aborted" if begun else "refused"
