"""`interlock compare` over rollouts that were rehearsed: as words, as JSON, and its exit codes."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.store import migrate
from state.store.connect import open_stores
from state.store.port import RecordedEvent
from tests.cli.practice import Ran, interlock
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import VirtualTimeLoop

SPEED = {"claim": "throughput", "at_least": 400}
SLOW = {"fault": "slower", "factor": 2, "when": {"speculative_num_steps": 1}}
FEWER = {"speculative_num_steps": 1, "speculative_num_draft_tokens": 2}


async def rehearsed() -> tuple[list[str], list[Sequence[RecordedEvent]]]:
    """A refused rollout; then one that holds its speed, one whose one step is slow, and one that claims no speed."""
    async with rehearsal(faults=[SLOW]) as stage:
        refused = await stage.roll_out({"model_path": "/none"})
        fast = await stage.roll_out(claims=[SPEED], traffic={"tokens": 96})
        slow = await stage.roll_out(FEWER, claims=[SPEED], traffic={"tokens": 96})
        other = await stage.roll_out({"mem_fraction_static": 0.7}, claims=[])
        ends = [refused, fast, slow, other]
        assert [e.concluded.outcome for e in ends if e.concluded] == ["refused", "promoted", "rolled-back", "promoted"]
        names = [e.requested.rollout for e in ends if e.requested]
        return names, [await stage.store.read(name) for name in await stage.store.streams()]


class Past:
    """The ids of the four rollouts, and the command line over their history."""

    def __init__(self, names: Sequence[str], directory: Path) -> None:
        self.refused, self.fast, self.slow, self.other = names
        self._directory = directory

    def compare(self, *words: str) -> Ran:
        return interlock("compare", *words, environment={"INTERLOCK_DATA_DIR": str(self._directory)})


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    directory = tmp_path_factory.mktemp("past")
    url = f"sqlite:///{directory / 'interlock.db'}"
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        names, streams = runner.run(rehearsed())

    async def put() -> None:
        await migrate.upgrade(url)
        async with open_stores(url, lambda: datetime.now(UTC)) as stores:
            for stream in streams:
                await stores.events.restore(stream)

    asyncio.run(put())
    return Past(names, directory)


def test_verdicts_and_figures_stand_side_by_side_with_the_change(past: Past) -> None:
    ran = past.compare(past.fast, past.slow)
    assert ran.code == 1, "what the first held is refuted by the second"
    assert ran.out.startswith(f"{past.fast} (promoted) → {past.slow} (rolled-back)\n")
    assert "speculative_num_steps: 5 → 1" in ran.out
    (line,) = [line for line in ran.out.splitlines() if line.startswith("throughput-1, tokens/s ")]
    assert "held" in line
    assert "refuted" in line
    assert "%" in line


def test_the_same_as_json(past: Past) -> None:
    found = past.compare(past.fast, past.slow, "--json").json
    assert (found["rollouts"], found["worse"]) == ([past.fast, past.slow], True)
    (row,) = [row for row in found["claims"] if row["claim"] == "throughput-1"]
    first, second = row["rollouts"]
    assert (first["outcome"], second["outcome"], row["unit"]) == ("held", "refuted", "tokens/s")
    assert first["low"] < first["value"] < first["high"]
    assert -0.6 < row["change"]["low"] < row["change"]["middle"] < row["change"]["high"] < 0
    (identity,) = [row for row in found["claims"] if row["claim"] == "active"]
    assert (identity["change"], identity["why"], identity["worse"]) == (None, "", False)


def test_alone_it_is_held_against_what_was_measured_before(past: Past) -> None:
    assert past.compare(past.slow, "--json").json["rollouts"] == [past.fast, past.slow]
    assert past.compare(past.slow[:10], "--json").json["rollouts"] == [past.fast, past.slow]


def test_without_a_refuted_claim_the_exit_code_is_0(past: Past) -> None:
    ran = past.compare(past.fast, past.other)
    assert ran.code == 0
    assert "not claimed" in ran.out


REFUSALS = [
    pytest.param("refused", "There is no judgement of rollout `", id="a-rollout-that-judged-nothing"),
    pytest.param("fast", "There is no earlier figure like one of `", id="nothing-measured-before"),
]


@pytest.mark.parametrize(("name", "sentence"), REFUSALS)
def test_what_cannot_be_compared_is_said(past: Past, name: str, sentence: str) -> None:
    ran = past.compare(getattr(past, name))
    assert (ran.code, ran.out) == (2, "")
    assert f"error: {sentence}{getattr(past, name)}`" in ran.err
