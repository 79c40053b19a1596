"""The practice machine's files: modes, owners, links, atomic renames; in memory or below a real directory."""

import errno
import os
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["file", "directory", "link"]
_MAX_LINKS = 40
KERNEL_TREES = ("/sys", "/proc", "/dev")

BASE_DIRECTORIES = (
    "/etc/systemd/system", "/etc/systemd/system/timers.target.wants", "/run/systemd/system", "/run/systemd/transient",
    "/usr/lib/systemd/system", "/etc/udev/rules.d", "/run/interlock", "/var/lib", "/tmp", "/opt", "/root", "/home",
    "/dev", "/usr/local/lib/systemd/system",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """What `lstat` tells. `target` is a link's text; `mtime_ns` counts from the epoch."""

    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    owner: str = "root"
    group: str = "root"
    target: str = ""


class Named(Protocol):
    """What a path has to be known of to be walked: whether it leads on, and where a link leads."""

    @property
    def kind(self) -> Kind: ...

    @property
    def target(self) -> str: ...


def refusal(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class Layer(ABC):
    """A kernel's tree (sysfs, procfs) laid over the disk's."""

    def drawing(self) -> int | None:
        """The same number as long as nothing has come, gone or moved; None if that cannot be told."""
        return None

    @abstractmethod
    def covers(self, path: str) -> bool: ...

    @abstractmethod
    def lstat(self, path: str) -> Entry: ...

    def find(self, path: str) -> Entry | None:
        """The same, None where nothing is."""
        try:
            return self.lstat(path)
        except FileNotFoundError:
            return None

    @abstractmethod
    def read(self, path: str) -> bytes: ...

    @abstractmethod
    def names(self, path: str) -> list[str]: ...


class Files(ABC):
    """The root file system. Paths are absolute; every method raises OSError with the errno a kernel would give.

    `full` makes each write that needs room fail with ENOSPC, but for those to /run, which is a tmpfs of its own.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._last_ns = 0
        self.layers: list[Layer] = []
        self.full = False
        self.owners: dict[str, tuple[str, str]] = {}

    # What a backing does; paths have no links in them except, possibly, the last name.
    @abstractmethod
    def _lstat(self, path: str) -> Entry: ...
    @abstractmethod
    def _read(self, path: str) -> bytes: ...
    @abstractmethod
    def _write(self, path: str, content: bytes, mode: int | None) -> None: ...
    @abstractmethod
    def _mkdir(self, path: str, mode: int) -> None: ...
    @abstractmethod
    def _names(self, path: str) -> list[str]: ...
    @abstractmethod
    def _symlink(self, target: str, path: str) -> None: ...
    @abstractmethod
    def _rename(self, old: str, new: str) -> None: ...
    @abstractmethod
    def _remove(self, path: str) -> None: ...
    @abstractmethod
    def _chmod(self, path: str, mode: int) -> None: ...
    @abstractmethod
    def free(self) -> int:
        """Bytes left on the disk."""
        ...

    def resolve(self, path: str, *, last: bool = True) -> str:
        """`path` without links (`last`: the last name followed too). A missing folder raises."""
        todo, done, links = _parts(path), "/", 0
        while todo:
            name = todo.pop(0)
            if name == "..":
                done = posixpath.dirname(done)
                continue
            here = f"{done.rstrip('/')}/{name}"
            entry = self._named(here)
            if entry is not None and entry.kind == "link" and (todo or last):
                links += 1
                if links > _MAX_LINKS:
                    raise refusal(errno.ELOOP, path)
                todo = _parts(entry.target) + todo
                done = "/" if entry.target.startswith("/") else done
                continue
            if todo and (entry is None or entry.kind != "directory"):
                raise refusal(errno.ENOENT if entry is None else errno.ENOTDIR, path)
            done = here
        return done

    def lstat(self, path: str) -> Entry:
        return self._entry(self.resolve(path, last=False))

    def stat(self, path: str) -> Entry:
        return self._entry(self.resolve(path))

    def exists(self, path: str) -> bool:
        try:
            return self._named(self.resolve(path)) is not None
        except OSError:
            return False

    def read(self, path: str) -> bytes:
        real = self.resolve(path)
        entry = self._entry(real)
        if entry.kind == "directory":
            raise refusal(errno.EISDIR, path)
        layer = self.layer(real)
        return layer.read(real) if layer else self._read(real)

    def write(
        self, path: str, content: bytes | str, *, mode: int | None = None, owner: tuple[str, str] | None = None
    ) -> None:
        """Write a whole file; an existing one keeps its mode and owner unless they are given."""
        real = self._writable(path)
        entry = self._maybe(real)
        if entry is not None and entry.kind == "directory":
            raise refusal(errno.EISDIR, path)
        data = content.encode() if isinstance(content, str) else content
        if data and self._no_room(real):
            self._write(real, b"", mode if entry is None else None)
            raise refusal(errno.ENOSPC, path)
        self._write(real, data, mode if mode is not None or entry else 0o644)
        if owner is not None or entry is None:
            self.owners[real] = owner or ("root", "root")

    def mkdir(
        self, path: str, mode: int = 0o755, *, parents: bool = False, owner: tuple[str, str] | None = None
    ) -> None:
        if parents:
            self._parents(path)
        real = self._writable(path, last=False)
        if self._maybe(real) is not None:
            if parents and self.stat(path).kind == "directory":
                return
            raise refusal(errno.EEXIST, path)
        if self._no_room(real):
            raise refusal(errno.ENOSPC, path)
        self._mkdir(real, mode)
        self.owners[real] = owner or ("root", "root")

    def put(self, path: str, content: bytes | str, *, mode: int = 0o644) -> None:
        """Write a file and the directories above it."""
        self._parents(path)
        self.write(path, content, mode=mode)

    def names(self, path: str) -> list[str]:
        real = self.resolve(path)
        if self._entry(real).kind != "directory":
            raise refusal(errno.ENOTDIR, path)
        layer = self.layer(real)
        if layer:
            return sorted(layer.names(real))
        return sorted({*self._names(real), *self._roots_below(real)})

    def symlink(self, target: str, path: str) -> None:
        real = self._writable(path, last=False)
        if self._maybe(real) is not None:
            raise refusal(errno.EEXIST, path)
        self._symlink(target, real)

    def rename(self, old: str, new: str) -> None:
        source, goal = self._writable(old, last=False), self._writable(new, last=False)
        moved, replaced = self._entry(source), self._maybe(goal)
        if replaced is not None and replaced.kind == "directory" and moved.kind != "directory":
            raise refusal(errno.EISDIR, new)
        if replaced is not None and replaced.kind != "directory" and moved.kind == "directory":
            raise refusal(errno.ENOTDIR, new)
        self._rename(source, goal)
        self.owners[goal] = self.owners.pop(source, ("root", "root"))

    def remove(self, path: str) -> None:
        """Unlink a file or link, or an empty directory."""
        real = self._writable(path, last=False)
        entry = self._entry(real)
        if entry.kind == "directory" and self._names(real):
            raise refusal(errno.ENOTEMPTY, path)
        self._remove(real)
        self.owners.pop(real, None)

    def chmod(self, path: str, mode: int) -> None:
        self._chmod(self._writable(path), mode)

    def chown(self, path: str, owner: str, group: str) -> None:
        self.owners[self._writable(path)] = (owner, group)

    def layer(self, path: str) -> Layer | None:
        if not path.startswith(KERNEL_TREES):
            return None
        for layer in self.layers:
            if layer.covers(path):
                return layer
        return None

    def tick(self) -> int:
        """A time for a change: now, and later than every change before."""
        self._last_ns = max(self._now_ns(), self._last_ns + 1)
        return self._last_ns

    def _writable(self, path: str, *, last: bool = True) -> str:
        real = self.resolve(path, last=last)
        if self.layer(real):
            raise refusal(errno.EACCES, path)
        parent = self._entry(posixpath.dirname(real))
        if parent.kind != "directory":
            raise refusal(errno.ENOTDIR, path)
        return real

    def _no_room(self, real: str) -> bool:
        return self.full and not real.startswith("/run/")

    def _entry(self, real: str) -> Entry:
        layer = self.layer(real)
        return layer.lstat(real) if layer else self._lstat(real)

    def _maybe(self, real: str) -> Entry | None:
        layer = self.layer(real)
        if layer:
            return layer.find(real)
        try:
            return self._lstat(real)
        except FileNotFoundError:
            return None

    def _named(self, real: str) -> Named | None:
        return self._maybe(real)

    def _parents(self, path: str) -> None:
        parent = posixpath.dirname(posixpath.normpath(path))
        if parent != "/" and not self.exists(parent):
            self.mkdir(parent, parents=True)

    def _roots_below(self, real: str) -> list[str]:
        return [name for name in ("sys", "proc") if real == "/" and self.layer(f"/{name}")]

    def owner_of(self, real: str) -> tuple[str, str]:
        return self.owners.get(real, ("root", "root"))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
