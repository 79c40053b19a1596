"""A Prefect server of the tests' own, and the database that the next one begins with."""

import asyncio
import fcntl
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from flows.prefect_home import PrefectHome
from tests.cli.practice import LIMIT_S

T = TypeVar("T")


class OwnPrefect:
    """A server kept by a loop of its own, as the command line keeps one."""

    def __init__(self, directory: Path) -> None:
        self.home = PrefectHome(directory)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    def kill(self) -> None:
        """Without a word, as the kernel does when memory runs out."""
        process = self.home._process
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.do(self.home.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()


@contextmanager
def own_prefect(directory: Path, shared: Path) -> Iterator[OwnPrefect]:
    """A server that answers. The first leaves its empty database in `shared`, and those after it, of any process, begin
    with a copy: most of a start's processor time is the making of its tables."""
    empty = shared / "prefect.db"
    directory.mkdir()
    with patch.dict(os.environ):
        os.environ.pop("PREFECT_API_URL", None)
        made = OwnPrefect(directory)
        try:
            with (shared / "prefect.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if empty.exists():
                    _copy(empty, directory / "prefect.db")
                    fcntl.flock(lock, fcntl.LOCK_UN)
                made.do(made.home.start())
                _settings_read_anew()
                assert made.do(made.home.answers())
                if not empty.exists():
                    _copy(directory / "prefect.db", empty)
            yield made
        finally:
            made.close()
    _settings_read_anew()


def _settings_read_anew() -> None:
    """Prefect reads them at its import. Where that was before, it knows no server, and starts a temporary one in the
    home of whoever runs the tests."""
    if loaded := sys.modules.get("prefect.context"):
        loaded.refresh_global_settings_context()


def _copy(source: Path, target: Path) -> None:
    """Whole, whoever writes to it meanwhile."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)
