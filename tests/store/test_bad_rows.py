"""Stores that something else wrote into: each command says in one sentence what is off, and loses nothing."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from state.errors import InterlockError
from state.store.connect import open_stores
from state.store.export import import_lines
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import NewEvent, RecordedEvent
from tests.cli.practice import Ran, interlock
from tests.store.bad_lines import LINES
from tests.store.bad_rows import EVENTS, EVIDENCE
from tests.store.test_export import written

HISTORY = sorted((Path(__file__).parents[1] / "histories").glob("*-promoted.jsonl"))[0].read_text("utf-8").splitlines()


def failed(ran: Ran, said: str) -> bool:
    """Exit 1 with one sentence that matches, and no traceback."""
    assert ran.code == 1
    assert "Traceback" not in ran.out + ran.err
    told = [line for line in (ran.out + ran.err).splitlines() if re.search(said, line)]
    return len(told) == 1


@pytest.mark.parametrize(
    ("type_", "schema_version", "data", "said"), [pytest.param(*case, id=claim) for claim, case in EVENTS.items()]
)
def test_an_event_of_no_release_is_named(
    sqlite_url: str, now: Callable[[], datetime], type_: str, schema_version: int, data: Any, said: str
) -> None:
    whole = asyncio.run(appended(sqlite_url, now, NewEvent(type_, schema_version, data)))
    sentence = f"Event 2 of rollout-bad is not what was recorded: .*{said}"
    unfinished = () if type_ == "rollout-concluded" else (("recover",),)  # what has ended is not read for that
    for words in (("show", "bad"), ("report", "bad"), ("recover", "bad"), *unfinished):
        assert failed(interlock(*words, environment={"INTERLOCK_DATABASE_URL": sqlite_url}), sentence), words
    assert asyncio.run(everything(sqlite_url, now)) == whole


async def appended(url: str, now: Callable[[], datetime], event: NewEvent) -> Sequence[RecordedEvent]:
    """A right request, and the event after it."""
    first = json.loads(HISTORY[0])
    async with open_stores(url, now) as stores:
        await stores.events.append("rollout-bad", 0, [NewEvent(first["type"], 1, {**first["data"], "rollout": "bad"})])
        await stores.events.append("rollout-bad", 1, [event])
    return await everything(url, now)


async def everything(url: str, now: Callable[[], datetime]) -> Sequence[RecordedEvent]:
    async with open_stores(url, now) as stores:
        return await stores.events.read_all()


@pytest.mark.parametrize(("change", "said"), [pytest.param(*case, id=claim) for claim, case in EVIDENCE.items()])
def test_evidence_that_is_not_what_was_recorded_is_named(
    sqlite_url: str, now: Callable[[], datetime], change: str, said: str
) -> None:
    asyncio.run(imported(sqlite_url, now))
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    with connection:
        connection.execute("DROP TRIGGER evidence_no_update")
        connection.execute(f"UPDATE evidence SET {change} WHERE digest = (SELECT min(digest) FROM evidence)")
    (digest,) = connection.execute("SELECT min(digest) FROM evidence").fetchone()
    connection.close()
    replayed = interlock("replay", "--all", environment={"INTERLOCK_DATABASE_URL": sqlite_url})
    assert failed(replayed, f"Evidence {digest[:12]} .*({said})"), replayed


async def imported(url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(url, now) as stores:
        await import_lines(stores.events, HISTORY, stores.evidence)


@pytest.mark.parametrize(("change", "said"), [pytest.param(*case, id=claim) for claim, case in LINES.items()])
async def test_lines_that_are_no_export_say_which_and_why_and_nothing_is_taken_in(
    now: Callable[[], datetime], change: Callable[[list[str]], Sequence[str]], said: str
) -> None:
    lines = await written(MemoryEventStore(now), MemoryEvidenceStore())
    store = MemoryEventStore(now)
    with pytest.raises(InterlockError, match=said) as caught:
        await import_lines(store, change(lines), MemoryEvidenceStore())
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert await store.read_all() == ()
