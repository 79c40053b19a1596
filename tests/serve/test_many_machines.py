"""A work pool: two workers and PostgreSQL, each rollout once; a killed worker's is gone on with by the other."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest

from flows.history import History
from flows.prefect_home import environment
from flows.settings import Settings
from flows.wiring import wired
from state.events import ActionStarted, LeaseTaken, decode
from state.rollout import Rollout
from tests.cli.practice import Stage, stage
from tests.contract.store_fixtures import Postgres
from tests.serve.home import eventually, free_port

pytestmark = [pytest.mark.serve, pytest.mark.prefect]

CHECKOUT = Path(__file__).parents[2]
PREFECT = (sys.executable, "-m", "prefect")
SERVICES = ("qwen-0", "qwen-1", "qwen-2")
SLOW = {"stage_seconds": {"weights": 4.0}}
LEASE_S = 15


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Stage, ...]]:
    """A service on hosts of its own, each."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(stage(tmp_path / name, settings=SLOW)) for name in made(tmp_path))


def made(folder: Path) -> tuple[str, ...]:
    for name in SERVICES:
        (folder / name).mkdir()
    return SERVICES


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


def rollouts(shared: Mapping[str, str]) -> dict[str, tuple[Rollout, int, tuple[str, ...]]]:
    """By id: how it stands, the PID that has its lease, and what was begun."""

    async def read() -> dict[str, tuple[Rollout, int, tuple[str, ...]]]:
        found = {}
        async with wired(Settings()) as (ports, _):
            for stream in await ports.events.streams("rollout-"):
                history = History(ports, stream.removeprefix("rollout-"))
                folded = await history.load()
                events = [decode(recorded) for recorded in await history.recorded()]
                holders = [e.holder for e in events if isinstance(e, LeaseTaken)]
                pid = int(re.findall(r"\d+", holders[-1])[-1]) if holders else 0
                begun = tuple(e.action for e in events if isinstance(e, ActionStarted))
                found[history.rollout_id] = (folded, pid, begun)
        return found

    with patch.dict(os.environ, shared):
        return asyncio.run(read())


def is_in_the_middle(shared: Mapping[str, str], machine: int) -> bool:
    """Whether a machine has stopped a service, and has not yet proven it."""
    found = rollouts(shared).values()
    stopped = [pid for r, pid, begun in found if any("start-service" in a for a in begun) and not r.judged]
    return bool({*stopped} & {*started_by(machine)})


def all_ended(found: dict[str, tuple[Rollout, int, tuple[str, ...]]]) -> bool:
    return len(found) == len(SERVICES) and all(folded.ended for folded, _, _ in found.values())


def test_each_rollout_runs_once_and_a_lost_machine_is_made_good_by_the_other(
    shared: Mapping[str, str], machines: tuple[Stage, ...], tmp_path: Path
) -> None:
    port = shared["PREFECT_SERVER_API_PORT"]
    server = (
        sys.executable,
        "-c",
        "from flows.prefect_server import main; main()",
        str(os.getpid()),
        "127.0.0.1",
        port,
    )
    worker = (*PREFECT, "worker", "start", "--pool", "interlock", "--type", "process")
    with running(tmp_path / "server.log", shared, *server):
        eventually(lambda: answers(shared), bool)
        prefect(shared, "work-pool", "create", "interlock", "--type", "process")
        prefect(shared, "--no-prompt", "deploy", "--all")
        with (
            running(tmp_path / "one.log", shared, *worker) as one,
            running(tmp_path / "two.log", shared, *worker),
        ):
            deployment = rest(shared, "GET", "/deployments/name/rollout/rollout").json()["id"]
            for service in SERVICES:
                asked = {"parameters": {"target": f"{service}/day", "reason": "two workers"}}
                assert rest(shared, "POST", f"/deployments/{deployment}/create_flow_run", asked).status_code == 201
            eventually(lambda: is_in_the_middle(shared, one.pid), bool)
            power_off(one)
            found = eventually(lambda: rollouts(shared), all_ended, limit_s=180.0)
    ended = [folded for folded, _, _ in found.values()]
    assert sorted(r.requested.service for r in ended if r.requested) == sorted(SERVICES)
    assert {r.concluded.outcome for r in ended if r.concluded} <= {"promoted", "rolled-back"}
    assert [r.concluded.outcome for r in ended if r.concluded].count("promoted") >= 2
    assert sum(r.session > 0 for r in ended) >= 1, "the lost machine's rollout was gone on with"
    assert all(machine.facts().active == "active" for machine in machines)
