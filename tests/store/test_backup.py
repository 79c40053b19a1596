"""Backups taken under writers, restored, and held against what was written; nothing is ever written over."""

import asyncio
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from contract.store_fixtures import Postgres

from flows.ports import Ports
from flows.replay import replay_all
from state.errors import HistoryCorrupt, InterlockError, Refused, StoreOutdated, StoreUnavailable, UsageInvalid
from state.store.backup import back_up, restore
from state.store.connect import Stores, open_stores
from state.store.export import import_lines
from state.store.migrate import check
from state.store.port import NewEvent
from state.store.projections import catch_up
from state.store.read_models import PROJECTIONS
from state.store.tables import REVISIONS
from state.store.verification import verify_history
from tests.cli.practice import interlock
from tests.store.test_held import no_host
from tests.store.test_writers import TALKER

TALK = "talk-1"
HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))


async def fill(url: str, now: Callable[[], datetime]) -> None:
    """The recorded histories with their evidence, and tables that were shown once."""
    async with open_stores(url, now) as stores:
        for path in HISTORIES:
            await import_lines(stores.events, path.read_text(encoding="utf-8").splitlines(), stores.evidence)
        await catch_up(stores.engine, PROJECTIONS)


async def is_whole(stores: Stores) -> bool:
    """Digests, evidence, tables and judgements of the recorded histories are as they were."""
    found = await verify_history(stores.events)
    assert found.faults == ()
    ports = Ports(events=stores.events, evidence=stores.evidence, open_host=no_host, holder="test")
    replayed = await replay_all(ports, stores)
    assert replayed.rejudged > 0
    return replayed.equal


