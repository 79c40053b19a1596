"""The schema's history: from empty to the newest, as the program's own tables say, from a checkout and from a wheel."""

import asyncio
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from state.errors import StoreOutdated, StoreUnavailable, UsageInvalid
from state.store.chain import seal, utc_text
from state.store.connect import open_stores
from state.store.database import store_url as with_driver
from state.store.migrate import check, current, scripts, upgrade
from state.store.port import GENESIS, NewEvent
from state.store.tables import REVISIONS

ROOT = Path(__file__).parents[2]


def config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(ROOT / "alembic"))
    return made


async def test_the_newest_schema_is_what_the_tables_say(store_url: str) -> None:
    assert await current(store_url) == REVISIONS[-1]
    assert await check(store_url) == ()


async def test_an_upgrade_of_what_is_new_changes_nothing(store_url: str) -> None:
    assert await upgrade(store_url) == REVISIONS[-1]
    assert await check(store_url) == ()


def test_the_program_knows_every_revision_in_order() -> None:
    history = ScriptDirectory.from_config(config()).walk_revisions()
    assert tuple(script.revision for script in reversed(list(history))) == REVISIONS


async def test_a_new_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "store.db"
    await upgrade(f"sqlite:///{path}")
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path.parent, path)] == [0o700, 0o600]
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_table_that_drifted_is_said(sqlite_url: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    connection.execute("ALTER TABLE rollouts DROP COLUMN summary")
    connection.close()
    (said,) = await check(sqlite_url)
    assert re.search("add_column.*summary", said)


def test_scripts_are_found_in_a_checkout_and_in_a_wheel(tmp_path: Path) -> None:
    here = tmp_path / "state" / "store" / "migrate.py"
    assert scripts(here) == tmp_path / "alembic"
    (tmp_path / "state" / "_migrations").mkdir(parents=True)
    assert scripts(here) == tmp_path / "state" / "_migrations"


def test_an_installed_copy_upgrades_from_anywhere(tmp_path: Path) -> None:
    """The wheel's layout: the scripts inside the package, and no checkout in sight."""
    site, path = tmp_path / "site-packages", tmp_path / "data" / "store.db"
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "state", site / "state", ignore=leave)
    shutil.copytree(ROOT / "alembic", site / "state" / "_migrations", ignore=leave)
    program = "import asyncio, sys; from state.store.migrate import upgrade; print(asyncio.run(upgrade(sys.argv[1])))"
    argv = [sys.executable, "-W", "error", "-c", program, f"sqlite:///{path}"]
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(argv, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (REVISIONS[-1], "")


def test_alembic_itself_finds_its_settings_and_nothing_to_do(sqlite_url: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "alembic", "check"]
    environment = {**os.environ, "INTERLOCK_DATABASE_URL": sqlite_url}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "No new upgrade operations detected.")


def test_the_folder_of_migrations_does_not_hide_the_library() -> None:
    assert scripts(ROOT / "state/store/migrate.py") == ROOT / "alembic"
    assert not (ROOT / "alembic/__init__.py").exists()


