"""A hold on each database: the answer comes over a connection of its own, as from another process."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from flows import hold
from flows.drive import attempt
from flows.history import History, stream_of
from flows.hold import answer_hold
from flows.ports import Ports
from flows.work import Work
from state.action import Action
from state.action import hold as wait
from state.action import open_hold as ask
from state.claims import Verdict
from state.errors import Refused
from state.events import ActionStarted, Event, Judged, RolloutRequested
from state.hold import DEADLINE, Answer
from state.manifest.model import HostSpec
from state.revision import FileContent, Policy, Revision
from state.rollout import Rollout
from state.store.connect import Stores, open_stores
from tasks.hosts.port import Host

OPEN = Verdict(claim="accept-length", plane="speculation", statement="s", outcome="inconclusive", reason="2.1 ± 0.3")


def now() -> datetime:
    return datetime.now(UTC)


def no_host(name: str, _spec: HostSpec) -> Host:
    raise AssertionError(f"a hold reached for {name}")


def ports_on(stores: Stores, holder: str) -> Ports:
    return Ports(events=stores.events, evidence=stores.evidence, open_host=no_host, holder=holder, now=now)


def requested(deadline_s: float) -> RolloutRequested:
    revision = Revision(
        service="qwen",
        unit="qwen.service",
        unit_host="gpu-1",
        files=(FileContent(path="/etc/systemd/system/qwen.service", content="[Service]\n"),),
        argv=("python", "-m", "sglang.launch_server"),
        user="sglang",
        engine="sglang",
        endpoint="http://127.0.0.1:30000",
        policy=Policy(inconclusive="hold", hold_deadline_s=deadline_s),
    )
    return RolloutRequested(
        rollout="r1", service="qwen", purpose="rollout", hosts={}, revision=revision, actor="ada", reason="faster"
    )


async def asking(ports: Ports, deadline_s: float) -> History:
    """A history whose question has just been put."""
    history = History(ports, "r1")
    judged = Judged(action="judge:new:1", attempt=1, side="new", round=1, outcome="inconclusive", verdicts=(OPEN,))
    await history.record(requested(deadline_s), ActionStarted(action="judge:new:1", attempt=1), judged)
    await attempt(history, performing(ports), ask())
    return history


def performing(ports: Ports) -> Callable[[Action, int, Rollout], Any]:
    async def perform(action: Action, number: int, rollout: Rollout) -> Event | None:
        work = Work(ports, {}, action, number, rollout)
        return await (hold.open_hold(work) if action.kind == "open-hold" else hold.await_answer(work))

    return perform


@pytest.mark.parametrize("answer", ["promote", "rollback"])
async def test_an_answer_from_elsewhere_ends_the_wait_and_is_the_only_one(store_url: str, answer: Answer) -> None:
    async with open_stores(store_url, now) as one, open_stores(store_url, now) as two:
        history = await asking(ports_on(one, "driver"), 3600.0)
        waiting = asyncio.create_task(attempt(history, performing(history.ports), wait()))
        await asyncio.sleep(0.1)
        given = await asyncio.gather(
            *(
                answer_hold(ports_on(stores, name), "r1", answer, name, "so")
                for stores, name in ((two, "ada"), (one, "bob"))
            ),
            return_exceptions=True,
        )
        assert await asyncio.wait_for(waiting, 10.0) is None
        (refused,) = [end for end in given if isinstance(end, Refused)]
        (counted,) = [end for end in given if not isinstance(end, BaseException)]
        assert history.rollout.answer == counted
        assert str(refused) == f"Rollout r1 has its answer already: {counted.actor} answered {answer}: so"
        recorded = [e.type for e in await two.events.read(stream_of("r1"))]
        assert recorded[-2:] == ["action-started", "hold-answered"]
        assert history.version == len(recorded), "the next append is at the right version"


async def test_with_no_answer_the_default_is_recorded_at_the_deadline(store_url: str) -> None:
    async with open_stores(store_url, now) as stores:
        history = await asking(ports_on(stores, "driver"), 2.0)
        await attempt(history, performing(history.ports), wait())
        given, asked = history.rollout.answer, history.rollout.hold
        assert given is not None
        assert asked is not None
        assert (given.actor, given.answer) == (DEADLINE, "rollback")
        assert now() >= datetime.fromisoformat(asked.deadline)
