"""Passes under load against the stand-in in memory: what they record, and what bounds them."""

import asyncio
import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from flows.settings import Settings
from flows.wiring import open_host
from state.claims import Claim
from state.engines.engine import engine_for
from state.evidence import Evidence
from state.manifest.claim_specs import AnswersSpec, QuestionSpec, ThroughputSpec
from state.performance import performance_facts
from state.stated_claims import manifest_claims
from state.traffic import Order, Traffic, levels
from tasks.endpoint import Endpoint
from tasks.load import measure, quiz
from tasks.practice.scene import Scene, scene
from tests.practice.virtual_time import in_virtual_time

ENGINE, MODEL = engine_for("sglang"), "/shared/models/Qwen3.5-122B-A10B"
SHORT = Traffic(tokens=48)


def order(*at: int, **changes: Any) -> Order:
    claims = manifest_claims([ThroughputSpec(at_least=1.0, concurrency=at)])
    return Order.model_validate({"traffic": SHORT, "salt": "5a17", "levels": levels(claims), "passes": 2} | changes)


async def passes(stage: Scene, wanted: Order) -> list[dict[str, Any]]:
    clock = asyncio.get_running_loop().time
    async with Endpoint(
        stage.open_host("serving", stage.specs["serving"]), f"http://127.0.0.1:{stage.port}", clock
    ) as e:
        return await measure(e, ENGINE, MODEL, wanted, clock)


def test_every_level_has_a_warm_up_and_passes_of_whole_timed_requests() -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene(None, over_ssh=False) as stage:
            await asyncio.sleep(5)
            found = await passes(stage, order(1, 4))
            assert [(p["concurrency"], p["pass"], p["warm_up"], len(p["requests"])) for p in found] == [
                (1, "w1", True, 4), (1, "0", False, 4), (1, "1", False, 4),
                (4, "w1", True, 8), (4, "0", False, 8), (4, "1", False, 8),
            ]  # fmt: skip
            requests = [r for p in found for r in p["requests"]]
            assert {(r["status"], r["error"], r["tokens"]) for r in requests} == {(200, "", 48)}
            assert [r["inter_token_s"] for r in found[1]["requests"]] == pytest.approx([0.003] * 4)
            assert all(0.003 <= r["inter_token_s"] < 0.006 for r in requests), "prefills come in between"
            assert all(0.008 <= r["first_token_s"] < 0.2 for r in requests)
            alone, together = found[1], found[4]
            assert together["tokens"] / together["seconds"] > 2.5 * alone["tokens"] / alone["seconds"]

    run()


def test_a_rate_holds_back_and_says_so() -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene(None, over_ssh=False) as stage:
            await asyncio.sleep(5)
            (warm_up, measured) = await passes(stage, order(2, passes=1, traffic=Traffic(tokens=48, rate=4.0)))
            assert warm_up["seconds"] + measured["seconds"] > 7 / 4, "the eighth starts so long after the first"
            assert measured["held_back"] > 0.2
            claims: tuple[Claim, ...] = manifest_claims([ThroughputSpec(at_least=1.0, concurrency=(2,))])
            (fact,) = performance_facts(claims, Evidence({"load": json.dumps([warm_up, measured]).encode()}))
            assert fact.value is None
            assert "held back by the rate limit" in fact.text

    run()


def test_a_budget_cuts_a_pass_off_and_shares_the_time_among_levels() -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene(None, over_ssh=False) as stage:
            await asyncio.sleep(5)
            begun = asyncio.get_running_loop().time()
            found = await passes(stage, order(1, 4, passes=500, seconds=6.0))
            assert asyncio.get_running_loop().time() - begun <= 6.2
            assert {p["concurrency"] for p in found} == {1, 4}
            (tiny,) = await passes(stage, order(1, seconds=0.3))
            assert (tiny["cut"], tiny["silent"], tiny["warm_up"]) == (True, False, True)

    run()


@pytest.mark.parametrize("health", ["200", "503"])
def test_a_server_that_hangs_is_not_asked_on_and_on(health: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene(None, over_ssh=False, faults=[{"fault": "hang-after-ready", "health": health}]) as stage:
            await asyncio.sleep(5)
            (only,) = await passes(stage, order(2, 8, seconds=1000.0))
            assert (only["silent"], only["cut"], len(only["requests"])) == (True, False, 2)
            assert all("no whole answer within 180 s" in r["error"] for r in only["requests"])

    run()


BROKEN = [
    pytest.param({"fault": "streams-break", "after": 16}, "the stream broke off", id="streams-that-break"),
    pytest.param({"fault": "overloaded", "above": 0}, "HTTP 503", id="a-full-queue"),
]


@pytest.mark.parametrize(("fault", "error"), BROKEN)
def test_failures_are_recorded_and_bounded(fault: dict[str, Any], error: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene(None, over_ssh=False, faults=[fault]) as stage:
            await asyncio.sleep(5)
            found = await passes(stage, order(2))
            assert [len(p["requests"]) for p in found] == [4, 4, 4]
            assert {r["error"] for p in found for r in p["requests"]} == {error}

    run()


def test_questions_of_a_claim_are_asked_as_many_at_once_as_it_says() -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene(None, over_ssh=False) as stage:
            await asyncio.sleep(5)
            own = (QuestionSpec(prompt="What is 12 + 12? Answer with the number only.", matches=r"\b24\b"),)
            claims = manifest_claims([AnswersSpec(at_least=0.9, concurrency=(3,), questions=own)])
            wanted = Order(traffic=SHORT, salt="5a17", quizzes=claims, askings=7)
            clock = asyncio.get_running_loop().time
            host = stage.open_host("serving", stage.specs["serving"])
            async with Endpoint(host, f"http://127.0.0.1:{stage.port}", clock) as endpoint:
                found = await quiz(endpoint, ENGINE, MODEL, wanted, clock)
            assert [(a["claim"], a["right"], a["status"]) for a in found] == [("answers-3", True, 200)] * 7
            lone, *_, last = [a["seconds"] for a in found]
            assert lone >= last, "the seventh was alone, the first was not"

    run()


async def test_streams_are_timed_through_ssh_as_they_come(tmp_path: Path) -> None:
    """Real SSH, a real process: the first token long before the last, and eight requests faster than one by one."""
    async with scene(tmp_path) as stage:
        await stage.until_it_answers()
        host = open_host(Settings(ssh_key=str(stage.key)), "serving", stage.specs["serving"])
        try:
            async with Endpoint(host, f"http://127.0.0.1:{stage.port}") as endpoint:
                found = await measure(
                    endpoint, ENGINE, MODEL, order(1, 8, passes=1, traffic=Traffic(tokens=96)), monotonic
                )
        finally:
            await host.aclose()
        requests = [r for p in found for r in p["requests"]]
        assert {(r["status"], r["error"], r["tokens"]) for r in requests} == {(200, "", 96)}
        assert all(r["first_token_s"] < r["seconds"] for r in requests)
        alone, together = found[1], found[3]
        assert together["tokens"] / together["seconds"] > 1.5 * alone["tokens"] / alone["seconds"]