@contextmanager
def talking(url: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that appends as fast as it can, and says which version is stored."""
    argv = [sys.executable, "-c", TALKER.replace("rollout-1", TALK), url]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            until_it_said(process, 20)
            yield process
        finally:
            process.kill()
            process.stdout.read()  # type: ignore[union-attr]  # it is a pipe


def until_it_said(process: "subprocess.Popen[str]", version: int) -> int:
    assert process.stdout is not None
    while (said := int(process.stdout.readline())) < version:
        pass
    return said


async def test_a_backup_under_a_writer_is_of_one_moment_and_is_restored_whole(
    sqlite_url: str, tmp_path: Path, now: Callable[[], datetime]
) -> None:
    await fill(sqlite_url, now)
    kept, back = tmp_path / "backups" / "kept.db", f"sqlite:///{tmp_path / 'back' / 'store.db'}"
    with talking(sqlite_url) as writer:
        before = until_it_said(writer, 30)
        made = await back_up(sqlite_url, kept)
        after = await said_by_now(sqlite_url, now)
        until_it_said(writer, after + 1)
    restored = await restore(back, kept, now)
    assert (made.schema, made.events) == (REVISIONS[-1], restored.events)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept, kept.parent)] == [0o600, 0o700]
    assert sorted(path.name for path in kept.parent.iterdir()) == ["kept.db"]
    async with open_stores(back, now) as stores:
        written = len(await stores.events.read(TALK))
        assert before <= written <= after
        assert await check(back) == ()
        await stores.events.append(TALK, written, [NewEvent("made", 1, {})])
    assert await said_by_now(sqlite_url, now) > after


async def said_by_now(url: str, now: Callable[[], datetime]) -> int:
    async with open_stores(url, now) as stores:
        return len(await stores.events.read(TALK))


async def test_a_restored_file_replays_as_the_one_it_was_made_from(
    sqlite_url: str, tmp_path: Path, now: Callable[[], datetime]
) -> None:
    await fill(sqlite_url, now)
    kept, back = tmp_path / "kept.db", f"sqlite:///{tmp_path / 'back.db'}"
    await back_up(sqlite_url, kept)
    assert (await restore(back, kept, now)).unfinished == ()
    async with open_stores(back, now) as stores, open_stores(sqlite_url, now) as before:
        assert await is_whole(stores)
        assert await stores.events.read_all() == await before.events.read_all()


async def test_a_dump_of_postgresql_under_a_writer_is_restored_whole(
    postgres: Postgres, postgres_url: str, tmp_path: Path, now: Callable[[], datetime]
) -> None:
    """The words of docs/guides/backup.md."""
    await fill(postgres_url, now)
    dump, restored = tmp_path / "interlock.dump", re.sub(r"/t(\d+)", r"/restored\1", postgres_url)
    name = restored.removeprefix("postgresql://postgres@/").partition("?")[0]
    with talking(postgres_url) as writer:
        before = until_it_said(writer, 30)
        await ran(str(postgres.programs / "pg_dump"), "--format=custom", f"--file={dump}", postgres_url)
        after = await said_by_now(postgres_url, now)
        until_it_said(writer, after + 1)
    await ran(*on(postgres, "createdb"), name)
    back = (str(postgres.programs / "pg_restore"), "--exit-on-error", "--single-transaction", f"--dbname={restored}")
    try:
        await ran(*back, str(dump))
        async with open_stores(restored, now) as stores:
            assert before <= len(await stores.events.read(TALK)) <= after
            assert await check(restored) == ()
            assert await is_whole(stores)
        assert "append-only" in postgres.refusal("DELETE FROM events", restored)
        with pytest.raises(AssertionError, match="already exists"):
            await ran(*back, str(dump))
    finally:
        await ran(*on(postgres, "dropdb"), name)


def on(postgres: Postgres, program: str) -> tuple[str, ...]:
    return str(postgres.programs / program), f"--host={postgres.socket}", "--username=postgres"


async def ran(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()


def test_neither_writes_over_what_is_there(
    sqlite_url: str, sqlite_template: Path, tmp_path: Path, now: Callable[[], datetime]
) -> None:
    other = Path(shutil.copy(sqlite_template, tmp_path / "other.db"))
    before = other.read_bytes()
    for attempt in (back_up(sqlite_url, other), restore(f"sqlite:///{other}", tmp_path / "store.db", now)):
        with pytest.raises(Refused, match=f"{other} is there already, and nothing was written"):
            asyncio.run(attempt)
    assert other.read_bytes() == before


def test_what_comes_while_a_backup_is_written_stays(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.db"
    monkeypatch.setattr("state.store.backup._settle", lambda _part: path.write_text("mine", encoding="utf-8"))
    with pytest.raises(Refused, match="is there already"):
        asyncio.run(back_up(sqlite_url, path))
    assert path.read_text(encoding="utf-8") == "mine"
    assert sorted(p.name for p in tmp_path.iterdir() if "kept" in p.name) == ["kept.db"]


async def test_rollouts_that_were_unfinished_are_named(
    sqlite_url: str, tmp_path: Path, now: Callable[[], datetime]
) -> None:
    async with open_stores(sqlite_url, now) as stores:
        await stores.events.append("rollout-a1", 0, [NewEvent("rollout-requested", 1, {})])
    await back_up(sqlite_url, tmp_path / "kept.db")
    assert (await restore(f"sqlite:///{tmp_path / 'b.db'}", tmp_path / "kept.db", now)).unfinished == ("rollout-a1",)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])


def scribbled(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    for page in range(4, len(raw) // 4096):
        raw[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    path.write_bytes(raw)


def changed(sql: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("DROP TRIGGER IF EXISTS events_no_update")
            connection.execute(sql)
        connection.close()

    return change


DAMAGED: dict[str, tuple[Callable[[Path], object], type[InterlockError], str]] = {
    "a-file-that-is-cut-off": (cut, StoreUnavailable, "malformed|damaged"),
    "pages-that-are-overwritten": (scribbled, StoreUnavailable, "malformed|damaged"),
    "text": (lambda path: path.write_text("notes\n" * 999, encoding="utf-8"), StoreUnavailable, "not a database"),
    "nothing": (lambda path: path.write_bytes(b""), StoreOutdated, "has no tables yet"),
    "no-file": (lambda path: path.unlink(), StoreOutdated, "has no tables yet"),
    "another-program's-database": (changed("DROP TABLE events"), StoreOutdated, "has no tables yet"),
    "a-newer-store": (changed("UPDATE interlock_version SET version_num = '9999'"), StoreOutdated, "newer than this"),
    "a-changed-event": (
        changed("UPDATE events SET data = '{}' WHERE version = 3"),
        HistoryCorrupt,
        "Event 3 of rollout-.* is not what was recorded",
    ),
}


@pytest.mark.parametrize(("damage", "error", "said"), [pytest.param(*c, id=claim) for claim, c in DAMAGED.items()])
async def test_what_is_no_whole_backup_is_not_restored(
    sqlite_url: str,
    tmp_path: Path,
    now: Callable[[], datetime],
    damage: Callable[[Path], object],
    error: type[InterlockError],
    said: str,
) -> None:
    await fill(sqlite_url, now)
    kept, folder = tmp_path / "kept.db", tmp_path / "back"
    await back_up(sqlite_url, kept)
    damage(kept)
    with pytest.raises(error, match=said) as caught:
        await restore(f"sqlite:///{folder / 'store.db'}", kept, now)
    assert caught.value.hint or isinstance(caught.value, StoreOutdated)
    assert list(folder.iterdir()) == []


async def test_a_store_in_postgresql_is_left_to_its_own_programs(postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageInvalid, match="backed up and restored by PostgreSQL's own programs") as caught:
        await back_up(postgres_url, tmp_path / "kept.db")
    assert "pg_dump" in caught.value.hint


async def test_a_place_that_cannot_be_written_is_said(sqlite_url: str) -> None:
    with pytest.raises(UsageInvalid, match=r"Cannot write /proc/none/kept\.db: "):
        await back_up(sqlite_url, Path("/proc/none/kept.db"))


def test_an_operator_backs_up_and_restores(tmp_path: Path, sqlite_url: str, now: Callable[[], datetime]) -> None:
    asyncio.run(fill(sqlite_url, now))
    kept = str(tmp_path / "kept.db")
    here = {"INTERLOCK_DATABASE_URL": sqlite_url}
    there = {"INTERLOCK_DATABASE_URL": f"sqlite:///{tmp_path / 'there.db'}"}
    made = interlock("db", "backup", kept, "--json", environment=here)
    assert (made.code, made.json["schema"], made.err) == (0, REVISIONS[-1], "")
    again = interlock("db", "backup", kept, environment=here)
    assert (again.code, again.out) == (3, "")
    assert again.err.startswith(f"error: {kept} is there already, and nothing was written\nhint: ")
    back = interlock("db", "restore", kept, environment=there)
    assert back.out == f"{made.json['events']} events in 4 streams are restored, every digest whole\n"
    assert interlock("history", "--verify", environment=there).code == 0
    assert interlock("replay", "--all", environment=there).code == 0
