"""What the commands of `interlock token` do."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import PydanticCustomError
from rich.console import Console

from deployments.run import print_json
from flows.ports import utc_now
from flows.settings import Settings
from flows.wiring import wired
from state.errors import UsageInvalid
from state.manifest.quantities import parse_duration
from state.store.tokens import Token, TokenStore


def lifetime_s(text: str) -> float:
    """Seconds of a duration such as `90d`. Raises UsageInvalid."""
    try:
        seconds = parse_duration(text)
    except PydanticCustomError as error:
        raise UsageInvalid(f"--expires: {error.message()}", hint="for example 90d, 12h or 30m") from error
    if not 0 < seconds <= timedelta(days=36_500).total_seconds():
        raise UsageInvalid(f"--expires: {text} is out of range", hint="for example 90d, 12h or 30m")
    return seconds


async def make(console: Console, name: str, scopes: Iterable[str], lifetime: timedelta | None, *, as_json: bool) -> int:
    """The token's text goes to standard output, alone on its line, so that it can be put away by a redirection."""
    now = utc_now()
    async with wired(Settings()) as (_, stores):
        made, text = await TokenStore(stores.engine).make(name, scopes, now, now + lifetime if lifetime else None)
    if as_json:
        print_json({**_json(made, now), "token": text})
        return 0
    print(text)
    Console(stderr=True, highlight=False).print(f"{_line(made, now)}\nit is shown this once: keep it", style="dim")
    return 0


async def list_all(console: Console, *, as_json: bool) -> int:
    async with wired(Settings()) as (_, stores):
        kept = await TokenStore(stores.engine).all()
    now = utc_now()
    if as_json:
        print_json([_json(one, now) for one in kept])
        return 0
    for one in kept:
        console.print(_line(one, now), style=None if one.valid(now) else "dim", soft_wrap=True)
    if not kept:
        console.print("no token yet: `interlock token make NAME --scope read`")
    return 0


async def revoke(console: Console, name: str, *, as_json: bool) -> int:
    now = utc_now()
    async with wired(Settings()) as (_, stores):
        revoked = await TokenStore(stores.engine).revoke(name, now)
    if as_json:
        print_json(_json(revoked, now))
    else:
        console.print(_line(revoked, now))
    return 0


def _json(token: Token, now: datetime) -> dict[str, Any]:
    return {**token.as_json(), "valid": token.valid(now)}


def _line(token: Token, now: datetime) -> str:
    used = f"last used {token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never used"
    return f"{token.name}: {', '.join(token.scopes)}; {_standing(token, now)}; {used}"


def _standing(token: Token, now: datetime) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d %H:%M}"
    if token.expires_at is None:
        return "does not expire"
    return f"{'expires' if token.valid(now) else 'expired'} {token.expires_at:%Y-%m-%d %H:%M}"
