"""Spools as files: `NAME.spool` in one folder, appended to and synced before anybody relies on it.

The process that writes one holds a lock on it (flock(2), gone when the process is), so that no other takes it for left.
POSIX: rename(2) and unlink(2) are durable once their folder is synced.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

from state.errors import StoreUnavailable

SUFFIX, KEPT_SUFFIX = ".spool", ".kept"
RESERVE = "reserve"
RESERVE_BYTES = 8 << 20
"""Set aside before a service is stopped, and given up when the disk is full: the store may be on it too."""


class SpoolFolder:
    """Implements `Spools`. The folder is made when it is first needed, for its user alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, name: str) -> "FileSpool":
        return FileSpool(self._path / f"{quote(name, safe='')}{SUFFIX}")

    def left(self) -> tuple[str, ...]:
        return tuple(unquote(path.name.removesuffix(SUFFIX)) for path in sorted(self._path.glob(f"*{SUFFIX}")))

    def reserve(self) -> None:
        """Make sure of some room for later. A disk that has none now is no reason not to go on."""
        with suppress(OSError):
            _make_folder(self._path)
            descriptor = os.open(self._path / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)


class FileSpool:
    """Implements `SpoolFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._size = 0

    @property
    def place(self) -> str:
        return str(self._path)

    def hold(self) -> bool:
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        return self._locked(descriptor)

    async def append(self, line: bytes) -> None:
        with _told(self._path):
            if self._descriptor is None:
                self._hold_again() if self._size else self._create()
            assert self._descriptor is not None  # held, or that has raised
            try:
                self._write(self._descriptor, line)
            except OSError:
                (self._path.parent / RESERVE).unlink(missing_ok=True)
                self._write(self._descriptor, line)

    def read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._sync_folder()
        self.let_go()
        self._size = 0

    def set_aside(self) -> str:
        number = 1
        while (kept := self._path.with_name(f"{self._path.stem}.{number}{KEPT_SUFFIX}")).exists():
            number += 1
        self._path.rename(kept)
        self._sync_folder()
        self.let_go()
        self._size = 0
        return str(kept)

    def let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _create(self) -> None:
        """A new file, held."""
        _make_folder(self._path.parent)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not self._locked(descriptor):
            raise FileExistsError(f"{self._path} is held by another process")
        self._sync_folder()

    def _hold_again(self) -> None:
        """What was let go of, if nobody has flushed it or written to it since."""
        size = self._size
        if not self.hold() or self._size != size:
            self.let_go()
            raise FileExistsError(f"{self._path} is another process's by now")

    def _locked(self, descriptor: int) -> bool:
        """Whether the lock could be had, on the file that still has this name."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.fstat(descriptor), self._path.stat())
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            os.close(descriptor)
            return False
        self._descriptor, self._size = descriptor, os.fstat(descriptor).st_size
        return True

    def _write(self, descriptor: int, line: bytes) -> None:
        """The whole line, synced; or none of it, and OSError."""
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, self._size)
            raise
        self._size += len(line)

    def _sync_folder(self) -> None:
        _sync(self._path.parent)


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raises StoreUnavailable for what the disk refuses."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"and what happens cannot be spooled to {path}: {error.strerror or error}",
            hint=f"make room for, and let this user write to, {path.parent}",
        ) from error
