"""The real kernel's processes with their environments, read once for all that is asked at one moment."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

Found = tuple[tuple[int, frozenset[bytes]], ...]


class Scan:
    """What lives, by its environment. A look is good until the event loop goes on: nothing here waits in between, and
    to read all of /proc takes milliseconds."""

    def __init__(self) -> None:
        self._found: Found | None = None

    def environments(self) -> Found:
        """Each living process with its variables; zombies, which have none, and what cannot be read are left out."""
        if self._found is not None:
            return self._found
        found = tuple(_read())
        with contextlib.suppress(RuntimeError):  # without a loop each look is a new one
            asyncio.get_running_loop().call_soon(self._forget)
            self._found = found
        return found

    def marked(self, mark: bytes) -> Iterator[int]:
        """PIDs of those that have `mark` among their variables."""
        return (pid for pid, variables in self.environments() if mark in variables)

    def _forget(self) -> None:
        self._found = None


def _read() -> Iterator[tuple[int, frozenset[bytes]]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if text := Path(entry.path, "environ").read_bytes():
                    yield int(entry.name), frozenset(text.split(b"\0"))
