"""Histories that were recorded by releases: read, folded and judged alike for ever."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.history import History
from flows.ports import Ports
from flows.replay import rejudge
from state.events import EVENTS
from state.narrative import narrate
from state.store.export import import_lines
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from tasks.hosts.port import Host

RECORDED = {p: p.read_text(encoding="utf-8").splitlines() for p in sorted(Path(__file__).parent.glob("*.jsonl"))}


def no_host(name: str, _spec: object) -> Host:
    raise AssertionError(f"a replay reached for {name}")


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
async def test_a_recorded_history_is_read_folded_and_judged_alike(path: Path) -> None:
    store, evidence = MemoryEventStore(lambda: datetime.now(UTC)), MemoryEvidenceStore()
    stream = await import_lines(store, RECORDED[path], evidence)
    ports = Ports(events=store, evidence=evidence, open_host=no_host, holder="a replay")
    history = History(ports, stream.removeprefix("rollout-"))
    rollout = await history.load()
    assert rollout.concluded is not None
    assert rollout.concluded.outcome == kind_of(path).partition("+")[0]
    assert rollout.ended
    judgements = [found async for found in rejudge(ports, history.rollout_id)]
    assert sum(count for count, _ in judgements) == len(rollout.judged) >= 1
    assert [difference for _, found in judgements for difference in found] == []
    titles = [line.title for line in narrate(await history.recorded())]
    after = ["gpu clear"] if kind_of(path).endswith("+quarantine") else []
    assert titles[titles.index(rollout.concluded.outcome) :] == [rollout.concluded.outcome, "release", *after]


def kind_of(path: Path) -> str:
    return path.stem.split("-", 1)[1]


def test_there_is_a_history_of_each_kind() -> None:
    assert {kind_of(path) for path in RECORDED} >= {
        "promoted",
        "rolled-back",
        "rolled-back+quarantine",
        "promoted+hold",
    }


def test_every_event_of_the_present_shape_is_in_one_of_them_or_is_seldom() -> None:
    found = {(line["type"], line["schema_version"]) for lines in RECORDED.values() for line in map(json.loads, lines)
             if "type" in line}  # fmt: skip
    missing = {wire for wire, event in EVENTS.items() if (wire, event.schema_version) not in found}
    assert missing <= {"rollout-resumed", "cancel-requested"}
