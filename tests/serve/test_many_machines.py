"""A work pool: two workers, PostgreSQL, ten services: each rollout once; a killed worker's are gone on with."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import httpx
import pytest

from flows.history import History
from flows.prefect_home import environment
from flows.settings import Settings
from flows.wiring import wired
from state.events import ActionStarted, LeaseTaken, decode
from state.rollout import Rollout
from tasks.practice.scene import scene
from tests.cli.practice import LIMIT_S, Stage
from tests.contract.store_fixtures import Postgres
from tests.serve.home import eventually, free_port

T = TypeVar("T")
pytestmark = [pytest.mark.serve, pytest.mark.prefect]

CHECKOUT = Path(__file__).parents[2]
PREFECT = (sys.executable, "-m", "prefect")
SERVICES = tuple(f"qwen-{number}" for number in range(10))
AT_ONCE = 3
"""Flow runs of a worker: each starts an interpreter, and both workers are to have some."""
SLOW = {"stage_seconds": {"weights": 4.0}}
LEASE_S = 15
PORTS = range(20_000, 30_000)
"""Below the kernel's range for outgoing connections, of which there are many here: one could take a stopped service's
port."""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Stage, ...]]:
    """A service on hosts of its own, each; all in one thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    def do(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(LIMIT_S)

    async def answering(name: str, port: int) -> Stage:
        made = await stack.enter_async_context(scene(tmp_path / name, settings=SLOW, port=port))
        await made.until_it_answers(LIMIT_S)
        return Stage(made, loop, tmp_path / name)

    async def all_answering() -> tuple[Stage, ...]:
        return tuple(await asyncio.gather(*map(answering, SERVICES, free_ports(len(SERVICES)))))

    try:
        yield do(all_answering())
    finally:
        do(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()


def free_ports(count: int) -> list[int]:
    return list(islice(filter(is_free, PORTS), count))


def is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


@pytest.fixture
def shared(machines: tuple[Stage, ...], postgres: Postgres, postgres_url: str, tmp_path: Path) -> Mapping[str, str]:
    """What every machine has in its environment."""
    for name, machine in zip(SERVICES, machines, strict=True):
        folder = tmp_path / "manifests" / name
        folder.mkdir(parents=True)
        (folder / "day.yaml").write_text(machine.scene.manifest(service=name), encoding="utf-8")
    keys = tmp_path / "ssh_config"
    keys.write_text("".join(f"IdentityFile {machine.scene.key}\n" for machine in machines), encoding="utf-8")
    postgres.sql("CREATE DATABASE prefect")
    database = postgres.url("prefect").replace("postgresql://", "postgresql+asyncpg://")
    return {
        **environment(tmp_path / "prefect", free_port()),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        "INTERLOCK_DATABASE_URL": postgres_url,
        "INTERLOCK_DATA_DIR": str(tmp_path / "data"),
        "INTERLOCK_MANIFESTS": str(tmp_path / "manifests"),
        "INTERLOCK_SSH_CONFIG": str(keys),
        "INTERLOCK_SSH_KEY": "",
        "INTERLOCK_LEASE_S": str(LEASE_S),
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PYTHONPATH": str(CHECKOUT),
    }


@contextmanager
def running(log: Path, shared: Mapping[str, str], *argv: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of a machine, with all that it starts, until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, **shared}, cwd=CHECKOUT,
        )  # fmt: skip
    try:
        yield process
    finally:
        power_off(process)


def power_off(process: "subprocess.Popen[bytes]") -> None:
    """Everything of the machine at once; a worker's flow runs are in sessions of their own."""
    for pid in (process.pid, *started_by(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(10)


def started_by(pid: int) -> list[int]:
    """The processes that it has started, and those that they have."""
    children = [int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in words(path)]
    return [one for child in children for one in (child, *started_by(child))]


def words(path: Path) -> list[str]:
    with suppress(OSError):  # it ended meanwhile
        return path.read_text(encoding="ascii").split()
    return []


def prefect(shared: Mapping[str, str], *words: str) -> None:
    subprocess.run([*PREFECT, *words], check=True, capture_output=True, env={**os.environ, **shared}, cwd=CHECKOUT)


def rest(shared: Mapping[str, str], method: str, path: str, body: object = None) -> httpx.Response:
    return httpx.request(method, f"{shared['PREFECT_API_URL']}{path}", json=body, trust_env=False, timeout=30.0)


def answers(shared: Mapping[str, str]) -> bool:
    with suppress(httpx.TransportError):
        return rest(shared, "GET", "/health").status_code == 200
    return False


@dataclass(frozen=True)
class Found:
    """How a rollout stands, the PIDs that had its lease in their order, and the actions that were begun."""

    folded: Rollout
    pids: tuple[int, ...]
    begun: tuple[str, ...]

    @property
    def is_in_the_middle(self) -> bool:
        """The service is stopped and started, and not yet proven."""
        return not self.folded.judged and any("start-service" in action for action in self.begun)


def rollouts(shared: Mapping[str, str]) -> dict[str, Found]:
    """By id, from the event store."""

    async def read() -> dict[str, Found]:
        async with wired(Settings()) as (ports, _):
            streams = await ports.events.streams("rollout-")
            return {name: await found(History(ports, name)) for name in (s.removeprefix("rollout-") for s in streams)}

    with patch.dict(os.environ, shared):
        return asyncio.run(read())


async def found(history: History) -> Found:
    folded = await history.load()
    events = [decode(recorded) for recorded in await history.recorded()]
    pids = tuple(int(re.findall(r"\d+", e.holder)[-1]) for e in events if isinstance(e, LeaseTaken))
    return Found(folded, pids, tuple(e.action for e in events if isinstance(e, ActionStarted)))


def under_way(shared: Mapping[str, str], machine: int) -> frozenset[str]:
    """The rollouts that a machine drives, once it has stopped a service, has not proven it, and has begun whatever it
    took: of a flow run that is taken and not yet begun there is nothing to go on with. None before."""
    own = {pid for pid in started_by(machine) if is_flow_run(pid)}
    driven = {n: f for n, f in rollouts(shared).items() if not f.folded.ended and own.intersection(f.pids)}
    is_time = len(driven) >= 2 and len(driven) == len(own) and any(f.is_in_the_middle for f in driven.values())
    return frozenset(driven) if is_time else frozenset()


def is_flow_run(pid: int) -> bool:
    with suppress(OSError):  # it ended meanwhile
        return b"prefect.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def all_ended(seen: dict[str, Found]) -> bool:
    return len(seen) == len(SERVICES) and all(f.folded.ended for f in seen.values())


@contextmanager
def prefect_server(shared: Mapping[str, str], log: Path) -> Iterator[None]:
    """With the pool, and the deployments of prefect.yaml."""
    main = "from flows.prefect_server import main; main()"
    argv = (sys.executable, "-c", main, str(os.getpid()), "127.0.0.1", shared["PREFECT_SERVER_API_PORT"])
    with running(log, shared, *argv):
        eventually(lambda: answers(shared), bool)
        prefect(shared, "work-pool", "create", "interlock", "--type", "process")
        prefect(shared, "--no-prompt", "deploy", "--all")
        yield


def ask_for_all(shared: Mapping[str, str]) -> None:
    deployment = rest(shared, "GET", "/deployments/name/rollout/rollout").json()["id"]
    for service in SERVICES:
        asked = {"parameters": {"target": f"{service}/day", "reason": "two workers"}}
        assert rest(shared, "POST", f"/deployments/{deployment}/create_flow_run", asked).status_code == 201


def test_each_of_ten_rollouts_runs_once_and_a_lost_machine_is_made_good_by_the_other(
    shared: Mapping[str, str], machines: tuple[Stage, ...], tmp_path: Path
) -> None:
    worker = (*PREFECT, "worker", "start", "--pool", "interlock", "--type", "process", "--limit", str(AT_ONCE))
    with prefect_server(shared, tmp_path / "server.log"):
        ask_for_all(shared)
        with running(tmp_path / "one.log", shared, *worker) as one, running(tmp_path / "two.log", shared, *worker):
            lost = eventually(lambda: under_way(shared, one.pid), bool)
            power_off(one)
            seen = eventually(lambda: rollouts(shared), all_ended, limit_s=240.0)
    assert sorted(f.folded.requested.service for f in seen.values() if f.folded.requested) == sorted(SERVICES)
    whole = {name: f for name, f in seen.items() if name not in lost}
    assert {len(f.pids) for f in whole.values()} == {1}, "each has one orchestrator"
    assert all(len(set(f.begun)) == len(f.begun) for f in whole.values()), "which begins each action once"
    assert {outcome(f) for f in whole.values()} == {"promoted"}
    assert all(f.folded.session > 0 and f.pids[-1] != f.pids[0] for n, f in seen.items() if n in lost)
    assert {outcome(seen[name]) for name in lost} <= {"promoted", "rolled-back"}
    assert all(machine.facts().active == "active" for machine in machines)


def outcome(seen: Found) -> str:
    assert seen.folded.concluded is not None
    return seen.folded.concluded.outcome
