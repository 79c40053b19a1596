"""A rollout that asks a person while its store is away: question and answer find each other, or nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flows import requests
from flows.ports import Ports, Watch
from flows.session import begin, recover
from flows.spooled import flush_left
from state.events import Judged
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import RecordedEvent
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.flows.store_faults import Line, ports_over
from tests.flows.test_hold import CLOSE, HOLD, answered, ending, told
from tests.flows.test_recover import newest
from tests.flows.test_refusals import until_recorded
from tests.practice.virtual_time import in_virtual_time


@asynccontextmanager
async def holding(stage: Rehearsal, ports: Ports, deadline: str) -> AsyncIterator["asyncio.Task[Rollout]"]:
    policy = {**HOLD, "hold": {"deadline": deadline}}
    manifest = load_manifest(stage.scene.manifest(claims=CLOSE, policy=policy), "manifest.yaml")
    driven = asyncio.create_task(begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal")))
    try:
        yield driven
    finally:
        driven.cancel()
        await asyncio.gather(driven, return_exceptions=True)


def test_a_question_put_while_the_store_is_away_is_there_once_it_is_back(tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            line, heard = Line(), list[str]()

            def recorded(_rollout: Rollout, event: RecordedEvent) -> None:
                line.cut = line.cut or (event.type == Judged.wire and not heard)

            ports = ports_over(stage, line, tmp_path, heard)
            watched = replace(ports, watch=Watch(recorded=recorded, said=heard.append))
            async with holding(stage, watched, "2h") as driven:
                while not heard:  # noqa: ASYNC110  # the spool tells by a call
                    await asyncio.sleep(1)
                await asyncio.sleep(300)
                assert (await told(stage))[0] == []
                line.cut = False
                await until_recorded(stage, "action-started", "hold")
                await answered(stage, "promote")
                assert ending(await driven)[0] == "promoted"
            assert not list_of(tmp_path)

    run()


@pytest.mark.parametrize(
    ("deadline", "in_time"), [pytest.param("2h", True, id="in-time"), pytest.param("5m", False, id="too-late")]
)
def test_an_answer_given_while_the_store_is_away_from_the_orchestrator(
    deadline: str, in_time: bool, tmp_path: Path
) -> None:
    """Too late: it went back by the default, and its facts are kept beside the history with the answer."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            before = (await stage.state()).unit_file
            line, heard = Line(), list[str]()
            ports = replace(ports_over(stage, line, tmp_path, heard), lease_s=0.001)
            async with holding(stage, ports, deadline) as driven:
                await until_recorded(stage, "action-started", "hold")
                line.cut = True
                await asyncio.sleep(60)
                await answered(stage, "promote")
                await asyncio.sleep(400)
                line.cut = False
                assert ending(await driven)[0] == ("promoted" if in_time else "rolled-back")
            await flush_left(ports)
            if in_time:
                assert list_of(tmp_path) == []
                return
            assert [path.suffix for path in list_of(tmp_path)] == [".kept"]
            assert (await told(stage))[1][0].answer == "promote"
            ended = await recover(replace(stage.ports("second"), lease_s=0.001), await newest(stage))
            assert ending(ended)[0] == "rolled-back"
            assert (await stage.state()).unit_file == before

    run()


def list_of(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != "reserve"]
