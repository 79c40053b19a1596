"""Run seeds of simulated rollouts, shrink and tell what is broken.

python -m tests.simulation.simulate --seeds 20000 --jobs 2
python -m tests.simulation.simulate --seed 4711            one run, with its history
"""

import argparse
import asyncio
import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from unittest import mock

from flows.spooled import flush_left
from state.canonical import digest_of
from state.errors import InterlockError
from state.rollout import Rollout
from tests.practice.virtual_time import VirtualTimeLoop
from tests.simulation import ends
from tests.simulation.befall import Befall
from tests.simulation.faults import Fault, draw
from tests.simulation.orchestrator import Killed, Orchestrator
from tests.simulation.small_proof import small_proofs
from tests.simulation.spooled import of_spools
from tests.simulation.world import World, seeded_uuids

ROUNDS, CALM_AFTER = 60, 12
"""Rounds of looking after what is unfinished; after so many the world is well, and each rollout must end."""

TELL_EVERY = 2000

GAPS_S = (2.0, 30.0, 70.0, 150.0, 600.0)
QUIET_S = 400.0
"""After the end: longer than every timer that could have been left."""


@dataclass(frozen=True)
class Run:
    """What came of a seed: how each rollout ended, what was broken, a digest of the history, and the faults
    whose moment did not come."""

    seed: int
    faults: tuple[Fault, ...]
    outcomes: tuple[str, ...]
    broken: tuple[str, ...]
    digest: str
    left: tuple[Fault, ...] = ()


