"""How the command line finds the server of its data directory: by its lock, and a file that only its user can read."""

import asyncio
import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

from flows.ports import utc_now
from state.model import Value
from state.store.connect import Stores
from state.store.tokens import SCOPES, TokenStore


class Reach(Value):
    """Where the server listens, as seen from its own machine, and a token that may do everything."""

    url: str
    token: str
    pid: int


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


async def tell_reach(data_dir: Path, stores: Stores, url: str) -> None:
    """Write the file anew, 0600, with the token that it had if that is still valid. Raises StoreUnavailable."""
    known = TokenStore(stores.engine)
    token = _token_before(data_dir)
    if not token or await known.presented(token, utc_now()) is None:
        _, token = await known.make(f"local {os.urandom(4).hex()}", SCOPES, utc_now())
    _write(_path(data_dir), Reach(url=url, token=token, pid=os.getpid()))
    _token_path(data_dir).unlink(missing_ok=True)


def forget_reach(data_dir: Path) -> None:
    """While there is no server to reach, the token alone is kept."""
    token = _token_before(data_dir)
    if token:
        _replace(_token_path(data_dir), token)
    _path(data_dir).unlink(missing_ok=True)


def _token_path(data_dir: Path) -> Path:
    return data_dir / "serve.token"


def _token_before(data_dir: Path) -> str:
    with suppress(OSError, ValueError):
        return Reach.model_validate_json(_path(data_dir).read_text(encoding="utf-8")).token
    with suppress(OSError):
        return _token_path(data_dir).read_text(encoding="utf-8")
    return ""


def _write(path: Path, value: Reach) -> None:
    _replace(path, json.dumps(value.as_json()))


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    beside.replace(path)
