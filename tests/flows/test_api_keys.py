"""Rollouts of services that ask for an API key, of each engine, on a practice host in memory."""

import asyncio
import logging
import re
from typing import Any

import pytest

from tests.flows.engine_rollouts import differences
from tests.flows.keyed import (
    CONFIG,
    ENGINES,
    KEY,
    KEY_FILE,
    NEXT,
    NEXT_CONFIG,
    NEXT_FILE,
    OPEN,
    WAYS,
    ask_for_a_key,
    ending,
    merged,
    nowhere,
    put_keys,
)
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time


@pytest.mark.parametrize("engine", ENGINES)
def test_with_the_right_key_the_new_side_is_proven_and_the_key_is_nowhere(
    engine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            await ask_for_a_key(stage)
            ended = await stage.roll_out(**merged(engine, key_file=KEY_FILE))
            assert ending(ended) == ("promoted", 0), ended.concluded
            assert {v.outcome for v in ended.verdicts} - OPEN[engine] == {"held"}
            assert ended.baseline is not None
            assert ended.baseline.good
            seen = await stage.roll_out(purpose="verify", **merged(engine, key_file=KEY_FILE))
            assert ending(seen) == ("verified", 0), seen.concluded
            assert await differences(stage) == []
            await nowhere(stage, KEY)

    run()
    assert KEY not in caplog.text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refuted_start_goes_back_and_the_old_side_is_proven_with_its_key(engine: Any) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            await ask_for_a_key(stage)
            before = await stage.state()
            stage.scene.script_faults({"fault": "accept-nothing"})
            ended = await stage.roll_out(**merged(engine, key_file=KEY_FILE))
            assert ending(ended) == ("rolled-back", 1), ended.concluded
            assert {v.outcome for v in ended.judged["old:1"].verdicts} - OPEN[engine] == {"held"}
            assert await stage.state() == before
            await nowhere(stage, KEY)

    run()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_service_that_asks_for_a_key_is_refused_where_none_is_named(engine: Any) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            await ask_for_a_key(stage)
            before = await stage.state()
            ended = await stage.roll_out(**WAYS[engine][1])
            assert ending(ended) == ("refused", 3), ended.concluded
            error = ended.failures["baseline"]
            assert re.search(r"on serving asks for an API key \(HTTP 401\), and `engine.key_file` names", error.message)
            assert "root-only file on serving" in error.hint
            assert await stage.state() == before
            looked = await stage.roll_out(purpose="verify", **WAYS[engine][1])
            assert ending(looked) == ("refused", 3), looked.concluded
            assert looked.failures["verify:new:1"].message == error.message.removesuffix(
                ": no way back could be proven"
            )

    run()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_start_that_wants_a_key_all_at_once_is_taken_back_without_waiting(engine: Any) -> None:
    """The readiness timeout is 60 s; what was there before asks for no key, and is proven."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            put_keys(stage)
            before = await stage.state()
            clock = asyncio.get_running_loop().time
            begun = clock()
            ended = await stage.roll_out(**WAYS[engine][1])
            assert clock() - begun < 30
            assert ending(ended) == ("rolled-back", 1), ended.concluded
            error = ended.failures["await-readiness:new"]
            assert "asks for an API key (HTTP 401)" in error.message
            assert "`engine.key_file`" in error.hint
            assert {v.outcome for v in ended.judged["old:1"].verdicts} - OPEN[engine] == {"held"}
            assert await stage.state() == before

    run()


USELESS = {"fault": "accept-nothing", "when": {"api_key": NEXT}}
ROTATED = [
    pytest.param([], ("promoted", 0), id="the-new-key-is-proven"),
    pytest.param([USELESS], ("rolled-back", 1), id="back-with-the-old-key"),
]


@pytest.mark.parametrize(("faults", "expected"), ROTATED)
def test_a_key_is_exchanged_by_a_rollout_that_names_other_files(
    faults: list[dict[str, Any]], expected: tuple[str, int]
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(faults=faults) as stage:
            put_keys(stage)
            first = await stage.roll_out(engine={"key_file": KEY_FILE, "arguments": {"config": CONFIG}})
            assert ending(first) == ("promoted", 0), first.concluded
            ended = await stage.roll_out(engine={"key_file": NEXT_FILE, "arguments": {"config": NEXT_CONFIG}})
            assert ending(ended) == expected, ended.concluded
            assert ended.plan is not None
            assert ended.plan.previous is not None
            assert (ended.plan.previous.key_file, ended.plan.target.key_file) == (KEY_FILE, NEXT_FILE)
            await nowhere(stage, KEY, NEXT)

    run()


def test_a_key_that_the_new_start_does_not_take_is_told_as_such() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            put_keys(stage)
            ended = await stage.roll_out(engine={"key_file": NEXT_FILE, "arguments": {"config": CONFIG}})
            assert ending(ended) == ("rolled-back", 1), ended.concluded
            error = ended.failures["await-readiness:new"]
            assert f"on serving does not take the API key in {NEXT_FILE} (HTTP 401)" in error.message
            assert {v.outcome for v in ended.judged["old:1"].verdicts} == {"held"}
            await nowhere(stage, KEY, NEXT)

    run()