class Cast:
    """Every orchestrator of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._befall = Befall(world, self.another)
        self.tasks: list[asyncio.Task[Rollout]] = []
        self._count = 0

    def orchestrator(self, rollout: str) -> Orchestrator:
        self._count += 1
        machine = self._world.machine()
        return Orchestrator(self._world, f"o{self._count}", self._world.requested(rollout), self._befall, machine)

    def begin(self, rollout: str) -> None:
        self.tasks.append(self.orchestrator(rollout).begin())

    def recover(self, rollout: str) -> None:
        self.tasks.append(self.orchestrator(rollout).recover())

    def take_over(self, rollout: str) -> None:
        self.tasks.append(self.orchestrator(rollout).take_over())

    def another(self, kind: str, beside: Orchestrator) -> None:
        name = beside.requested.rollout
        match kind:
            case "recovers":
                self.recover(name)
            case "takes-over":
                self.take_over(name)
            case "rival":
                self.begin(f"r{self._count + 1}")

    async def at_work(self, seconds: float) -> None:
        """Until nobody is at work any more, or so long."""
        busy = [task for task in self.tasks if not task.done()]
        if busy:
            await asyncio.wait(busy, timeout=seconds)

    async def look_at_spools(self) -> None:
        """Somebody gives a command on each machine, now that all is well."""
        self._world.heal()
        for machine in self._world.disks:
            who = Orchestrator(self._world, "a person", self._world.requested("none"), self._befall, machine)
            await flush_left(who.ports())

    def surprises(self) -> list[str]:
        """What an orchestrator ended with that is no deliberate error."""
        ended = [task.exception() for task in self.tasks if task.done() and not task.cancelled()]
        kind = (InterlockError, Killed, type(None))
        return [f"no-traceback: {error!r}" for error in ended if not isinstance(error, kind)]


async def _unfinished(world: World) -> list[str]:
    """The ids of rollouts that somebody has to go on with; a stranded one waits for a person."""
    return [name for name, rollout in (await world.rollouts()).items() if not rollout.ended]


async def _live(world: World) -> tuple[list[str], tuple[str, ...]]:
    await world.begin()
    before = world.state()
    cast = Cast(world)
    cast.begin("r1")
    await _look_after(world, cast)
    await cast.look_at_spools()
    broken = cast.surprises() + await ends.of_world(world, before) + await of_spools(world)
    outcomes = await _outcomes(world)
    if "stranded" in outcomes:
        broken += await _mended(world, cast)
    for events, rollout in (await world.histories()).values():
        broken += ends.of_history(events, rollout)
    return broken, outcomes


async def _look_after(world: World, cast: Cast) -> None:
    """Recover what is unfinished, until nothing is and everybody is gone; then wait for whatever was left to go off."""
    for turn in range(ROUNDS):
        until = asyncio.get_running_loop().time() + world.random.choice(GAPS_S)
        await cast.at_work(_left_until(until))
        left = await _unfinished(world)
        if not left and all(task.done() for task in cast.tasks):
            break
        await asyncio.sleep(_left_until(until))
        if turn == CALM_AFTER:
            world.heal()
        for name in left:
            cast.recover(name)
    await asyncio.sleep(QUIET_S)


def _left_until(moment: float) -> float:
    return max(0.0, moment - asyncio.get_running_loop().time())


async def _mended(world: World, cast: Cast) -> list[str]:
    """A person mends what was wrong and goes on with each stranded rollout: then the old state comes back."""
    world.heal()
    await world.end_restoring()
    if any(fault.kind in ("stuck-processes", "hangs") for fault in world.faults):
        await world.serving.reboot()
    await world.started()
    for name, rollout in (await world.rollouts()).items():
        if rollout.concluded and rollout.concluded.outcome == "stranded":
            cast.take_over(name)
            await _look_after(world, cast)
    left = [outcome for outcome in await _outcomes(world) if outcome == "stranded"]
    return ["mended: it is stranded although everything is well again"] if left else []


async def _outcomes(world: World) -> tuple[str, ...]:
    rollouts = await world.rollouts()
    return tuple(r.concluded.outcome if r.concluded else "unfinished" for r in rollouts.values())


async def _digest(world: World) -> str:
    events = await world.store.read_all(0, 100_000)
    return digest_of([[e.stream, e.version, e.type, e.digest] for e in events])


async def _whole(world: World) -> Run:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)  # tasks of the killed
    try:
        broken, outcomes = await _live(world)
        digest = await _digest(world)
    finally:
        await world.aclose()
    return Run(
        world.seed, world.faults, outcomes, tuple(dict.fromkeys((*world.broken, *broken))), digest, tuple(world.pending)
    )


def run(seed: int, faults: Sequence[Fault] | None = None) -> Run:
    """One simulated life of a service; the same seed and faults give the same run."""
    return run_world(seed, faults)[0]


def run_world(seed: int, faults: Sequence[Fault] | None = None) -> tuple[Run, World]:
    with mock.patch("uuid.uuid4", seeded_uuids(seed)):
        world = World(seed, draw(seed) if faults is None else tuple(faults))
        with small_proofs(world.proofs), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(_whole(world)), world


def shrunk(found: Run) -> Run:
    """The same break with as few faults as possible."""
    names = {line.partition(":")[0] for line in found.broken}
    for left_out in found.faults:
        fewer = run(found.seed, [fault for fault in found.faults if fault is not left_out])
        if names & {line.partition(":")[0] for line in fewer.broken}:
            return shrunk(fewer)
    return found


def told(found: Run) -> str:
    """How to see it again."""
    faults = ", ".join(map(str, found.faults)) or "none"
    lines = "\n".join(f"    {line}" for line in found.broken)
    again = f"python -m tests.simulation.simulate --seed {found.seed}"
    return f"seed {found.seed}, faults {faults}: {', '.join(found.outcomes)}\n{lines}\n    again: {again}"


def history(world: World) -> str:
    lines = []
    for event in asyncio.run(world.store.read_all(0, 100_000)):
        data = event.data
        what = data.get("action") or data.get("rollout") or data.get("actor") or ""
        more = data.get("outcome") or data.get("holder") or (data.get("error") or {}).get("message", "")
        at = (event.recorded_at - world.serving.clock.base).total_seconds()
        lines.append(
            f"{at:9.2f} {event.stream:32} {event.version:3} {event.type:20} {what} {data.get('attempt', '')} {more}"
        )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int)
    given = parser.parse_args(words)
    if given.seed is not None:
        return _one(given.seed)
    return _many(range(given.first, given.first + given.seeds), given.jobs)


def _spare_the_collector() -> None:
    """What is imported stays; a run leaves little behind, and looking for it takes a tenth of the time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _one(seed: int) -> int:
    found, world = run_world(seed)
    print(history(world))
    print(told(found))
    return bool(found.broken)


def _many(seeds: range, jobs: int) -> int:
    begun, outcomes, failed = time.monotonic(), Counter[str](), []
    with multiprocessing.get_context("spawn").Pool(jobs, _spare_the_collector) as pool:
        for count, found in enumerate(pool.imap_unordered(run, seeds, chunksize=20), 1):
            outcomes.update(found.outcomes)
            if count % TELL_EVERY == 0:
                print(f"{count} seeds in {time.monotonic() - begun:.0f} s", flush=True)
            if found.broken:
                failed.append(found)
                print(told(found), flush=True)
    for found in failed[:5]:
        print("shrunk: " + told(shrunk(found)))
    ended = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    print(f"{len(seeds)} seeds in {time.monotonic() - begun:.0f} s on {jobs} processes: {ended}; {len(failed)} broken")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
