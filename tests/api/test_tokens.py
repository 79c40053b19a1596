"""Tokens: random, hashed at rest, scoped, revocable; made, listed and revoked on the command line."""

import hashlib
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from flows.ports import utc_now
from state.errors import NotFound, Refused, UsageInvalid
from state.store.connect import Stores
from state.store.tokens import SCOPES, TokenStore
from tests.cli.practice import Ran, interlock

NOW = utc_now()


async def rows(stores: Stores) -> list[dict[str, Any]]:
    async with stores.engine.connect() as connection:
        return [dict(row) for row in (await connection.execute(text("SELECT * FROM tokens"))).mappings()]


async def test_a_token_is_random_and_only_its_hash_is_kept(stores: Stores) -> None:
    kept = TokenStore(stores.engine)
    made = [await kept.make(f"ci-{number}", ["read"], NOW) for number in range(20)]
    secrets = [written.rpartition("_")[2] if written.count("_") == 2 else written[21:] for _, written in made]
    assert all(re.fullmatch(r"ilk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", written) for _, written in made)
    assert len(set(secrets)) == 20
    stored = await rows(stores)
    assert sorted(row["digest"] for row in stored) == sorted(hashlib.sha256(s.encode()).hexdigest() for s in secrets)
    assert not any(secret in repr(stored) for secret in secrets)


async def test_a_token_is_recognized_until_it_is_revoked(stores: Stores) -> None:
    kept = TokenStore(stores.engine)
    token, written = await kept.make("ci", ["rollback", "read"], NOW)
    assert token.scopes == ("read", "rollback")
    presented = await kept.presented(written, NOW)
    assert presented is not None
    assert (presented.name, presented.last_used_at) == ("ci", NOW)
    assert await kept.still_valid(token, NOW)
    revoked = await kept.revoke("ci", NOW + timedelta(hours=1))
    assert revoked.revoked_at == NOW + timedelta(hours=1)
    assert await kept.presented(written, NOW + timedelta(hours=2)) is None
    assert not await kept.still_valid(token, NOW + timedelta(hours=2))
    again = await kept.revoke("ci", NOW + timedelta(days=1))
    assert again.revoked_at == revoked.revoked_at


async def test_a_token_ends_at_its_time(stores: Stores) -> None:
    kept = TokenStore(stores.engine)
    _, written = await kept.make("ci", ["read"], NOW, NOW + timedelta(days=1))
    assert await kept.presented(written, NOW + timedelta(hours=23)) is not None
    assert await kept.presented(written, NOW + timedelta(hours=24)) is None


async def test_the_last_use_is_noted_once_a_minute(stores: Stores) -> None:
    kept = TokenStore(stores.engine)
    _, written = await kept.make("ci", ["read"], NOW)
    noted = []
    for seconds in (0, 30, 59, 61):
        await kept.presented(written, NOW + timedelta(seconds=seconds))
        noted.append((await kept.all())[0].last_used_at)
    assert noted == [NOW, NOW, NOW, NOW + timedelta(seconds=61)]


@pytest.mark.parametrize(
    ("name", "scopes", "days", "said"),
    [
        pytest.param("", ["read"], None, "is no name for a token", id="no-name"),
        pytest.param("a\nb", ["read"], None, "is no name for a token", id="two-lines"),
        pytest.param("a" * 65, ["read"], None, "is no name for a token", id="too-long"),
        pytest.param("ädä", ["read"], None, "is no name for a token", id="other-letters"),
        pytest.param("ci", [], None, "A token needs a scope", id="no-scope"),
        pytest.param("ci", ["read", "write"], None, "`write` is no scope", id="another-scope"),
        pytest.param("ci", ["read"], -1, "cannot have expired", id="expired-before-it-is-made"),
    ],
)
async def test_an_unfit_token_is_refused(
    stores: Stores, name: str, scopes: list[str], days: int | None, said: str
) -> None:
    until = NOW + timedelta(days=days) if days else None
    with pytest.raises(UsageInvalid, match=said):
        await TokenStore(stores.engine).make(name, scopes, NOW, until)
    assert await rows(stores) == []


async def test_a_name_is_given_once_since_events_name_it(stores: Stores) -> None:
    kept = TokenStore(stores.engine)
    await kept.make("ci", ["read"], NOW)
    await kept.revoke("ci", NOW)
    with pytest.raises(Refused, match="There is, or was, a token `ci`"):
        await kept.make("ci", SCOPES, NOW)
    with pytest.raises(NotFound, match="There is no token `cd`"):
        await kept.revoke("cd", NOW)


class Shell:
    """The command line on a store of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._settings = {"INTERLOCK_DATABASE_URL": url, "INTERLOCK_DATA_DIR": str(folder)}

    def __call__(self, *words: str) -> Ran:
        return interlock("token", *words, environment=self._settings)


@pytest.fixture
def shell(sqlite_url: str, tmp_path: Path) -> Shell:
    return Shell(sqlite_url, tmp_path)


def test_the_command_line_makes_lists_and_revokes(shell: Shell) -> None:
    made = shell("make", "on-call", "--scope", "rollback", "--scope", "read", "--expires", "90d")
    assert (made.code, made.out.count("\n")) == (0, 1)
    assert made.out.startswith("ilk_")
    assert "on-call: read, rollback; expires" in made.err
    assert "shown this once" in made.err
    listed = shell("list")
    assert re.match(r"on-call: read, rollback; expires \d{4}-\d\d-\d\d \d\d:\d\d; never used\n", listed.out)
    assert made.out.strip() not in listed.out
    assert "revoked" in shell("revoke", "on-call").out
    (token,) = shell("list", "--json").json
    assert (token["name"], token["valid"], token["scopes"]) == ("on-call", False, ["read", "rollback"])
    assert "digest" not in token


def test_a_token_in_json_is_whole(shell: Shell) -> None:
    made = shell("make", "ci", "--scope", "read", "--json")
    assert made.json["token"].startswith(f"ilk_{made.json['id']}_")
    assert made.json["expires_at"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("make", "ci", "--scope", "write"), 2, "`write` is no scope", id="another-scope"),
        pytest.param(("make", "ci"), 2, "--scope", id="no-scope"),
        pytest.param(("make", "ci", "--scope", "read", "--expires", "soon"), 2, "is no duration", id="no-duration"),
        pytest.param(("make", "ci", "--scope", "read", "--expires", "0s"), 2, "out of range", id="no-time-at-all"),
        pytest.param(("revoke", "nobody"), 2, "There is no token `nobody`", id="nobody"),
    ],
)
def test_what_is_off_is_told(shell: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    ran = shell(*words)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert shell("list").out.startswith("no token yet")
