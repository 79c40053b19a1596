"""The orchestrator killed by `kill -9` at instants drawn from a seed: the host ends old or new, and proven."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from tasks.lab.layer import Furnishing
from tests.lab.by_command import (
    QUICK,
    begun,
    held,
    is_new,
    is_old,
    left,
    manifest_of,
    newest,
    replayed,
    told,
)
from tests.lab.contained import Stage, prepare, stages
from tests.lab.orchestrated import HostState

pytestmark = pytest.mark.lab

SEED = int(os.environ.get("INTERLOCK_SEED", "20"))
HOSTS, EACH = 4, 5
LEASE_S, TIMER_S = 3, 10
MARGIN = 1.05
"""The last instants may lie behind the rollout's end: then nothing is there to be gone on with."""

Way = Literal["recovered", "taken-over", "left-alone"]


class Kill(NamedTuple):
    """`part` of a whole rollout's time after its first word; then the rollout is gone on with, or left to its host."""

    part: float
    way: Way


def drawn(seed: int) -> list[list[Kill]]:
    """One instant from each twentieth of the time, dealt to the hosts; every way comes on each host."""
    draw, count = random.Random(seed), HOSTS * EACH
    parts = [(n + draw.random()) / count * MARGIN for n in range(count)]
    draw.shuffle(parts)
    ways: tuple[Way, ...] = ("recovered", "taken-over", "left-alone")
    return [[Kill(parts[host * EACH + n], ways[(host + n) % 3]) for n in range(EACH)] for host in range(HOSTS)]


async def test_killed_at_any_instant_the_host_ends_old_or_new_and_proven(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folders = [tmp_path / f"store-{number}" for number in range(HOSTS)]
    for folder in folders:
        folder.mkdir()
        await prepare(folder)
    print(f"seed {SEED}: {drawn(SEED)}")
    ends: list[str] = []
    async with stages(folders[0], *[Furnishing(settings=QUICK)] * HOSTS) as made, asyncio.TaskGroup() as lanes:
        for stage, folder, kills in zip(made, folders, drawn(SEED), strict=True):
            stage.folder = folder
            lanes.create_task(_lane(stage, kills, ends))
    record_property("ends", ends)
    assert len(ends) == HOSTS * EACH


async def _lane(made: Stage, kills: list[Kill], ends: list[str]) -> None:
    whole_s = await _untouched(made)
    fraction = 0.7
    for kill in kills:
        before = await made.state()
        end = await _killed(made, kill, fraction, whole_s)
        ends.append(f"{made.host.name} {kill.way} at {kill.part:.2f} of {whole_s:.1f} s: {end}")
        print(ends[-1])
        if not await is_old(made, before):
            fraction = 1.45 - fraction  # 0.70 and 0.75 by turns
    await replayed(made)


async def _untouched(made: Stage) -> float:
    """A whole rollout from its first word to its end, in seconds."""
    async with begun(made, "apply", manifest_of(made), "--bare", lease_s=LEASE_S) as command:
        await command.until("plan")
        began = time.monotonic()
        code, out, err = await command.ended()
    assert code == 0, (out, err)
    return time.monotonic() - began


async def _killed(made: Stage, kill: Kill, fraction: float, whole_s: float) -> str:
    before = await made.state()
    left_alone = kill.way == "left-alone"
    wanted = manifest_of(
        made, {"mem_fraction_static": round(fraction, 2)}, policy={"timer": f"{TIMER_S if left_alone else 60}s"}
    )
    async with begun(made, "apply", wanted, "--bare", lease_s=LEASE_S) as command:
        await command.until("plan")
        await asyncio.sleep(kill.part * whole_s)
        if command.process.returncode is None:
            command.process.send_signal(signal.SIGKILL)
        code, out, err = await command.ended()
    if code not in (-signal.SIGKILL, 0):
        raise RuntimeError(out + err)
    fired = left_alone and await _fired(made)
    outcome = await _gone_on_with(made, kill.way)
    await _holds(made, before, outcome)
    if not left_alone:
        assert outcome == "promoted", kill
    return f"{outcome}{', by the own timer' if fired else ''}"


async def _fired(made: Stage) -> bool:
    """Whether the host's timer waited when the orchestrator died; then it has acted, in its time."""
    if not _armed(await made.state()):
        return False
    began = time.monotonic()
    after = await made.until(lambda now: not _armed(now) and now.active == "active", TIMER_S + 20)
    assert not _armed(after)
    assert after.active == "active"
    assert time.monotonic() - began < TIMER_S + 10
    return True


def _armed(now: HostState) -> bool:
    return any(unit.startswith("interlock-revert") for unit in now.units)


async def _gone_on_with(made: Stage, way: Way) -> str:
    """What `recover` ends with; the end as it was recorded where there was nothing left to go on with."""
    rollout = await newest(made)
    assert rollout.requested is not None
    name = rollout.requested.rollout
    if rollout.ended:
        assert rollout.concluded is not None
        return rollout.concluded.outcome
    if way == "taken-over":
        code, ended = await told(made, "recover", name, "--take-over", lease_s=LEASE_S)
    else:
        await asyncio.sleep(LEASE_S)
        code, ended = await told(made, "recover", name, lease_s=LEASE_S)
    assert (code, ended["exit_code"]) == (ended["exit_code"], code)
    return str(ended["outcome"])


async def _holds(made: Stage, before: HostState, outcome: str) -> None:
    """What the host itself and the history say of the end."""
    rollout, now = await newest(made), await made.state()
    assert rollout.ended
    assert await held(made, rollout) == []
    assert (now.units, now.reload, await left(made)) == ((), "no", ""), outcome
    if outcome == "promoted":
        assert is_new(now, before, rollout)
    else:
        assert outcome == "rolled-back"
        assert await is_old(made, before)
    assert {verdict.outcome for verdict in rollout.verdicts} == {"held"}, outcome
