"""A proof that stays open under policy `hold`: a person is asked, from any process; the hosts are kept meanwhile."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from flows import requests
from flows.history import History
from flows.hold import answer_hold, asking
from flows.ports import Ports
from flows.session import begin, recover, resume
from state.errors import LeaseHeld, Refused, StoreUnavailable, TakenOver, UsageInvalid
from state.events import HoldAnswered, HoldOpened, decode
from state.hold import Answer
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import EventStore, NewEvent, RecordedEvent
from tests.flows.rehearsal import Fuse, Killed, MortalStore, Rehearsal, rehearsal
from tests.flows.test_recover import newest
from tests.flows.test_refusals import until_recorded
from tests.practice.virtual_time import in_virtual_time

CLOSE = [{"claim": "accept-length", "at_least": 3.4, "within": "1s"}]
"""The simulated engine accepts 3.40 in the mean, so that no number of samples decides it."""

DEADLINE_S = 7200.0
HOLD = {"inconclusive": "hold", "timer": "60s"}


@asynccontextmanager
async def holding(stage: Rehearsal, **policy: Any) -> AsyncIterator["asyncio.Task[Rollout]"]:
    """A rollout that asks; ended when the block is left, whatever the test has made of it."""
    driven = asyncio.create_task(stage.roll_out(claims=CLOSE, policy=HOLD | policy))
    await until_recorded(stage, "action-started", "hold")
    try:
        yield driven
    finally:
        driven.cancel()
        await asyncio.gather(driven, return_exceptions=True)


async def answered(stage: Rehearsal, answer: Answer, actor: str = "ada", reason: str = "seen it") -> HoldAnswered:
    return await answer_hold(stage.ports(actor), await newest(stage), answer, actor, reason)


async def told(stage: Rehearsal) -> tuple[list[HoldOpened], list[HoldAnswered]]:
    events = [decode(e) for e in await stage.store.read(f"rollout-{await newest(stage)}")]
    return [e for e in events if isinstance(e, HoldOpened)], [e for e in events if isinstance(e, HoldAnswered)]


def ending(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


@in_virtual_time
async def test_the_question_names_what_is_open_until_when_and_what_follows() -> None:
    async with rehearsal() as stage, holding(stage):
        ((opened,), given) = await told(stage)
        assert given == []
        assert [v.claim for v in opened.open] == ["accept-length"]
        assert "samples" in opened.open[0].reason
        assert opened.question.endswith("open stayed accept-length: promote, or roll back?")
        assert (opened.default, opened.may_answer) == ("rollback", "whoever can write to this event store")
        left = datetime.fromisoformat(opened.deadline) - stage.ports().now()
        assert timedelta(seconds=DEADLINE_S - 10) < left < timedelta(seconds=DEADLINE_S)
        assert asking(await History(stage.ports(), await newest(stage)).load()) == opened


@in_virtual_time
async def test_answered_promote_it_is_promoted_with_its_doubt_in_the_record() -> None:
    async with rehearsal() as stage, holding(stage) as driven:
        await answered(stage, "promote")
        ended = await driven
        outcome, summary = ending(ended)
        assert outcome == "promoted"
        assert "accept-length stayed open: mean 3." in summary
        assert summary.endswith("; ada answered promote: seen it")
        assert "soak" in ended.done, "the start that was judged is seen once more"
        assert "--speculative-algorithm" in (await stage.state()).argv


@in_virtual_time
async def test_answered_rollback_the_old_state_is_back() -> None:
    async with rehearsal() as stage:
        before = await stage.state()
        async with holding(stage) as driven:
            await answered(stage, "rollback", reason="not on a Friday")
            outcome, summary = ending(await driven)
            assert outcome == "rolled-back"
            assert "accept-length inconclusive" in summary
            assert "ada answered rollback: not on a Friday. The old state is back" in summary
            assert await stage.state() == before


@pytest.mark.parametrize(
    ("default", "outcome", "word"),
    [
        pytest.param({}, "rolled-back", "rollback", id="rollback-unless-said-otherwise"),
        pytest.param({"default": "accept"}, "promoted", "promote", id="accept"),
    ],
)
def test_with_no_answer_the_default_counts_at_the_deadline(default: dict[str, str], outcome: str, word: str) -> None:
    """Two hours, with a timer of 60 s: the hosts and the leases are kept all the while."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            async with holding(stage, hold={"deadline": "2h", **default}) as driven:
                asked_at = asyncio.get_running_loop().time()
                ended = await driven
                assert ending(ended)[0] == outcome
                assert f"nobody answered until {ended.hold.deadline}, so the answer is {word}" in ending(ended)[1]  # type: ignore[union-attr]  # it held
                assert DEADLINE_S - 2 < asyncio.get_running_loop().time() - asked_at < DEADLINE_S + 120
                assert "host-reverted" not in {error.code for error in ended.failures.values()}
            ((_,), (given,)) = await told(stage)
            assert given.actor == "deadline"

    run()


