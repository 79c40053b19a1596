"""What every engine's rollouts are held to on a practice host in memory."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flows import requests
from flows.replay import rejudge
from flows.session import begin
from state.manifest.load import load_manifest
from state.rollout import Rollout
from tasks.practice.engine.install import engine_files, install_in
from tasks.practice.scene import UNIT, manifest_text
from tests.flows.rehearsal import Rehearsal, rehearsal


async def differences(stage: Rehearsal) -> Sequence[Any]:
    """Verdicts that come out otherwise when the stored evidence is judged once more."""
    names = [name.removeprefix("rollout-") for name in await stage.store.streams("rollout-")]
    return [one for name in names async for _, found in rejudge(stage.ports("replay"), name) for one in found]


async def turned_back(engine: str, scripted: Mapping[str, Any], cause: str, remedy: str) -> None:
    """A fault of the new start is found, named with its remedy, and the old state comes back."""
    async with rehearsal(engine=engine, faults=[scripted]) as stage:
        before = await stage.state()
        ended = await stage.roll_out()
        assert ended.concluded is not None
        assert (ended.concluded.outcome, ended.concluded.exit_code) == ("rolled-back", 1), ended.concluded.summary
        assert re.search(cause, ended.concluded.summary), ended.concluded.summary
        assert await stage.state() == before, ended.concluded.summary
        first: list[Any] = list(ended.failures.values()) or [v for v in ended.judged["new:1"].verdicts if v.remedy]
        told = " ".join(getattr(x, "hint", "") or getattr(x, "remedy", "") for x in first)
        assert re.search(remedy, told, re.IGNORECASE), told
        assert await differences(stage) == []


async def refused_first(engine: str, version: str, arguments: Mapping[str, Any], refusal: str) -> None:
    """What the installed engine would not take is refused, and nothing is touched."""
    async with rehearsal(engine=engine, version=version) as stage:
        before = await stage.state()
        ended = await stage.roll_out(arguments)
        assert ended.concluded is not None
        assert ended.concluded.outcome == "refused", ended.concluded.summary
        assert refusal in ended.concluded.summary
        assert await stage.state() == before


async def exchanged(
    engine: str, seed: Mapping[str, Any], faults: Sequence[Mapping[str, Any]], stage: Rehearsal, **changes: Any
) -> Rollout:
    """A service of SGLang's goes to another engine; each side is asked, read and judged as the engine that it is."""
    install_in(stage.scene.serving.files, engine_files(engine=engine, faults=list(faults)))
    before = await stage.state()
    manifest = load_manifest(manifest_text(seed, unit={"name": UNIT}, **changes), "manifest.yaml")
    ended = await begin(stage.ports(), requests.from_manifest(stage.ports(), manifest, "rollout", "rehearsal"))
    assert ended.plan is not None
    assert ended.plan.previous is not None
    assert (ended.plan.previous.engine, ended.plan.target.engine) == ("sglang", engine)
    assert ended.concluded is not None
    if ended.concluded.outcome == "rolled-back":
        assert await stage.state() == before
        assert {v.outcome for v in ended.judged["old:1"].verdicts} == {"held"}
    return ended
