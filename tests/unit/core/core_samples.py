"""Small values of the core, for tests: a service with one unit file and two GPUs, before and after."""

from collections.abc import Sequence
from typing import Any

from state.canonical import sha256_hex
from state.claims import Claim, Doubt, Outcome, Plane, Verdict
from state.events import (
    ActionFailed,
    ActionStarted,
    BaselineRecorded,
    ErrorFacts,
    Event,
    EvidenceFrozen,
    EvidenceGathered,
    EvidenceItem,
    HoldAnswered,
    HoldOpened,
    Judged,
    LeaseReleased,
    LeaseTaken,
    PlanMade,
    PreflightPassed,
    ReadinessReached,
    RolloutConcluded,
    RolloutRequested,
    SoakPassed,
    StepSucceeded,
)
from state.hold import Answer
from state.manifest.model import HostSpec
from state.observation import Observation, ObservedFile, ObservedGpu, ObservedUnit
from state.plan import Plan, restart_reason, steps_between
from state.plan_text import describe
from state.revision import FileContent, Policy, Revision
from state.target import Target

UNIT = "sglang.service"
PATH = f"/etc/systemd/system/{UNIT}"
GPUS = ("0000:01:00.0", "0000:11:00.0")
PORT = 30000
NEW_ARGV = ("/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/m", "--tp", "4")
OLD_ARGV = (*NEW_ARGV[:-1], "2")
HOSTS = {"serving": HostSpec(address="llm.example", user="interlock")}


def revision(**changes: Any) -> Revision:
    given: dict[str, Any] = {
        "service": "qwen",
        "unit": UNIT,
        "unit_host": "serving",
        "files": (FileContent(path=PATH, content="new\n"),),
        "argv": NEW_ARGV,
        "user": "sglang",
        "engine": "sglang",
        "endpoint": f"http://127.0.0.1:{PORT}",
        "arguments": {"model_path": "/m", "tp_size": 4},
        "drivers": dict.fromkeys(GPUS, "nvidia"),
        "gpu_host": "serving",
    }
    return Revision(**(given | changes))


def unit(**changes: Any) -> ObservedUnit:
    given = {"name": UNIT, "load_state": "loaded", "active_state": "active", "main_pid": 100, "fragment": PATH}
    return ObservedUnit(**(given | changes))


def file(content: str | None, **changes: Any) -> ObservedFile:
    digest = None if content is None else sha256_hex(content.encode())
    given = {"path": PATH, "digest": digest, "mode": 0o644, "owner": "root", "group": "root"}
    return ObservedFile(**(given | changes))


def gpus(*drivers: str | None) -> tuple[ObservedGpu, ...]:
    return tuple(ObservedGpu(address=a, present=True, driver=d) for a, d in zip(GPUS, drivers, strict=True))


def observation(**changes: Any) -> Observation:
    """What fits `revision()` but for what is changed."""
    given: dict[str, Any] = {
        "unit": unit(),
        "files": (file("new\n"),),
        "argv": NEW_ARGV,
        "gpus": gpus("nvidia", "nvidia"),
    }
    return Observation(**(given | changes))


OLD = observation(files=(file("old\n"),), argv=OLD_ARGV, gpus=gpus("vfio-pci", "nvidia"))
"""Another file, other arguments and a GPU on another driver: every kind of step is needed."""


def claim(**changes: Any) -> Claim:
    given: dict[str, Any] = {
        "name": "answers",
        "plane": "function",
        "statement": "it answers",
        "metric": "m",
        "relation": "equals",
        "expected": 1,
        "source": "our requests",
        "remedy": "mend it",
    }
    return Claim(**(given | changes))


def target(**changes: Any) -> Target:
    given: dict[str, Any] = {
        "engine": "sglang",
        "unit": UNIT,
        "unit_host": "serving",
        "endpoint": f"http://127.0.0.1:{PORT}",
        "argv": NEW_ARGV,
        "arguments": {"model_path": "/m", "tp_size": 4},
    }
    return Target(**(given | changes))


def plan(desired: Revision | None = None, observed: Observation = OLD, **changes: Any) -> Plan:
    desired = desired or revision()
    steps = steps_between(desired, observed, PORT)
    given: dict[str, Any] = {
        "service": desired.service,
        "revision": desired.digest,
        "observed": observed.digest,
        "steps": steps,
        "changes": describe(steps, restart_reason(desired, observed)),
        "unchanged": "" if steps else "nothing differs",
        "target": target(),
        "claims": (claim(),),
        "previous": target(argv=OLD_ARGV),
        "previous_claims": (claim(),),
        "previous_good": True,
    }
    return Plan(**(given | changes))


