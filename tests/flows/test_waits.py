"""How long an orchestrator waits for a host that is far away: what needs no other answer is asked at the same time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from flows import requests
from flows.ports import Watch
from flows.session import begin
from state.manifest.load import load_manifest
from state.manifest.model import HostSpec
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tasks.hosts.port import Argv, Completed, Host
from tasks.together import together
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

TRIP_S = 100.0
"""So long that everything else of an action is nothing beside it."""

MOST = {"plan": 3, "preflight": 4, "baseline": 3, "verify:new:1": 4, "freeze": 1}
"""Round trips one after the other, both hosts together: three for the GPU host's devices, one for what they call for;
the unit, its processes and answers, then the journals' ends; who is left of an earlier start (2), whether the engine
says that it is ready, and everything at once after the traffic; the logs at once."""


@dataclass
class Far:
    """A host to which each round trip takes `trip_s` seconds."""

    inner: Host
    trip_s: float = TRIP_S

    @property
    def name(self) -> str:
        return self.inner.name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        await asyncio.sleep(self.trip_s)
        return await self.inner.run_all(argvs, timeout_s=timeout_s)

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.inner.follow(argv)

    def transport(self) -> httpx.AsyncBaseTransport:
        return self.inner.transport()

    async def aclose(self) -> None:
        await self.inner.aclose()


async def waits(made: Rehearsal, **changes: Any) -> dict[str, int]:
    """Round trips that followed one another, by action."""
    clock, begun, found = asyncio.get_running_loop().time, 0.0, dict[str, int]()

    def recorded(_: Rollout, event: RecordedEvent) -> None:
        nonlocal begun
        if event.type == "action-started":
            begun = clock()
        elif "action" in event.data:
            found[event.data["action"]] = int((clock() - begun) // TRIP_S)

    def open_host(name: str, spec: HostSpec) -> Host:
        return Far(made.scene.open_host(name, spec))

    ports = replace(made.ports(), open_host=open_host, watch=Watch(recorded=recorded), lease_s=1e6)
    manifest = load_manifest(made.scene.manifest(policy={"timer": "6h"}, **changes), "manifest.yaml")
    ended = await begin(ports, requests.from_manifest(ports, manifest, "rollout", "from far away"))
    assert ended.concluded is not None
    assert ended.concluded.outcome == "promoted", ended.concluded.summary
    return found


@in_virtual_time
async def test_an_action_waits_for_no_more_answers_in_turn_than_it_must() -> None:
    async with rehearsal() as made:
        seen = await waits(made)
        assert {action: seen[action] for action in MOST} == MOST


@in_virtual_time
async def test_a_key_is_read_beside_what_is_asked_anyway_and_before_the_traffic() -> None:
    """In `verify` before what the engine is asked again, before the traffic, and beside what is read of the hosts."""
    async with rehearsal() as made:
        made.scene.serving.files.put("/etc/interlock/qwen.key", "Zebra-41", mode=0o600)
        changes = {"engine": {"key_file": "/etc/interlock/qwen.key"}, "readiness": {"timeout": "10m"}}
        seen = await waits(made, **changes)
        assert {action: seen[action] for action in MOST} == {**MOST, "verify:new:1": MOST["verify:new:1"] + 2}


class Broken(Exception):
    pass


NEVER = 1e9

SEVERAL = [
    # seconds after which each piece breaks, None for one that does not; then the block; whose error is told
    pytest.param((5.0, 1.0), None, "0", id="the-first-named-though-it-came-last"),
    pytest.param((1.0, 5.0), None, "0", id="the-first-named-that-came-first"),
    pytest.param((1.0, 1.0), None, "0", id="both-at-once"),
    pytest.param((None, 1.0), None, "1", id="an-earlier-one-that-does-not-break"),
    pytest.param((1.0, NEVER), None, "0", id="a-later-one-is-not-waited-for"),
    pytest.param((5.0,), 1.0, "0", id="the-block-counts-as-the-last"),
    pytest.param((None,), 1.0, "block", id="the-block-itself"),
    pytest.param((1.0,), NEVER, "0", id="the-block-is-not-waited-for"),
]


@pytest.mark.parametrize(("pieces", "block", "told"), SEVERAL)
@in_virtual_time
async def test_of_several_errors_that_of_the_first_named_is_told_as_it_is(
    pieces: Sequence[float | None], block: float | None, told: str
) -> None:
    async def piece(name: str, breaks: float | None) -> None:
        await asyncio.sleep(3.0 if breaks is None else breaks)
        if breaks is not None:
            raise Broken(name)

    async def asking() -> None:
        async with together() as group:
            for number, breaks in enumerate(pieces):
                group.create_task(piece(str(number), breaks))
            await piece("block", block)

    begun = asyncio.get_running_loop().time()
    with pytest.raises(Broken, match=told):
        await asking()
    assert asyncio.get_running_loop().time() - begun < NEVER


async def test_what_was_named_after_an_error_is_ended() -> None:
    ended = []

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    async def breaking() -> None:
        await asyncio.sleep(0)
        raise Broken

    async def asking() -> None:
        async with together() as group:
            group.create_task(breaking())
            group.create_task(waiting())

    with pytest.raises(Broken):
        await asking()
    assert ended == ["waiting"]


@in_virtual_time
async def test_a_cancelled_wait_ends_what_it_asked_at_once() -> None:
    ended = []

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    async def asking() -> None:
        async with together() as group:
            group.create_task(waiting())

    task = asyncio.ensure_future(asking())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["waiting"]
