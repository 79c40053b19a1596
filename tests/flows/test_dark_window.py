"""While a service is down: how often the host is gone to, and what is known at the first answer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from flows import requests
from flows.ports import Watch
from flows.session import begin
from state.claims import Claim
from state.events import ReadinessReached, decode
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import RecordedEvent
from state.traffic import Traffic, ordered
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

MOST = {"stop-service": 2, "install-files": 1, "start-service": 1}
"""Looking at the host's boot, at the unit and at its processes, while the service still answers, and the stop with all
that proves it; the files with their read-back; the start with the look before it and what came of it."""


@in_virtual_time
async def test_each_step_goes_to_the_host_no_more_often_than_it_must() -> None:
    async with rehearsal() as made:
        trips = Counter[str]()
        begun = 0

        def recorded(_: Rollout, event: RecordedEvent) -> None:
            nonlocal begun
            if event.type == "action-started":
                begun = made.fuse.passed
            if event.type == "step-succeeded":
                trips[event.data["action"].rpartition(":")[2]] = (
                    made.fuse.passed - begun - 1
                )  # the append of the fact itself

        ended = await roll_out(made, Watch(recorded=recorded))
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted"
        assert {kind: trips[kind] for kind in MOST} == MOST


@pytest.mark.parametrize(
    ("faults", "known"),
    [
        pytest.param((), True, id="an-argument-that-is-in-effect-is-known-with-the-first-answer"),
        pytest.param(({"fault": "flag-ignored"},), False, id="one-that-the-log-denies-is-not"),
    ],
)
@in_virtual_time
async def test_the_log_proves_arguments_before_anything_else_is_gathered(
    faults: tuple[Mapping[str, Any], ...], known: bool
) -> None:
    async with rehearsal(faults=faults) as made:
        await roll_out(made, Watch())
        (stream,) = await made.store.streams("rollout-")
        events = [decode(event) for event in await made.store.read(stream)]
        ready = next(event for event in events if isinstance(event, ReadinessReached) and event.side == "new")
        assert ("speculative-algorithm" in ready.held) is known
        assert "tp-size" in ready.held


@pytest.mark.parametrize(
    ("metric", "sample", "round_", "count"),
    [
        pytest.param("unit.state", 1, 1, 2, id="a-pair-where-no-text-is-judged"),
        pytest.param("answers.degenerate", 4, 1, 4, id="as-many-as-the-text-is-judged-by"),
        pytest.param("requests.accept_length", 3, 1, 6, id="six-for-a-claim-about-acceptance"),
        pytest.param("generations.accept_length", 12, 1, 12, id="more-for-a-demanding-one"),
        pytest.param("answers.degenerate", 4, 2, 6, id="a-later-round-has-its-own-number"),
    ],
)
def test_no_more_long_texts_than_a_claim_needs(metric: str, sample: int, round_: int, count: int) -> None:
    assert ordered([claim(metric, sample)], Traffic(), "salt", round_, 0.0).generations == count


@pytest.mark.parametrize(
    ("claims", "at_once"),
    [
        pytest.param([("answers.degenerate", 0)], 4, id="four-where-only-their-text-is-judged"),
        pytest.param([("answers.degenerate", 0), ("speculation.state", "off")], 4, id="also-where-nothing-is-drafted"),
        pytest.param([("answers.degenerate", 0), ("speculation.state", "active")], 2, id="two-where-drafts-are-judged"),
        pytest.param([("answers.degenerate", 0), ("requests.accept_length", 2.0)], 2, id="two-where-they-are-measured"),
    ],
)
def test_figures_are_taken_of_two_texts_at_once(claims: list[tuple[str, Any]], at_once: int) -> None:
    made = [claim(metric, 1, expected) for metric, expected in claims]
    assert ordered(made, Traffic(), "salt", 1, 0.0).at_once == at_once


def claim(metric: str, sample: int, expected: Any = 0) -> Claim:
    return Claim(
        name="one",
        plane="function" if metric.startswith("answers") else "speculation",
        statement="one",
        metric=metric,
        relation="equals",
        expected=expected,
        minimum_sample=sample,
        source="our own requests",
        remedy="none",
    )


async def roll_out(made: Rehearsal, watch: Watch) -> Rollout:
    ports = replace(made.ports(), watch=watch)
    manifest = load_manifest(made.scene.manifest(), "manifest.yaml")
    return await begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))
