"""Replay of whole rollouts: rebuilt equal, judged equal, digests whole; what is not as it was is found and named."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pytest

from flows import prove
from flows.ports import Ports
from flows.replay import rejudge, replay_all
from state.claims import Claim, Fact, Verdict
from state.events import EvidenceItem
from state.judging import judge
from state.store.connect import Stores, open_stores
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import EventStore, EvidenceStore, RecordedEvent
from state.store.projections import catch_up
from state.store.read_models import PROJECTIONS
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import VirtualTimeLoop

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "EAGLE3"}}


@dataclass(frozen=True)
class Past:
    """Histories with their evidence: a promotion, a rollback, a refusal, an unproven verification."""

    streams: tuple[tuple[RecordedEvent, ...], ...]
    evidence: tuple[tuple[bytes, str], ...]
    rollouts: tuple[str, ...]

    async def put_into(self, events: "MemoryEventStore | Stores", evidence: EvidenceStore) -> None:
        archive = events.events if isinstance(events, Stores) else events
        for stream in self.streams:
            await archive.restore(stream)
        for data, media_type in self.evidence:
            await evidence.put(data, media_type)


@pytest.fixture(scope="module")
def past() -> Past:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_rehearsed())


async def _rehearsed() -> Past:
    async with rehearsal(faults=[IGNORED]) as stage:
        ends = [
            await stage.roll_out(),
            await stage.roll_out({"speculative_algorithm": "EAGLE3"}),
            await stage.roll_out({"model_path": "/none"}),
            await stage.roll_out({"speculative_algorithm": "EAGLE3"}, purpose="verify"),
        ]
        assert [e.concluded.outcome for e in ends if e.concluded] == ["promoted", "rolled-back", "refused", "unproven"]
        streams = [await stage.store.read(name) for name in await stage.store.streams()]
        kept = {item.digest: item for events in streams for event in events for item in items_of(event)}
        evidence = [(await stage.evidence.get(item.digest), item.media_type) for item in kept.values()]
        return Past(tuple(streams), tuple(evidence), tuple(e.requested.rollout for e in ends if e.requested))


def items_of(event: RecordedEvent) -> list[EvidenceItem]:
    named = event.data.get("items") or event.data.get("evidence") or {}
    return [EvidenceItem.model_validate(item) for item in named.values()] if isinstance(named, dict) else []


def ports(events: EventStore, evidence: EvidenceStore) -> Ports:
    def nobody(name: str, _spec: object) -> None:
        raise AssertionError(f"{name}: replay reaches no host")

    return Ports(events=events, evidence=evidence, open_host=nobody, holder="replay")  # type: ignore[arg-type]  # never called


async def test_all_of_it_is_equal_in_every_database(past: Past, stores: Stores) -> None:
    await past.put_into(stores, stores.evidence)
    replayed = await replay_all(ports(stores.events, stores.evidence), stores)
    assert replayed.equal
    assert (replayed.faults, replayed.rebuilt, replayed.differences) == ((), (), ())
    assert replayed.rejudged == 4, "the promotion, both sides of the rollback, the verification"
    assert replayed.events == sum(map(len, past.streams))


async def test_it_is_judged_equal_in_memory(past: Past) -> None:
    events, evidence = MemoryEventStore(lambda: datetime.max), MemoryEvidenceStore()
    await past.put_into(events, evidence)
    found = [one for name in past.rollouts async for one in rejudge(ports(events, evidence), name)]
    assert [count for count, _ in found] == [1, 1, 1, 1]
    assert [difference for _, differing in found for difference in differing] == []


async def test_a_stricter_rule_is_a_difference_with_its_reason(
    past: Past, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stricter(claims: Sequence[Claim], facts: Sequence[Fact], look: int) -> tuple[Verdict, ...]:
        raised = [c.model_copy(update={"expected": 5.5}) if c.name == "accept-length" else c for c in claims]
        return judge(raised, facts, look)

    await past.put_into(stores, stores.evidence)
    monkeypatch.setattr(prove, "judge", stricter)
    replayed = await replay_all(ports(stores.events, stores.evidence), stores)
    assert not replayed.equal
    difference = replayed.differences[0]
    assert {(d.claim, d.now) for d in replayed.differences} == {("accept-length", "refuted")}, replayed.differences
    assert (difference.rollout, difference.claim) == (past.rollouts[0], "accept-length")
    assert (difference.then, difference.now) == ("held", "refuted")
    assert "wanted at least 5.5" in difference.reason


async def test_a_reader_that_reads_less_is_a_difference_with_its_reason(
    past: Past, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await past.put_into(stores, stores.evidence)
    monkeypatch.setattr(prove, "common_facts", lambda _target, _evidence: ())
    replayed = await replay_all(ports(stores.events, stores.evidence), stores)
    lost = {difference.claim: difference for difference in replayed.differences}
    assert lost["active"].now == "inconclusive"
    assert lost["active"].reason.startswith("no evidence of it in ")


DAMAGES = [
    pytest.param(
        """UPDATE events SET data = replace(data, '"attempt":1', '"attempt":2')
        WHERE stream = '{stream}' AND version = 5""",
        "Event 5 of {stream} is not what was recorded",
        id="a-byte-of-an-event",
    ),
    pytest.param(
        "DELETE FROM events WHERE stream = '{stream}' AND version = 7",
        "Event 7 of {stream} is not what was recorded: it is missing",
        id="an-event",
    ),
    pytest.param(
        "UPDATE evidence SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'00' AS BLOB)"
        " WHERE digest = '{digest}'",
        "Evidence {digest:.12} is not what was recorded",
        id="a-byte-of-evidence",
    ),
    pytest.param("DELETE FROM evidence WHERE digest = '{digest}'", "There is no evidence `{digest}`", id="evidence"),
]


@pytest.mark.parametrize(("statement", "named"), DAMAGES)
async def test_what_is_changed_in_the_database_is_found_and_named(
    past: Past, sqlite_url: str, now: Callable[[], datetime], statement: str, named: str
) -> None:
    stream = f"rollout-{past.rollouts[1]}"
    frozen = next(e for s in past.streams for e in s if e.stream == stream and e.type == "evidence-frozen")
    digest = items_of(frozen)[0].digest
    async with open_stores(sqlite_url, now) as stores:
        await past.put_into(stores, stores.evidence)
        await catch_up(stores.engine, PROJECTIONS)
        tamper(sqlite_url, statement.format(stream=stream, digest=digest))
        replayed = await replay_all(ports(stores.events, stores.evidence), stores)
        assert not replayed.equal
        (fault,) = replayed.faults
        assert fault.startswith(named.format(stream=stream, digest=digest))


async def test_a_projection_that_was_changed_is_named_and_built_anew(
    past: Past, sqlite_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(sqlite_url, now) as stores:
        await past.put_into(stores, stores.evidence)
        await catch_up(stores.engine, PROJECTIONS)
        tamper(sqlite_url, "UPDATE rollouts SET state = 'promoted'")
        replayed = await replay_all(ports(stores.events, stores.evidence), stores)
        assert replayed.faults == ()
        assert len(replayed.rebuilt) == 3
        assert all("rollouts" in sentence for sentence in replayed.rebuilt)
        assert (await replay_all(ports(stores.events, stores.evidence), stores)).equal


def tamper(url: str, statement: str) -> None:
    """As somebody who owns the file: without the triggers, without this program."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    with connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        changed = connection.execute(statement).rowcount
    connection.close()
    assert changed