@in_virtual_time
async def test_timers_and_leases_are_renewed_while_a_person_thinks() -> None:
    async with rehearsal() as stage, holding(stage) as driven:
        kept = await stage.state()
        await asyncio.sleep(3600)  # sixty times what the hosts' timers wait
        assert await stage.state() == kept
        with pytest.raises(LeaseHeld, match="is held by first"):
            await recover(stage.ports("second"), await newest(stage))
        await answered(stage, "promote")
        assert ending(await driven)[0] == "promoted"


@pytest.mark.parametrize("soak", [pytest.param("2m", id="a-soak-of-its-own"), pytest.param("0s", id="no-soak-asked")])
def test_a_soak_comes_after_the_answer(soak: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage, holding(stage, soak=soak) as driven:
            await answered(stage, "promote")
            ended = await driven
            keys = list(ended.done)
            assert keys.index("hold") < keys.index("soak") < keys.index("conclude:promoted")

    run()


@in_virtual_time
async def test_a_service_that_died_while_a_person_thought_is_not_promoted() -> None:
    async with rehearsal() as stage:
        before = await stage.state()
        async with holding(stage) as driven:
            await stage._run("systemctl", "kill", "--signal=SIGKILL", "--", "sglang-qwen.service")
            await asyncio.sleep(60)
            await answered(stage, "promote")
            assert ending(await driven)[0] == "rolled-back"
            assert await stage.state() == before


@in_virtual_time
async def test_cancelled_while_it_asks_it_goes_back_and_takes_no_answer_any_more() -> None:
    async with rehearsal() as stage:
        before = await stage.state()
        async with holding(stage) as driven:
            driven.cancel()
            await asyncio.sleep(0.001)
            await until_recorded(stage, "cancel-requested")
            with pytest.raises(Refused, match="asks nothing: it is on its way back: cancelled by first"):
                await answered(stage, "promote")
            await asyncio.gather(driven, return_exceptions=True)
        ended = await History(stage.ports(), await newest(stage)).load()
        assert ending(ended) == ("rolled-back", ended.concluded.summary)  # type: ignore[union-attr]  # it has ended
        assert ended.concluded.exit_code == 130  # type: ignore[union-attr]
        assert await stage.state() == before
        with pytest.raises(Refused, match="asks nothing: it has ended, rolled-back"):
            await answered(stage, "promote")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [pytest.param("promote", "promoted", id="promote"), pytest.param("rollback", "rolled-back", id="rollback")],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_it_asks_the_next_session_goes_on_with_the_same_question(
    answer: Answer, outcome: str, when: str
) -> None:
    """Whether the answer comes while nobody drives it, or once somebody does again."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            await killed_while_asking(stage)
            ((opened,), _) = await told(stage)
            await asyncio.sleep(30)
            if when == "before":
                await answered(stage, answer)
            going = asyncio.create_task(stage.recover())
            if when == "after":
                await until_recorded(stage, "lease-taken", "lease:1")
                await asyncio.sleep(600)
                assert not going.done()
                await answered(stage, answer)
            assert ending(await going)[0] == outcome
            assert await told(stage) == ([opened], [(await told(stage))[1][0]])

    run()


@dataclass
class OnceItAsks(Fuse):
    """Kills the orchestrator right after its intent to wait, and ever after."""

    store: MortalStore | None = None

    def moment(self) -> None:
        assert self.store is not None
        newest_event = self.store._log[-1].recorded(0)
        if self.passed or (newest_event.type, newest_event.data.get("action")) == ("action-started", "hold"):
            self.passed = 1
            raise Killed


async def killed_while_asking(stage: Rehearsal) -> None:
    stage.fuse = OnceItAsks(store=stage.store)
    with pytest.raises(Killed):
        await stage.roll_out(claims=CLOSE, policy=HOLD)
    stage.fuse = stage.store.fuse = Fuse()


@dataclass
class Meddled:
    """A store in which somebody else is quicker, once: `meddle` runs right before an append that `at` recognises."""

    inner: EventStore
    at: Callable[[NewEvent], bool]
    meddle: Callable[[], Awaitable[object]]
    done: bool = False

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        if not self.done and any(map(self.at, events)):
            self.done = True
            await self.meddle()
        return await self.inner.append(stream, expected_version, events)

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        return await self.inner.read(stream, after_version)

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        return await self.inner.read_last(stream, count)

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return await self.inner.read_all(after_position, limit)

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await self.inner.streams(prefix)

    async def unfinished(self) -> tuple[str, ...]:
        return await self.inner.unfinished()


def meddled(stage: Rehearsal, at: Callable[[NewEvent], bool], meddle: Callable[[], Awaitable[object]]) -> Ports:
    return replace(stage.ports(), events=Meddled(stage.store, at, meddle))


async def driven_by(stage: Rehearsal, ports: Ports) -> Rollout:
    manifest = load_manifest(stage.scene.manifest(claims=CLOSE, policy=HOLD), "manifest.yaml")
    return await begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))


def intent_to_wait(event: NewEvent) -> bool:
    return (event.type, event.data.get("action")) == ("action-started", "hold")


def any_answer(event: NewEvent) -> bool:
    return event.type == "hold-answered"


@pytest.mark.parametrize(
    "at", [pytest.param(intent_to_wait, id="before-the-wait"), pytest.param(any_answer, id="at-the-deadline")]
)
def test_an_answer_that_comes_between_two_appends_is_no_taking_over(at: Callable[[NewEvent], bool]) -> None:
    """At the deadline the person was first: the answer counts, and the default is not recorded."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:

            async def ada_answers() -> None:
                given = HoldAnswered(action="hold", attempt=1, answer="promote", actor="ada", reason="just in time")
                await (await loaded(stage)).record(given)

            ended = await driven_by(stage, meddled(stage, at, ada_answers))
            assert ending(ended)[0] == "promoted"
            ((_,), given) = await told(stage)
            assert [g.actor for g in given] == ["ada"]

    run()


@in_virtual_time
async def test_an_answer_that_comes_while_a_session_takes_over_is_heard_by_it() -> None:
    async with rehearsal() as stage:
        await killed_while_asking(stage)
        ports = meddled(stage, lambda event: event.type == "rollout-resumed", lambda: answered(stage, "promote"))
        assert ending(await resume(ports, await newest(stage)))[0] == "promoted"


@in_virtual_time
async def test_another_session_that_takes_over_ends_the_wait() -> None:
    async with rehearsal() as stage, holding(stage) as driven:
        second = asyncio.create_task(resume(stage.ports("second"), await newest(stage)))
        with pytest.raises(TakenOver):
            await driven
        await answered(stage, "promote")
        assert ending(await second)[0] == "promoted"


@in_virtual_time
async def test_of_two_answers_the_first_counts_and_the_second_is_told_so() -> None:
    async with rehearsal() as stage, holding(stage) as driven:
        both = await asyncio.gather(
            answered(stage, "promote"), answered(stage, "rollback", actor="bob"), return_exceptions=True
        )
        assert isinstance(both[0], HoldAnswered)
        assert isinstance(both[1], Refused)
        assert re.search("has its answer already: ada answered promote: seen it", str(both[1]))
        assert ending(await driven)[0] == "promoted"
        with pytest.raises(Refused, match="has its answer already: ada answered promote"):
            await answered(stage, "rollback")


@in_virtual_time
async def test_an_answer_after_the_deadline_is_refused_even_while_nobody_drives() -> None:
    async with rehearsal() as stage:
        await killed_while_asking(stage)
        await asyncio.sleep(DEADLINE_S)
        with pytest.raises(
            Refused, match=r"could be answered until \S+; the answer is the default, rollback"
        ) as refused:
            await answered(stage, "promote")
        assert refused.value.exit_code == 3
        assert ending(await stage.recover())[0] == "rolled-back"


@in_virtual_time
async def test_a_rollout_that_asks_nothing_takes_no_answer() -> None:
    async with rehearsal() as stage:
        driven = asyncio.create_task(stage.roll_out(policy=HOLD))
        await until_recorded(stage, "action-started", "await-readiness:new")
        with pytest.raises(Refused, match="asks nothing: it is at `await-readiness`"):
            await answered(stage, "promote")
        assert ending(await driven)[0] == "promoted"
        with pytest.raises(Refused, match="asks nothing: it has ended, promoted"):
            await answered(stage, "rollback")


@in_virtual_time
async def test_a_store_that_is_away_for_a_while_ends_no_wait() -> None:
    async with rehearsal() as stage:

        @dataclass
        class Flaky(Meddled):
            async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
                if after_version and 60 < asyncio.get_running_loop().time() < 600:
                    raise StoreUnavailable("no route to host")
                return await self.inner.read(stream, after_version)

        driven = asyncio.create_task(
            driven_by(stage, replace(stage.ports(), events=Flaky(stage.store, any_answer, noted)))
        )
        await until_recorded(stage, "action-started", "hold")
        await asyncio.sleep(900)
        await answered(stage, "promote")
        assert ending(await driven)[0] == "promoted"


async def noted() -> None:
    """Nobody is quicker."""


async def loaded(stage: Rehearsal) -> History:
    history = History(stage.ports("ada"), await newest(stage))
    await history.load()
    return history


def test_an_answer_without_a_reason_is_refused() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            with pytest.raises(UsageInvalid, match="An answer needs its reason"):
                await answer_hold(stage.ports("ada"), "any", "promote", "ada", "  ")

    run()
