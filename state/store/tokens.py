"""Tokens of the HTTP API: who may ask for what. A secret is 32 random bytes, and only its SHA-256 is stored.

A plain hash is enough here, where it would not be for a password: nobody can guess 256 random bits, however fast the
hash is (OWASP's reason for slow ones is low entropy).
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from state.errors import NotFound, Refused, UsageInvalid
from state.model import Value
from state.store.database import Database
from state.store.tables import tokens

Scope = Literal["read", "rollout", "rollback"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_WORD = re.compile(r"ilk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}", re.ASCII)
_NOTED_EVERY = timedelta(minutes=1)
"""How exact `last_used_at` is: a write for each request would make readers wait for each other."""


class Token(Value):
    """What is known of a token beside its secret. `scopes` are in the order of SCOPES; times are aware."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenStore:
    """Tokens in the event store's database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._database = Database(engine)

    async def make(
        self, name: str, scopes: Iterable[str], now: datetime, expires_at: datetime | None = None
    ) -> tuple[Token, str]:
        """A new token, and its text, which is not kept. Raises UsageInvalid, and Refused for a name that was given."""
        wanted = set(scopes)
        _refuse_unfit(name, wanted, now, expires_at)
        chosen, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        ordered = tuple(scope for scope in SCOPES if scope in wanted)
        token = Token(id=chosen, name=name, scopes=ordered, created_at=now, expires_at=expires_at)
        row = {**token.model_dump(), "scopes": " ".join(ordered), "digest": _digest(secret)}
        try:
            async with self._database.writing() as connection:
                await connection.execute(insert(tokens), row)
        except IntegrityError as error:
            raise Refused(f"There is, or was, a token `{name}`", hint="choose another name: events name it") from error
        return token, f"ilk_{chosen}_{secret}"

    async def all(self) -> tuple[Token, ...]:
        """Every token, oldest first, the revoked ones too."""
        async with self._database.reading() as connection:
            found = await connection.execute(select(tokens).order_by(tokens.c.created_at, tokens.c.id))
            return tuple(_token(dict(row)) for row in found.mappings())

    async def revoke(self, name: str, now: datetime) -> Token:
        """The token, revoked from now on, or since it was first. Raises NotFound."""
        named = tokens.c.name == name
        async with self._database.writing() as connection:
            await connection.execute(update(tokens).where(named, tokens.c.revoked_at.is_(None)).values(revoked_at=now))
            row = (await connection.execute(select(tokens).where(named))).mappings().first()
        if row is None:
            raise NotFound("token", name, hint="`interlock token list` lists them")
        return _token(dict(row))

    async def presented(self, text: str, now: datetime) -> Token | None:
        """The valid token that `text` is; None for any other text, which never says why."""
        parts = _WORD.fullmatch(text)
        if parts is None:
            return None
        chosen, secret = parts.groups()
        async with self._database.reading() as connection:
            row = (await connection.execute(select(tokens).where(tokens.c.id == chosen))).mappings().first()
        expected = row["digest"] if row else "0" * 64
        if not hmac.compare_digest(expected, _digest(secret)) or row is None:
            return None
        token = _token(dict(row))
        return await self._noted(token, now) if token.valid(now) else None

    async def still_valid(self, token: Token, now: datetime) -> bool:
        """Whether a token that was presented before has been neither revoked nor outlived since."""
        async with self._database.reading() as connection:
            row = (await connection.execute(select(tokens).where(tokens.c.id == token.id))).mappings().first()
        return row is not None and _token(dict(row)).valid(now)

    async def _noted(self, token: Token, now: datetime) -> Token:
        if token.last_used_at is not None and now - token.last_used_at < _NOTED_EVERY:
            return token
        async with self._database.writing() as connection:
            await connection.execute(update(tokens).where(tokens.c.id == token.id).values(last_used_at=now))
        return token.model_copy(update={"last_used_at": now})


def _refuse_unfit(name: str, scopes: set[str], now: datetime, expires_at: datetime | None) -> None:
    if not _NAME.fullmatch(name):
        raise UsageInvalid(
            f"{name!r} is no name for a token", hint="1 to 64 letters, digits, spaces or . _ @ -, as in `grafana`"
        )
    if unknown := sorted(scopes - set(SCOPES)):
        raise UsageInvalid(f"`{unknown[0]}` is no scope", hint=f"use {', '.join(SCOPES)}")
    if not scopes:
        raise UsageInvalid("A token needs a scope", hint=f"use {', '.join(SCOPES)}")
    if expires_at is not None and expires_at <= now:
        raise UsageInvalid("A token cannot have expired before it is made", hint="give a time that is to come")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def _token(row: dict[str, Any]) -> Token:
    del row["digest"]
    return Token.model_validate({**row, "scopes": tuple(row["scopes"].split())})
