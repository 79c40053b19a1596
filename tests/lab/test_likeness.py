"""The simulated machine answers as real systemd does: the same words said to both, the answers line by line."""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.lab import lab
from tasks.lab.layer import Furnishing
from tasks.lab.record import LabHost
from tests.lab.likeness import Scene, cleared, real, simulated, transcript
from tests.lab.scenes_commands import COMMANDS
from tests.lab.scenes_lives import LIVES

pytestmark = pytest.mark.lab
SCENES = [*LIVES, *COMMANDS]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[LabHost]]:
    """One host for all scenes of this module, booted by the first."""
    booted: list[LabHost] = []
    yield booted
    for host in booted:
        lab.down_one(host)


@pytest.mark.parametrize(("number", "scene"), [pytest.param(n, *p.values, id=p.id) for n, p in enumerate(SCENES)])
async def test_both_answer_alike(number: int, scene: Scene, tmp_path: Path, hosts: list[LabHost]) -> None:
    if not hosts:
        hosts += await lab.up([Furnishing(enabled=False)], tied=True)
    await cleared(hosts[0])
    theirs = await transcript(real(hosts[0], f"app{number}"), scene)
    async with simulated(tmp_path) as machine:
        ours = await transcript(machine, scene)
    differing = "\n".join(difflib.unified_diff(theirs, ours, "systemd", "simulated", lineterm="", n=2))
    assert not differing, differing