def requested(purpose: str = "rollout", **policy: Any) -> RolloutRequested:
    return RolloutRequested.model_validate(
        {
            "rollout": "r1",
            "service": "qwen",
            "purpose": purpose,
            "revision": revision(policy=Policy(**policy)),
            "hosts": HOSTS,
            "actor": "someone",
            "reason": "a test",
        }
    )


def verdict(outcome: Outcome, *, more: bool = False, plane: Plane = "function") -> Verdict:
    return Verdict(
        claim="c", plane=plane, statement="s", outcome=outcome, reason="because", remedy="mend it", more=more
    )


def failure(code: str = "step-failed", *, retryable: bool = False, exit_code: int = 1) -> ErrorFacts:
    return ErrorFacts(code=code, message=f"{code} happened", retryable=retryable, exit_code=exit_code)


ITEM = EvidenceItem(digest="0" * 64, media_type="text/plain", size=1)


def fact(
    key: str,
    *,
    made: Plan | None = None,
    outcome: Outcome = "held",
    more: bool = False,
    good: bool = True,
    answer: Answer = "promote",
    doubt: Doubt | None = None,
) -> Event:
    """The event with which the action of this key succeeds."""
    common: dict[str, Any] = {"action": key, "attempt": 1}
    kind, _, rest = key.partition(":")
    first, _, last = rest.partition(":")
    match kind:
        case "plan":
            made = made or plan()
            return PlanMade(**common, plan=made, digest=made.digest)
        case "lease":
            return LeaseTaken(**common, holder="h", until="2030-01-01T00:00:00+00:00", fencing={"serving": 1})
        case "preflight":
            return PreflightPassed(**common, checks=("ok",))
        case "baseline":
            return BaselineRecorded(**common, good=good, summary="it runs")
        case "do" | "undo":
            return StepSucceeded(**common, step=int(first), direction=kind)
        case "await-readiness":
            return ReadinessReached(**common, side=rest, seconds=1.0, stages=(("ready", 1.0),))
        case "verify":
            return EvidenceGathered(**common, side=first, round=int(last), items={"journal": ITEM})
        case "judge":
            verdicts = (verdict(outcome, more=more).model_copy(update={"doubt": doubt}),)
            return Judged(**common, side=first, round=int(last), outcome=outcome, verdicts=verdicts)
        case "open-hold":
            return HoldOpened(
                **common,
                question="?",
                open=(),
                deadline="2030-01-01T00:00:00+00:00",
                default="rollback",
                may_answer="all",
            )
        case "hold":
            return HoldAnswered(**common, answer=answer, actor="ada", reason="so")
        case "soak":
            return SoakPassed(**common, seconds=1.0)
        case "freeze":
            return EvidenceFrozen(**common, items={})
        case "conclude":
            return RolloutConcluded(**common, outcome=rest, summary="s", exit_code=0)
        case "release":
            return LeaseReleased(**common)
    raise ValueError(key)


def done(*keys: str, **how: Any) -> list[Event]:
    """Each action started and succeeded."""
    return [event for key in keys for event in (ActionStarted(action=key, attempt=1), fact(key, **how))]


def failed(key: str, error: ErrorFacts | None = None, *, attempts: int = 1) -> list[Event]:
    error = error or failure()
    return [
        event
        for n in range(1, attempts + 1)
        for event in (ActionStarted(action=key, attempt=n), ActionFailed(action=key, attempt=n, error=error))
    ]


def started(key: str, attempt: int = 1) -> list[Event]:
    return [ActionStarted(action=key, attempt=attempt)]


STEPS: Sequence[str] = ("stage-files", "arm-timer", "stop-service", "rebind-gpus", "install-files", "start-service")
DO = tuple(f"do:{i}:{kind}" for i, kind in enumerate(STEPS))
UNDO = tuple(f"undo:{i}:{kind}" for i, kind in enumerate(STEPS))
OPENING = ("plan", "lease:0", "preflight", "baseline")
PROOF = ("await-readiness:new", "verify:new:1", "judge:new:1")
OLD_PROOF = ("await-readiness:old", "verify:old:1", "judge:old:1")
