"""Three hosts and ten rollouts at once, with one store: nothing of one host gets into another's rollout."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flows.ports import Watch
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tasks.lab.layer import Furnishing
from tests.flows.test_rollout_endings import fault
from tests.lab.contained import Stage, stages

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Wanted:
    """One rollout: its engine arguments over the seed's, and how it has to end."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    outcome: str = "promoted"


def steps(number: int, outcome: str = "promoted") -> Wanted:
    return Wanted({"speculative_num_steps": number, "speculative_num_draft_tokens": number + 1}, outcome)


IGNORED = fault("flag-ignored") | {"when": {"speculative_algorithm": "EAGLE3"}}
EAGLE3 = Wanted({"speculative_algorithm": "EAGLE3"}, "rolled-back")
PLANS: Sequence[Sequence[Wanted]] = (
    (steps(5), steps(3), EAGLE3, steps(3, "unchanged")),
    (EAGLE3, steps(4), steps(5)),
    (steps(4), EAGLE3, steps(2)),
)


async def test_ten_rollouts_on_three_hosts_at_once(tmp_path: Path) -> None:
    assert sum(map(len, PLANS)) == 10
    async with stages(tmp_path, *[Furnishing(faults=[IGNORED])] * 3) as made:
        ran = await asyncio.gather(*map(one_host, made, PLANS))
        ids = [await stage.run("cat", "/etc/machine-id") for stage in made]
        boots = [await journals(stage, events) for stage, events in zip(made, ran, strict=True)]
        assert boots == [{machine_id} for machine_id in ids]
        assert [(await stage.state()).units for stage in made] == [()] * 3
        argvs = [(await stage.state()).argv for stage in made]
        assert [argv[argv.index("--speculative-num-steps") + 1] for argv in argvs] == ["3", "5", "2"]


async def one_host(stage: Stage, plans: Sequence[Wanted]) -> list[RecordedEvent]:
    """Run one host's rollouts, one after the other; every event that they recorded."""
    events: list[RecordedEvent] = []

    def watch(_: Rollout, event: RecordedEvent) -> None:
        events.append(event)

    for wanted in plans:
        service = f"on-{stage.host.name}"
        ended = await stage.roll_out(wanted.arguments, watch=Watch(recorded=watch), service=service)
        assert ended.concluded is not None
        assert ended.concluded.outcome == wanted.outcome, (service, wanted, ended.concluded.summary)
    return events


async def journals(stage: Stage, events: Sequence[RecordedEvent]) -> set[str]:
    """The machines whose journals are in the evidence of these rollouts."""
    items = [event.data["items"] for event in events if event.type == "evidence-gathered"]
    digests = [found["journal"]["digest"] for found in items]
    async with stage.ports() as ports:
        texts = [await ports.evidence.get(digest) for digest in digests]
    assert texts
    return {json.loads(line)["_MACHINE_ID"] for text in texts for line in text.splitlines()}
