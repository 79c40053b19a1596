"""A wanted revision that would be asked with another key than it is told: what of that is refused before the stop, and
what is not, since nobody can know it."""

from collections.abc import Mapping
from typing import Any

import pytest

from flows import requests
from flows.session import begin
from tests.flows.keyed import ENGINES, KEY, KEY_FILE, NEXT_FILE, WAYS, ask_for_a_key, ending, keyed, merged, nowhere
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

HAND_OVER = "/etc/interlock/hand-over.key"

WRONG = [
    # `engine.key_file`, what is said of it
    pytest.param(
        NEXT_FILE, f"on serving does not take the API key in {NEXT_FILE} (HTTP 401): the new start", id="another"
    ),
    pytest.param(
        None, "on serving asks for an API key (HTTP 401), and `engine.key_file` names none: the new start", id="none"
    ),
]


def described(engine: str, text: str, **of_engine: Any) -> Mapping[str, Any]:
    """A manifest that asks for a start, and changes nothing of what the engine is told."""
    wanted = merged(engine, **of_engine)
    return {**wanted, "unit": {**wanted.get("unit", {}), "description": text}}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("key_file", "said"), WRONG)
def test_a_key_file_alone_that_became_wrong_is_refused_and_the_service_goes_on(
    engine: Any, key_file: str | None, said: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with keyed(engine) as stage:
            await refused(stage, described(engine, "anew", key_file=key_file), said)

    run()


async def refused(stage: Rehearsal, wanted: Mapping[str, Any], said: str) -> None:
    before = await stage.state()
    ended = await stage.roll_out(**wanted)
    assert ending(ended) == ("refused", 3), ended.concluded
    error = ended.failures["baseline"]
    assert error.message.startswith("engine.key_file: http://127.0.0.1:")
    assert said in error.message
    assert "on serving" in error.hint or NEXT_FILE in error.hint
    assert await stage.state() == before
    await nowhere(stage, KEY)


@pytest.mark.parametrize("engine", ENGINES)
def test_another_file_with_the_same_key_is_taken(engine: Any) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            await ask_for_a_key(stage)
            stage.scene.serving.files.put(HAND_OVER, KEY, mode=0o600)
            for text, key_file in (("first", KEY_FILE), ("second", HAND_OVER)):
                ended = await stage.roll_out(**described(engine, text, key_file=key_file))
                assert ending(ended) == ("promoted", 0), ended.concluded

    run()


def test_a_rollback_to_a_revision_whose_key_file_went_wrong_is_refused() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            await ask_for_a_key(stage)
            stage.scene.serving.files.put(HAND_OVER, KEY, mode=0o600)
            for text, key_file in (("first", HAND_OVER), ("second", KEY_FILE)):
                ended = await stage.roll_out(**described("sglang", text, key_file=key_file))
                assert ending(ended) == ("promoted", 0), ended.concluded
            stage.scene.serving.files.put(HAND_OVER, "Okapi-blau-78", mode=0o600)
            before, ports = await stage.state(), stage.ports()
            service = ended.requested.service if ended.requested else ""
            back = await begin(ports, await requests.to_proven(ports, service, None, "", "rehearsal"))
            assert ending(back) == ("refused", 3), back.concluded
            assert f"does not take the API key in {HAND_OVER} (HTTP 401)" in back.failures["baseline"].message
            assert await stage.state() == before

    run()


def test_a_revision_that_needs_no_key_any_more_is_not_refused() -> None:
    """Its engine is told none: the running service asks for one all the same."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            await ask_for_a_key(stage)
            for changes in ({**WAYS["sglang"][1], **merged("sglang", key_file=KEY_FILE)}, {}):
                ended = await stage.roll_out(**changes)
                assert ending(ended) == ("promoted", 0), ended.concluded

    run()