async def test_a_file_that_is_not_there_says_what_to_do_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with pytest.raises(
        StoreOutdated, match=f"^The event store at {path} has no tables yet: run `interlock db upgrade`$"
    ):
        async with open_stores(f"sqlite:///{path}", lambda: pytest.fail("no event was appended")):
            pytest.fail("a store that is not there was opened")
    assert not path.exists()


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        pytest.param("0001", f"is at schema 0001 of {REVISIONS[-1]}: run `interlock db upgrade`$", id="older"),
        pytest.param("9999", "is at schema 9999, newer than this program$", id="newer"),
    ],
)
async def test_another_schema_is_refused_with_what_to_do(sqlite_url: str, revision: str, said: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    with connection:
        connection.execute("UPDATE interlock_version SET version_num = ?", (revision,))
    connection.close()
    with pytest.raises(StoreOutdated, match=said) as caught:
        async with open_stores(sqlite_url, lambda: pytest.fail("no event was appended")):
            pytest.fail("a store of another schema was opened")
    assert (caught.value.exit_code, caught.value.found) == (3, revision)
    with pytest.raises(StoreOutdated, match=said):
        await check(sqlite_url)


async def test_a_newer_store_is_not_upgraded(sqlite_url: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    with connection:
        connection.execute("UPDATE interlock_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreOutdated, match="newer than this program"):
        await upgrade(sqlite_url)


UNREACHABLE = {
    "nobody-listens": "postgresql://interlock:s3cret@127.0.0.1:1/interlock",
    "no-such-socket": "postgresql://interlock@/interlock?host=/nonexistent",
    "no-such-name": "postgresql://interlock@db.invalid/interlock",
    "a-folder-is-no-file": "sqlite:////proc",
}


@pytest.mark.parametrize("url", [pytest.param(url, id=claim) for claim, url in UNREACHABLE.items()])
async def test_a_database_that_cannot_be_reached_is_unavailable(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"^The event store cannot be reached: ") as caught:
        async with open_stores(url, lambda: pytest.fail("no event was appended")):
            pytest.fail("it was opened")
    assert caught.value.retryable
    assert "s3cret" not in str(caught.value)
    with pytest.raises(StoreUnavailable):
        await upgrade(url)


async def test_a_database_that_does_not_exist_is_unavailable(postgres_url: str) -> None:
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        await current(re.sub(r"/t\d+", "/nowhere", postgres_url))


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("these are not the bytes of a database, and there are enough of them\n" * 99)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await current(f"sqlite:///{path}")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("here.db", "is no database URL", id="a-path"),
        pytest.param("mysql://root@db/x", "cannot keep its history in mysql", id="another-database"),
        pytest.param("sqlite://", "needs a file", id="sqlite-in-memory"),
        pytest.param("sqlite:///:memory:", "needs a file", id="sqlite-in-memory-by-name"),
    ],
)
def test_a_url_that_cannot_be_a_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(UsageInvalid, match=said):
        with_driver(url)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("sqlite:////var/x.db", "sqlite+aiosqlite:////var/x.db"),
        ("sqlite+aiosqlite:///x.db", "sqlite+aiosqlite:///x.db"),
        ("postgres://a@b/c", "postgresql+asyncpg://a@b/c"),
        ("postgresql+psycopg://a@b/c", "postgresql+asyncpg://a@b/c"),
        ("postgresql://a@b/c?sslmode=require", "postgresql+asyncpg://a@b/c?ssl=require"),
    ],
)
def test_the_driver_is_the_stores_own(given: str, used: str) -> None:
    assert with_driver(given).render_as_string(hide_password=False) == used


async def test_tables_that_vanish_under_an_open_store_are_said(sqlite_url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(sqlite_url, now) as stores:
        async with stores.engine.begin() as connection:
            await connection.exec_driver_sql("DROP TABLE events")
        for attempt in (stores.events.append("a", 0, [NewEvent("made", 1, {})]), stores.events.read("a")):
            with pytest.raises(StoreOutdated, match="run `interlock db upgrade`"):
                await attempt


@pytest.mark.parametrize("older", REVISIONS[:-1])
async def test_an_upgrade_keeps_the_history(tmp_path: Path, now: Callable[[], datetime], older: str) -> None:
    path = tmp_path / "store.db"
    environment = {**os.environ, "INTERLOCK_DATABASE_URL": f"sqlite:///{path}"}
    argv = [sys.executable, "-m", "alembic", "upgrade", older]
    process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, env=environment)
    assert await process.wait() == 0
    (event,) = seal("rollout-1", 0, GENESIS, [NewEvent("made", 1, {"number": 1})], now())
    row = (*(getattr(event, name) for name in ("stream", "version", "type", "schema_version", "data", "metadata")),)
    connection = sqlite3.connect(path)
    with connection:
        columns = "stream, version, type, schema_version, data, metadata, recorded_at, digest"
        values = (*row, utc_text(event.recorded_at), event.digest)
        connection.execute(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    connection.close()
    await upgrade(f"sqlite:///{path}")
    async with open_stores(f"sqlite:///{path}", now) as stores:
        assert await stores.events.read("rollout-1") == (event.recorded(1),)
    assert await check(f"sqlite:///{path}") == ()
