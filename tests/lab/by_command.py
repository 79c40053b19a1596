"""The command line in a process of its own, with a lab host's settings, and what a rollout left there."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.history import History
from flows.lease import subjects
from state.leases import lease_of
from state.rollout import Rollout
from tasks.practice.scene import UNIT_FILE
from tests.lab.contained import Stage
from tests.lab.orchestrated import HostState

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-c", "from deployments.cli import main; main()")
LIMIT_S = 180.0

QUICK = {
    "stage_seconds": {
        "arguments": 0.05, "weights": 0.1, "draft-weights": 0.05, "graphs": 0.1, "http": 0.02, "warm-up": 0.05,
    },
    "exit_seconds": 0.05,
}  # fmt: skip
"""Settings of a stand-in that starts in half a second."""


@dataclass
class Command:
    """A command that runs; `said` is what it has printed so far, line by line."""

    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    async def until(self, word: str) -> None:
        """Read standard output up to a line with `word`."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            async for line in self.process.stdout:
                self.said.append(line.decode())
                if word in self.said[-1]:
                    return
        raise AssertionError(f"no `{word}` in: {''.join(self.said)}")

    async def ended(self) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        out, err = await asyncio.wait_for(self.process.communicate(), LIMIT_S)
        assert self.process.returncode is not None
        return self.process.returncode, "".join(self.said) + out.decode(), err.decode()


@asynccontextmanager
async def begun(made: Stage, *words: str, **settings: object) -> AsyncIterator[Command]:
    """`interlock WORDS`; killed if it still runs at the end of the block."""
    given = {f"INTERLOCK_{name.upper()}": str(value) for name, value in {"generation_s": 10, **settings}.items()}
    environment = os.environ | made.environment | {"INTERLOCK_DATABASE_URL": "", "PYTHONUNBUFFERED": "1"} | given
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *words, cwd=ROOT, env=environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def interlock(made: Stage, *words: str, **settings: object) -> tuple[int, str, str]:
    async with begun(made, *words, **settings) as command:
        return await command.ended()


async def told(made: Stage, *words: str, **settings: object) -> tuple[int, Any]:
    """Exit code, and the JSON that the command printed."""
    code, out, err = await interlock(made, *words, "--json", **settings)
    assert out, err
    return code, json.loads(out)


def manifest_of(made: Stage, arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """The path of the seed's manifest for this host, changed as asked."""
    path = made.folder / "manifest.yaml"
    path.write_text(made.manifest(arguments, **changes), encoding="utf-8")
    return str(path)


async def newest(made: Stage) -> Rollout:
    """The rollout that was begun last, folded anew from its stream."""
    async with made.ports() as ports:
        name = (await ports.events.streams("rollout-"))[-1].removeprefix("rollout-")
        return await History(ports, name).load()


async def held(made: Stage, rollout: Rollout) -> list[str]:
    """The streams of leases that the rollout has not given back."""
    assert rollout.requested is not None
    async with made.ports() as ports:
        leases = {stream: lease_of(await ports.events.read(stream)) for stream in subjects(rollout.requested)}
    return [stream for stream, lease in leases.items() if lease.rollout]


async def is_old(made: Stage, before: HostState) -> bool:
    now = await made.state()
    return (now.files, now.active, now.argv) == (before.files, before.active, before.argv)


def is_new(now: HostState, before: HostState, rollout: Rollout) -> bool:
    """The revision's files are the only ones that differ, and its words are the running process's."""
    assert rollout.requested is not None
    revision = rollout.requested.revision
    wanted = {file.path.lstrip("/"): file.digest for file in revision.files}
    differ = {name for name in now.files.keys() | before.files.keys() if now.files.get(name) != before.files.get(name)}
    whole = all(now.files.get(name, "").endswith(digest) for name, digest in wanted.items())
    runs = now.active == "active" and now.argv[-len(revision.argv[1:]) :] == tuple(revision.argv[1:])
    return differ <= {UNIT_FILE.lstrip("/")} and whole and runs


async def left(made: Stage) -> str:
    """What no rollout that has ended leaves: half-written files, the restoring script, its timer and its mark."""
    names = " -o ".join(
        f"-name '{name}'" for name in ("*.interlock-new", "revert.sh*", "interlock-revert*", "fence.new")
    )
    listed = f"find /var/lib/interlock /etc {names}"
    reverted = "grep -l reverted /var/lib/interlock/fence"
    return await made.run("sh", "-c", f"{listed}; {reverted}; true")


async def replayed(made: Stage) -> None:
    """The digests of the whole history hold, and it replays to the same ends and verdicts."""
    code, out, err = await interlock(made, "history", "--verify")
    assert code == 0, (out, err)
    assert "every digest whole" in out
    code, out, err = await interlock(made, "replay", "--all")
    assert code == 0, (out, err)
