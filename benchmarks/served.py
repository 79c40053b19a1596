"""An `interlock serve` in a process of its own, and what it and its children take of the machine."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tenacity import AsyncRetrying, retry_if_result, wait_fixed

from benchmarks.stage import ROOT
from deployments.serve.reach import Reach, reach

COMING_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """`pid` is that of `interlock serve`; Prefect's server is a child of it."""

    pid: int
    reach: Reach


@dataclass(frozen=True, slots=True)
class Taken:
    """Memory in MB (proportional set size, shared pages counted once) and processor seconds of a process tree."""

    memory_mb: float
    cpu_s: float


@asynccontextmanager
async def serving(data_dir: Path, environment: Mapping[str, str]) -> AsyncIterator[Server]:
    """A server with Prefect up. Raises TimeoutError where either does not come."""
    words = (sys.executable, "-c", "from deployments.cli import main; main()", "serve", "--port", "0")
    with (data_dir / "serve.out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(*words, stdout=out, stderr=out, env=dict(environment), cwd=ROOT)
    try:
        async with asyncio.timeout(COMING_S):
            found = await _reached(data_dir, process)
            await _prefect_up(found)
        yield Server(process.pid, found)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _reached(data_dir: Path, process: asyncio.subprocess.Process) -> Reach:
    while process.returncode is None:
        if found := await reach(data_dir):
            return found
        await asyncio.sleep(0.2)
    raise SystemExit(f"interlock serve ended: {(data_dir / 'serve.out').read_text()[-2000:]}")


async def _prefect_up(found: Reach) -> None:
    """Wait until the server says that it is ready with all its parts."""
    patience = AsyncRetrying(retry=retry_if_result(lambda answer: answer.status_code != 200), wait=wait_fixed(0.2))
    async with httpx.AsyncClient(trust_env=False, base_url=found.url) as client:
        await patience(client.get, "/readyz")


def taken(pid: int) -> Taken:
    """Of the process and all below it, as proc(5) tells."""
    tree = list(_tree(pid))
    return Taken(sum(map(_pss_mb, tree)), sum(map(_cpu_s, tree)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from _tree(int(child))


def _pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def idle(pid: int, seconds: float) -> tuple[float, float]:
    """MB, and the share of one processor, over so many seconds."""
    before, begun = taken(pid), time.monotonic()
    await asyncio.sleep(seconds)
    after = taken(pid)
    return after.memory_mb, (after.cpu_s - before.cpu_s) / (time.monotonic() - begun)
