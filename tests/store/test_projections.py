"""Projections are what the events say, however they came to be: step by step, at once, again."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import pytest
from contract.store_fixtures import Ticking
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from state.claims import Claim, Fact
from state.events import (
    ActionFailed,
    ActionStarted,
    DeviceCleared,
    DeviceQuarantined,
    ErrorFacts,
    Event,
    HoldAnswered,
    HoldOpened,
    Judged,
    LeaseTaken,
    PlanMade,
    PreflightPassed,
    RolloutConcluded,
    RolloutRequested,
    encode,
)
from state.manifest.claim_specs import AcceptLengthSpec, ThroughputSpec
from state.plan import Plan
from state.revision import FileContent, Revision
from state.stated_claims import manifest_claims
from state.store.chain import seal
from state.store.connect import Stores, open_stores
from state.store.figures import kept_before
from state.store.port import GENESIS, NewEvent
from state.store.projections import Subjects, catch_up, differences, rebuild, rows
from state.store.read_models import PROJECTIONS
from state.store.tables import acceptance, rollouts, services
from state.target import Target

ERROR = ErrorFacts(code="deadline-exceeded", message="readiness did not end within 600 s")


def revision(service: str = "qwen", text: str = "[Service]\n") -> Revision:
    return Revision(
        service=service,
        unit=f"{service}.service",
        unit_host="gpu-1",
        files=(FileContent(path=f"/etc/systemd/system/{service}.service", content=text),),
        argv=("python", "-m", "sglang.launch_server"),
        user="sglang",
        engine="sglang",
        endpoint="http://127.0.0.1:30000",
    )


def requested(rollout: str, service: str = "qwen", text: str = "[Service]\n") -> RolloutRequested:
    return RolloutRequested(
        rollout=rollout,
        service=service,
        purpose="rollout",
        hosts={},
        revision=revision(service, text),
        actor="ada",
        reason="faster",
    )


def leased() -> LeaseTaken:
    return LeaseTaken(action="lease:0", attempt=1, holder="ada", until="2026-01-01T13:00:00Z", fencing={"gpu-1": 1})


def judged(round_: int, *facts: Fact, outcome: str = "held") -> Judged:
    return Judged(
        action=f"judge:new:{round_}", attempt=1, side="new", round=round_, outcome=outcome, verdicts=(), facts=facts
    )


def concluded(outcome: str, exit_code: int = 0, dark_s: float | None = 41.5) -> RolloutConcluded:
    return RolloutConcluded(
        action=f"conclude:{outcome}",
        attempt=1,
        outcome=outcome,
        summary=f"it is {outcome}",
        exit_code=exit_code,
        dark_s=dark_s,
    )


LENGTH, *GAINS = manifest_claims([AcceptLengthSpec(at_least=2.0), ThroughputSpec(at_least="+12%", concurrency=(1, 8))])


def planned(service: str = "qwen", claims: tuple[Claim, ...] = (LENGTH,)) -> PlanMade:
    target = Target(
        engine="sglang",
        unit=f"{service}.service",
        unit_host="gpu-1",
        endpoint="http://127.0.0.1:1",
        argv=(),
        engine_version="0.5.6",
        arguments={"model_path": "/m", "context_length": 32768},
    )
    plan = Plan(
        service=service,
        revision="a" * 64,
        observed="b" * 64,
        steps=(),
        changes=("restart",),
        target=target,
        claims=claims,
    )
    return PlanMade(action="plan", attempt=1, plan=plan, digest=plan.digest)


ACCEPTED = Fact(metric="requests.accept_length", value=3.21, sample=8, samples=(3.0, 3.2, 3.43))
LOGGED = Fact(metric="log.accept_length", value=2.9, sample=40)
OTHER = ErrorFacts(code="step-failed", message="the unit did not stop")

WHOLE: tuple[Event, ...] = (
    requested("r1"),
    ActionStarted(action="plan", attempt=1),
    planned(),
    leased(),
    PreflightPassed(action="preflight", attempt=1, checks=("host key",), engine_version="0.5.6"),
    ActionFailed(action="await-readiness:new", attempt=1, error=ERROR),
    ActionFailed(action="await-readiness:new", attempt=2, error=OTHER),
    judged(1, LOGGED, outcome="inconclusive"),
    judged(2, LOGGED, ACCEPTED),
    concluded("promoted"),
)

Given = Sequence[tuple[str, Sequence[Event]]]


def folded(given: Given) -> dict[str, dict[tuple[object, ...], dict[str, object]]]:
    """The rows of every projection after stretches of streams, by the pure folds alone."""
    clock, heads, subjects, history = Ticking(), {}, Subjects(), []
    for stream, events in given:
        version, digest = heads.get(stream, (0, GENESIS))
        for sealed in seal(stream, version, digest, [encode(event) for event in events], clock()):
            one = sealed.recorded(len(history) + 1)
            heads[stream] = (one.version, one.digest)
            if one.version == 1:
                subjects.learn(one)
            history.extend(subjects.see([one]))
    return {p.name: {key: dict(row) for key, row in p.fold(history).items()} for p in PROJECTIONS}


def test_a_rollout_is_a_line_that_keeps_its_first_error() -> None:
    (row,) = folded([("rollout-r1", WHOLE)])["rollouts"].values()
    assert {name: row[name] for name in row if not name.endswith("_at")} == {
        "stream": "rollout-r1",
        "rollout": "r1",
        "service": "qwen",
        "purpose": "rollout",
        "revision": revision().digest,
        "actor": "ada",
        "reason": "faster",
        "state": "promoted",
        "action": "plan",
        "verdict": "held",
        "error_code": "deadline-exceeded",
        "error": "readiness did not end within 600 s",
        "summary": "it is promoted",
        "exit_code": 0,
        "dark_s": 41.5,
        "engine_version": "0.5.6",
        "quarantined": None,
        "version": len(WHOLE),
    }


HOLD = HoldOpened(
    action="open-hold",
    attempt=1,
    question="promote?",
    open=(),
    deadline="2026-01-01T14:00:00+00:00",
    default="rollback",
    may_answer="anybody",
)
ASKS = "asks a person until 2026-01-01T14:00:00+00:00, otherwise rollback: promote?"


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param((), ("holding", ASKS), id="asks"),
        pytest.param((ActionStarted(action="hold", attempt=1),), ("holding", ASKS), id="waits"),
        pytest.param(
            (ActionStarted(action="lease:1", attempt=1), leased()),
            ("holding", ASKS),
            id="a-new-session-goes-on-waiting",
        ),
        pytest.param(
            (HoldAnswered(action="hold", attempt=1, answer="promote", actor="ada", reason="well"),),
            ("running", None),
            id="answered",
        ),
        pytest.param((ActionStarted(action="freeze", attempt=1),), ("running", None), id="on-its-way-back"),
        pytest.param((concluded("rolled-back", 1),), ("rolled-back", "it is rolled-back"), id="ended"),
    ],
)
def test_a_rollout_that_asks_is_listed_with_its_question(later: Sequence[Event], expected: tuple[str, str]) -> None:
    (row,) = folded([("rollout-r1", (*WHOLE[:8], HOLD, *later))])["rollouts"].values()
    assert (row["state"], row["summary"]) == expected


@pytest.mark.parametrize(
    ("cleared", "left"),
    [
        pytest.param((), "0000:81:00.0 on pve, 0000:91:00.0 on pve", id="both"),
        pytest.param(("0000:81:00.0",), "0000:91:00.0 on pve", id="one-cleared"),
        pytest.param(("0000:91:00.0", "0000:81:00.0"), None, id="both-cleared"),
    ],
)
def test_a_rollout_names_the_devices_that_nobody_has_cleared(cleared: Sequence[str], left: str | None) -> None:
    kept_out = [
        DeviceQuarantined(action="do:4:rebind-gpus", attempt=1, host="pve", address=address, driver="nvidia")
        for address in ("0000:91:00.0", "0000:81:00.0")
    ]
    well = [DeviceCleared(host="pve", address=address, actor="ada", reason="rebooted") for address in cleared]
    (row,) = folded([("rollout-r1", (*WHOLE[:4], *kept_out, concluded("rolled-back", 1), *well))])["rollouts"].values()
    assert row["quarantined"] == left


@pytest.mark.parametrize(
    ("length", "state"),
    [
        pytest.param(1, "requested", id="asked"),
        pytest.param(3, "planned", id="planned"),
        pytest.param(4, "running", id="with-its-lease"),
        pytest.param(9, "running", id="judged"),
        pytest.param(10, "promoted", id="ended"),
    ],
)
def test_a_rollout_stands_at(length: int, state: str) -> None:
    (row,) = folded([("rollout-r1", WHOLE[:length])])["rollouts"].values()
    assert row["state"] == state


OLD, NEW = revision(text="old").digest, revision(text="new").digest
FIRST = ("rollout-r1", (requested("r1", text="old"), leased(), concluded("promoted")))

SERVICES = {
    "nothing-proven-yet": ([("rollout-r1", (requested("r1"), leased()))], ("r1", "running", None)),
    "promoted-is-proven": ([FIRST], ("r1", "promoted", OLD)),
    "unchanged-is-proven": (
        [("rollout-r1", (requested("r1", text="old"), concluded("unchanged")))],
        ("r1", "unchanged", OLD),
    ),
    "rolled-back-keeps-the-old": (
        [FIRST, ("rollout-r2", (requested("r2", text="new"), leased(), concluded("rolled-back", 1)))],
        ("r2", "rolled-back", OLD),
    ),
    "stranded-shows": (
        [FIRST, ("rollout-r2", (requested("r2", text="new"), leased(), concluded("stranded", 4)))],
        ("r2", "stranded", OLD),
    ),
    "the-next-promoted": (
        [FIRST, ("rollout-r2", (requested("r2", text="new"), leased(), concluded("promoted")))],
        ("r2", "promoted", NEW),
    ),
    "one-that-only-asks-does-not-displace-one-that-runs": (
        [
            ("rollout-r1", (requested("r1", text="old"), leased())),
            ("rollout-r2", (requested("r2", text="new"), concluded("refused", 3))),
        ],
        ("r1", "running", None),
    ),
    "what-ran-is-promoted-after-another-was-refused": (
        [
            ("rollout-r1", (requested("r1", text="old"), leased())),
            ("rollout-r2", (requested("r2", text="new"), concluded("refused", 3))),
            ("rollout-r1", (concluded("promoted"),)),
        ],
        ("r1", "promoted", OLD),
    ),
}


@pytest.mark.parametrize(("given", "then"), [pytest.param(*case, id=claim) for claim, case in SERVICES.items()])
def test_a_service_stands_at(given: Given, then: tuple[str, str, str | None]) -> None:
    row = folded(given)["services"][("qwen",)]
    assert (row["rollout"], row["state"], row["revision"]) == then


def test_acceptance_has_a_point_for_each_judgement_that_knew_and_prefers_our_own_requests() -> None:
    points = folded([("rollout-r1", (*WHOLE[:4], judged(1), *WHOLE[7:9]))])["acceptance"]
    assert [(key, row["metric"], row["accept_length"], row["sample"]) for key, row in points.items()] == [
        (("rollout-r1", "new", 1), "log.accept_length", 2.9, 40),
        (("rollout-r1", "new", 2), "requests.accept_length", 3.21, 3),
    ]


def test_figures_are_kept_by_what_they_are_of_and_with_those_of_the_service_before() -> None:
    measured = Fact(metric="load.throughput.8", value=1.0, samples=(99.0, 101.0), baseline=(79.0, 81.0, 80.0))
    unclaimed = Fact(metric="load.throughput.64", value=1.0, samples=(1.0,))
    events = (*WHOLE[:2], planned(claims=tuple(GAINS)), judged(1, measured, unclaimed), *WHOLE[9:])
    rows_ = folded([("rollout-r1", events)])["figures"]
    of = {"service": "qwen", "engine": "sglang", "engine_version": "0.5.6", "model": "/m", "context_length": 32768}
    nothing = dict.fromkeys(("value", "sample", "baseline", "baseline_sample"))
    assert {key[1]: {n: v for n, v in row.items() if n != "judged_at"} for key, row in rows_.items()} == {
        f"load.throughput.{level}": {
            "stream": "rollout-r1", "metric": f"load.throughput.{level}", **of, "concurrency": level,
            "unit": "tokens/s", **(figures if level == 8 else nothing),
        }
        for level, figures in ((1, nothing), (8, {"value": 100, "sample": 2, "baseline": 80, "baseline_sample": 3}))
    }  # fmt: skip


async def test_the_newest_earlier_figure_of_the_same_kind_is_found(stores: Stores) -> None:
    def measuring(rollout: str, *events: Event, service: str = "qwen") -> tuple[str, Sequence[Event]]:
        return f"rollout-{rollout}", (requested(rollout, service), *events)

    point = judged(1, Fact(metric="load.throughput.8", value=1.0, samples=(1.0, 2.0)))
    gains = planned(claims=tuple(GAINS))
    for stretch in (
        measuring("r1", gains, point),
        measuring("r2", gains, point),
        measuring("r3", planned(), judged(1, ACCEPTED)),
        measuring("r4", gains, point, service="glm"),
        measuring("r5", gains),
        measuring("r6", gains, point),
    ):
        await record(stores, stretch)
    await catch_up(stores.engine, PROJECTIONS)
    found = [await kept_before(stores.engine, f"rollout-r{number}") for number in range(1, 7)]
    assert found == [None, "rollout-r1", None, None, None, "rollout-r2"]


def test_streams_that_are_about_no_rollout_are_passed_over() -> None:
    assert folded([("host-gpu-1", (leased(),))]) == {p.name: {} for p in PROJECTIONS}


STRETCHES = [("rollout-r1", WHOLE[:4]), ("rollout-r2", (requested("r2", "glm"), leased())), ("rollout-r1", WHOLE[4:])]


async def record(stores: Stores, stretch: tuple[str, Sequence[Event]]) -> None:
    stream, events = stretch
    version = len(await stores.events.read(stream))
    await stores.events.append(stream, version, [encode(event) for event in events])


async def tables_of(stores: Stores) -> dict[str, tuple[dict[str, object], ...]]:
    return {p.name: await rows(stores.engine, p.table) for p in PROJECTIONS}


async def test_catching_up_step_by_step_at_once_and_again_give_the_same(stores: Stores) -> None:
    await stores.events.append("host-gpu-1", 0, [NewEvent("lease-held", 1, {})])
    for stretch in STRETCHES:
        await record(stores, stretch)
        await catch_up(stores.engine, PROJECTIONS)
        assert await differences(stores.engine, PROJECTIONS) == ()
    by_steps = await tables_of(stores)
    assert len(by_steps["rollouts"]) == 2
    assert await rebuild(stores.engine, PROJECTIONS) == await catch_up(stores.engine, PROJECTIONS)
    assert await tables_of(stores) == by_steps
    assert [row["state"] for row in await rows(stores.engine, rollouts, service="glm")] == ["running"]


async def test_batches_leave_no_seam(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.store.projections.BATCH", 3)
    for stretch in STRETCHES:
        await record(stores, stretch)
    await catch_up(stores.engine, PROJECTIONS)
    assert [row["state"] for row in await rows(stores.engine, rollouts)] == ["promoted", "running"]
    assert await differences(stores.engine, PROJECTIONS) == ()


async def test_a_row_that_no_event_accounts_for_is_said_and_a_rebuild_mends_it(stores: Stores) -> None:
    for stretch in STRETCHES:
        await record(stores, stretch)
    await catch_up(stores.engine, PROJECTIONS)
    async with stores.engine.begin() as connection:
        await connection.execute(text("UPDATE services SET state = 'fine' WHERE service = 'glm'"))
        await connection.execute(text("DELETE FROM acceptance WHERE round = 1"))
        await connection.execute(text("UPDATE rollouts SET stream = 'rollout-r9' WHERE rollout = 'r2'"))
    assert await differences(stores.engine, PROJECTIONS) == (
        "services glm: state is 'fine', the events say 'running'",
        "rollouts rollout-r2: the events say there is one, the table has none",
        "rollouts rollout-r9: the table has one that no event speaks of",
        "acceptance rollout-r1/new/1: the events say there is one, the table has none",
    )
    await rebuild(stores.engine, PROJECTIONS)
    assert await differences(stores.engine, PROJECTIONS) == ()


async def test_a_projection_that_is_new_has_all_folded_from_the_start(stores: Stores) -> None:
    for stretch in STRETCHES:
        await record(stores, stretch)
    await catch_up(stores.engine, PROJECTIONS[:2])
    assert await rows(stores.engine, acceptance) == ()
    await catch_up(stores.engine, PROJECTIONS)
    assert len(await rows(stores.engine, acceptance)) == 2
    assert await differences(stores.engine, PROJECTIONS) == ()


async def test_two_that_catch_up_at_once_do_not_fold_anything_twice(
    store_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(store_url, now) as one, open_stores(store_url, now) as two:
        for stretch in STRETCHES:
            await record(one, stretch)
            positions = await asyncio.gather(*(catch_up(stores.engine, PROJECTIONS) for stores in (one, two)))
            assert len(set(positions)) == 1
        assert await differences(two.engine, PROJECTIONS) == ()
        assert [row["service"] for row in await rows(one.engine, services)] == ["glm", "qwen"]


MOVES = st.sampled_from((leased(), judged(1, ACCEPTED), concluded("promoted"), concluded("refused", 3), WHOLE[5]))


@given(st.lists(st.tuples(st.sampled_from(("r1", "r2")), MOVES), max_size=12), st.integers(0, 12))
def test_a_fold_that_stops_and_goes_on_is_the_fold(moves: list[tuple[str, Event]], at: int) -> None:
    clock, subjects, history = Ticking(), Subjects(), []
    for rollout in ("r1", "r2"):
        events = [requested(rollout), *(event for name, event in moves if name == rollout)]
        stream = seal(f"rollout-{rollout}", 0, GENESIS, [encode(event) for event in events], clock())
        recorded = [sealed.recorded(len(history) + n) for n, sealed in enumerate(stream)]
        subjects.learn(recorded[0])
        history += subjects.see(recorded)
    for projection in PROJECTIONS:
        whole = projection.fold(history)
        assert projection.fold(history[at:], projection.fold(history[:at])) == whole
        assert all(set(row) == {c.name for c in projection.table.c} for row in whole.values())
