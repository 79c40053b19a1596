"""How the command line finds the server of its data directory: by its lock, and a file that only its user can read."""

import asyncio
import fcntl
import getpass
import json
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from flows.ports import utc_now
from flows.settings import Settings
from state.model import Value
from state.store.connect import Stores
from state.store.tokens import SCOPES, Token, TokenStore


class Reach(Value):
    """Where the server listens, as seen from its own machine, and a token that may do everything; `store` names its
    event store without saying where that is (`Settings.store_digest`)."""

    url: str
    token: str
    pid: int
    store: str


LOCAL = " local-"

COMING_S = 30.0
"""Seconds that a server may take from its lock to its listening."""

_LOOK_S = 0.1


def _path(data_dir: Path) -> Path:
    return data_dir / "serve.json"


def is_served(data_dir: Path) -> bool:
    """Whether a server has this data directory now."""
    try:
        descriptor = os.open(data_dir / "serve.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def reach(data_dir: Path) -> Reach | None:
    """The server of this data directory, None if there is none; one that is just starting is waited for."""
    for _ in range(int(COMING_S / _LOOK_S)):
        if not is_served(data_dir):
            return None
        with suppress(OSError, ValueError):
            return Reach.model_validate_json(_path(data_dir).read_text(encoding="utf-8"))
        await asyncio.sleep(_LOOK_S)
    return None


async def tell_reach(settings: Settings, stores: Stores, url: str) -> None:
    """Write the file anew, 0600, with the token that it had if that is still valid. Raises StoreUnavailable."""
    known, data_dir = TokenStore(stores.engine), settings.data_dir
    token = _token_before(data_dir)
    if not token or await known.presented(token, utc_now()) is None:
        _, token = await known.make(_token_name(), SCOPES, utc_now())
    reached = Reach(url=url, token=token, pid=os.getpid(), store=settings.store_digest)
    _replace(_path(data_dir), json.dumps(reached.as_json()))
    _token_path(data_dir).unlink(missing_ok=True)


def is_local(token: Token) -> bool:
    """Whether it is one that a server made for the command line on its own machine."""
    return LOCAL in token.name


def forget_reach(data_dir: Path) -> None:
    """While there is no server to reach, the token alone is kept."""
    token = _token_before(data_dir)
    if token:
        _replace(_token_path(data_dir), token)
    _path(data_dir).unlink(missing_ok=True)


def _token_name() -> str:
    """Who may read the file, which is who asks by it; names of tokens are given once."""
    user = re.sub(r"[^A-Za-z0-9._@-]", "-", f"{getpass.getuser()}@{socket.gethostname()}")
    return f"{user[:48]}{LOCAL}{os.urandom(4).hex()}"


def _token_path(data_dir: Path) -> Path:
    return data_dir / "serve.token"


def _token_before(data_dir: Path) -> str:
    with suppress(OSError, ValueError):
        return Reach.model_validate_json(_path(data_dir).read_text(encoding="utf-8")).token
    with suppress(OSError):
        return _token_path(data_dir).read_text(encoding="utf-8")
    return ""


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    beside.replace(path)
