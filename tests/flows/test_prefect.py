"""Rollouts under a real Prefect server: what it shows, what it retries, and that its end is not the rollout's."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from flows import requests
from flows.history import History
from flows.hold import answer_hold, asking
from flows.ports import Watch
from flows.retrying import retrying
from flows.session import go_on, requested_history
from flows.settings import Settings
from flows.wiring import wired
from state.events import ActionStarted, decode
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tests.cli.practice import Stage, end_of, read_until, stage
from tests.flows.own_prefect import OwnPrefect

pytestmark = [
    pytest.mark.prefect,
    # Prefect's own client leaves connections to a server that was killed to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "EAGLE3"}}
THREE = {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}


@pytest.fixture
def practice(prefect_server: OwnPrefect, tmp_path: Path) -> Iterator[Stage]:
    with (
        stage(tmp_path, faults=[IGNORED], settings={"stage_seconds": {"weights": 0.5}}) as made,
        patch.dict(os.environ, made.settings),
    ):
        yield made


def text(practice: Stage, arguments: dict[str, Any] | None = None) -> str:
    return Path(practice.manifest(arguments)).read_text(encoding="utf-8")


async def test_prefect_shows_a_rollout_and_is_not_needed_for_its_end(
    practice: Stage, prefect_server: OwnPrefect
) -> None:
    from prefect.settings import PREFECT_API_URL

    from flows import rollout as flows  # imports Prefect, whose settings are in place only now

    assert PREFECT_API_URL.value() == prefect_server.home.api_url
    before = practice.facts()
    lost = [True]

    def loses_one_answer(words: Sequence[str]) -> bool:
        return "--help" in words and bool(lost and lost.pop())

    practice.scene.serving.faults.cut_before(loses_one_answer)
    refuted = await flows.rollout(text(practice, {"speculative_algorithm": "EAGLE3"}), return_state=True)
    assert (refuted.type.value, refuted.name) == ("FAILED", "rolled-back")
    assert refuted.message.startswith("speculative-algorithm refuted: ")
    assert "Traceback" not in refuted.message
    assert practice.facts().unit_file == before.unit_file
    await shown_whole(refuted, retried="preflight")

    promoted = await flows.rollout(text(practice), return_state=True)
    assert (promoted.type.value, promoted.name) == ("COMPLETED", "promoted")
    await shown_whole(promoted)

    verified = await flows.verify(text(practice), return_state=True)
    assert (verified.type.value, verified.name) == ("COMPLETED", "verified")

    nothing = await flows.rollback("qwen35-122b", return_state=True)
    assert (nothing.type.value, nothing.name) == ("FAILED", "none-proven")
    assert "there is none before the present one" in nothing.message

    held, _ = await asyncio.gather(flows.rollout(asks(practice), return_state=True), answered_when_it_asks())
    assert (held.type.value, held.name) == ("COMPLETED", "promoted")
    await shown_whole(held)

    await asyncio.to_thread(an_interrupted_command_turns_back, practice, prefect_server)
    await goes_on_without_its_server(practice, prefect_server)


def asks(practice: Stage) -> str:
    """Nothing decides the claim: the stand-in accepts 3.40 in the mean."""
    close = [{"claim": "accept-length", "at_least": 3.4, "within": "1s"}]
    path = practice.manifest({"mem_fraction_static": 0.7}, claims=close, policy={"inconclusive": "hold"})
    return Path(path).read_text(encoding="utf-8")


async def answered_when_it_asks() -> None:
    """As another process would; the wait is a task run of its own meanwhile."""
    async with wired(Settings()) as (ports, _):
        while True:
            name = (await ports.events.streams("rollout-"))[-1].removeprefix("rollout-")
            if asking(await History(ports, name).load()):
                await answer_hold(ports, name, "promote", "a person", "seen")
                return
            await asyncio.sleep(0.2)


async def shown_whole(state: Any, retried: str = "") -> None:
    """One task run for each action, named after it; each attempt is an event, each attempt after the first a retry."""
    async with wired(Settings()) as (ports, _):
        history = History(ports, await state.result(raise_on_failure=False))
        rollout = await history.load()
    runs = await task_runs(state.state_details.flow_run_id, len(rollout.attempts))
    assert Counter(run.name for run in runs) == Counter(titles(rollout))
    attempts = Counter({title(key): count for key, count in rollout.attempts.items()})
    assert {run.name: run.run_count for run in runs} == dict(attempts)
    assert [name for name, count in attempts.items() if count > 1] == ([retried] if retried else [])


async def task_runs(flow_run: Any, wanted: int) -> list[Any]:
    """They are written in batches, a second or so late."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    found: list[Any] = []
    async with get_client() as client:
        for _ in range(50):
            found = await client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run])))
            if len(found) >= wanted and all(run.state and run.state.is_final() for run in found):
                break
            await asyncio.sleep(0.2)
    return found


def titles(rollout: Rollout) -> list[str]:
    return [title(key) for key in rollout.attempts]


def title(key: str) -> str:
    """An action's name in Prefect: `do:2:stop-service` is `stop-service`, `verify:old:1` is `verify old`."""
    head, *rest = key.split(":")
    match head:
        case "do":
            return rest[1]
        case "undo":
            return f"undo {rest[1]}"
        case "conclude":
            return f"conclude {rest[0]}"
        case "await-readiness" | "verify" | "judge":
            again = f" round {rest[1]}" if rest[1:] and rest[1] != "1" else ""
            return head + (" old" if rest[0] == "old" else "") + again
    return head


def an_interrupted_command_turns_back(practice: Stage, prefect_server: OwnPrefect) -> None:
    """`interlock apply` inside a flow run: SIGTERM is the rollout's, not Prefect's."""
    before = practice.facts()
    process = practice.start(
        "apply", practice.manifest(THREE), environment={"PREFECT_API_URL": prefect_server.home.api_url}
    )
    read_until(process, "weights after")
    ran = end_of(process, signal.SIGTERM)
    assert ran.code == 130, ran
    assert "ROLLED-BACK" in ran.out
    assert "Traceback" not in ran.err
    after = practice.facts()
    assert (after.unit_file, after.active, after.drivers) == (before.unit_file, "active", before.drivers)


async def goes_on_without_its_server(practice: Stage, prefect_server: OwnPrefect) -> None:
    """Prefect's server dies while the service is down."""
    from flows.rollout import shown

    def recorded(_rollout: Rollout, event: RecordedEvent) -> None:
        decoded = decode(event)
        if isinstance(decoded, ActionStarted) and decoded.action.endswith(":start-service"):
            prefect_server.kill()

    async with wired(Settings(), Watch(recorded=recorded)) as (ports, _):
        requested = requests.from_manifest(ports, load_manifest(text(practice, THREE), "m"), "rollout", "no server")
        history = await requested_history(ports, requested)
        await shown(history, requested)
        ended = await go_on(history, retrying)
    assert ended.concluded is not None
    assert ended.concluded.outcome == "promoted"
    assert ended.ended
    assert b"--speculative-num-steps 3" in (practice.facts().unit_file or b"")
