"""Where the practice machine's files lie: in memory, or below a real directory."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.practice.files import BASE_DIRECTORIES, KERNEL_TREES, Entry, Files, Kind, Named, refusal


@dataclass(slots=True)
class _Node:
    kind: Kind
    mode: int
    mtime_ns: int
    content: bytes = b""
    target: str = ""


class MemoryFiles(Files):
    """A tree in memory. `capacity` is the disk's size in bytes."""

    def __init__(self, now_ns: Callable[[], int], *, capacity: int = 512 * 2**30) -> None:
        super().__init__(now_ns)
        self._nodes = {"/": _Node("directory", 0o755, now_ns())}
        self._capacity = capacity
        self._resolved: dict[tuple[str, bool], str] = {}
        self._missing: set[tuple[str, bool]] = set()
        self._in_trees: dict[tuple[str, bool], tuple[list[int | None], str]] = {}
        for path in BASE_DIRECTORIES:
            self.mkdir(path, parents=True)
        self.chmod("/tmp", 0o1777)
        self.write("/dev/null", b"", mode=0o666)

    def resolve(self, path: str, *, last: bool = True) -> str:
        """Remembered until a folder or a link comes, goes or moves, since those alone lead elsewhere; within a kernel's
        tree, until that is drawn anew."""
        if path.startswith(KERNEL_TREES):
            return self._in_kernel_tree(path, last)
        if (path, last) in self._missing:
            raise refusal(errno.ENOENT, path)
        known = self._resolved.get((path, last))
        if known is None:
            known = self._looked_for(path, last)
            if not known.startswith(KERNEL_TREES):
                self._resolved[path, last] = known
        return known

    def exists(self, path: str) -> bool:
        return (path, True) not in self._missing and super().exists(path)

    def _named(self, real: str) -> Named | None:
        layer = self.layer(real)
        return layer.find(real) if layer else self._nodes.get(real)

    def _looked_for(self, path: str, last: bool) -> str:
        """A folder that is missing stays so until one comes."""
        try:
            return super().resolve(path, last=last)
        except FileNotFoundError:
            self._missing.add((path, last))
            raise

    def _in_kernel_tree(self, path: str, last: bool) -> str:
        layers = [layer for layer in self.layers if layer.covers(path)]
        drawings = [layer.drawing() for layer in layers]
        before, known = self._in_trees.get((path, last), ([], ""))
        if before == drawings and known and None not in drawings:
            return known
        found = super().resolve(path, last=last)
        if layers and layers == [layer for layer in self.layers if layer.covers(found)]:
            self._in_trees[path, last] = (drawings, found)
        return found

    def _lstat(self, path: str) -> Entry:
        node = self._node(path)
        size = 4096 if node.kind == "directory" else len(node.content or node.target.encode())
        return Entry(node.kind, node.mode, size, node.mtime_ns, *self.owner_of(path), node.target)

    def _read(self, path: str) -> bytes:
        return self._node(path).content

    def _write(self, path: str, content: bytes, mode: int | None) -> None:
        if path not in self._nodes:
            self._look_again_below(path)
        node = self._nodes.setdefault(path, _Node("file", mode or 0o644, 0))
        node.content, node.mtime_ns = content, self.tick()
        node.mode = node.mode if mode is None else mode

    def _mkdir(self, path: str, mode: int) -> None:
        self._missing.clear()
        self._nodes[path] = _Node("directory", mode, self.tick())

    def _names(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return [
            p[len(prefix) :] for p in self._nodes if p.startswith(prefix) and "/" not in p[len(prefix) :] and p != "/"
        ]

    def _symlink(self, target: str, path: str) -> None:
        self._forget_all()
        self._nodes[path] = _Node("link", 0o777, self.tick(), target=target)

    def _rename(self, old: str, new: str) -> None:
        below = old + "/"
        self._forget_paths(old, new)
        self._look_again_below(new)
        for path in [p for p in self._nodes if p == old or p.startswith(below)]:
            self._nodes[new + path[len(old) :]] = self._nodes.pop(path)

    def _look_again_below(self, path: str) -> None:
        """Something comes there, if only a file: what lay below nothing now lies below no folder."""
        self._missing = {asked for asked in self._missing if not asked[0].startswith(f"{path}/")}

    def _forget_paths(self, *changed: str) -> None:
        nodes = (self._nodes.get(path) for path in changed)
        if any(node is not None and node.kind != "file" for node in nodes):
            self._forget_all()

    def _forget_all(self) -> None:
        self._resolved.clear()
        self._missing.clear()
        self._in_trees.clear()

    def _remove(self, path: str) -> None:
        self._forget_paths(path)
        del self._nodes[path]

    def _chmod(self, path: str, mode: int) -> None:
        self._node(path).mode = mode

    def free(self) -> int:
        return 0 if self.full else self._capacity - sum(len(node.content) for node in self._nodes.values())

    def _node(self, path: str) -> _Node:
        try:
            return self._nodes[path]
        except KeyError:
            raise refusal(errno.ENOENT, path) from None


class DiskFiles(Files):
    """Real files below `root`; owners are kept in memory only, since the practice machine need not be root."""

    def __init__(self, now_ns: Callable[[], int], root: Path) -> None:
        super().__init__(now_ns)
        self.root = root.resolve()
        for path in BASE_DIRECTORIES:
            self.real(path).mkdir(parents=True, exist_ok=True)

    def real(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _lstat(self, path: str) -> Entry:
        real = self.real(path)
        link = real.is_symlink() and not self._leads_out(real)
        found = real.lstat() if link else real.stat()
        kind: Kind = "link" if link else "directory" if real.is_dir() else "file"
        entry = Entry(kind, found.st_mode & 0o7777, found.st_size, found.st_mtime_ns, *self.owner_of(path))
        return replace(entry, target=os.readlink(real)) if link else entry

    def _read(self, path: str) -> bytes:
        return self.real(path).read_bytes()

    def _write(self, path: str, content: bytes, mode: int | None) -> None:
        real = self.real(path)
        real.write_bytes(content)
        if mode is not None:
            real.chmod(mode)
        self._touch(real)

    def _mkdir(self, path: str, mode: int) -> None:
        self.real(path).mkdir()
        self.real(path).chmod(mode)

    def _names(self, path: str) -> list[str]:
        return [entry.name for entry in self.real(path).iterdir()]

    def _symlink(self, target: str, path: str) -> None:
        self.real(path).symlink_to(target)

    def _rename(self, old: str, new: str) -> None:
        self.real(old).rename(self.real(new))

    def _remove(self, path: str) -> None:
        real = self.real(path)
        (real.rmdir if real.is_dir() and not real.is_symlink() else real.unlink)()

    def _chmod(self, path: str, mode: int) -> None:
        self.real(path).chmod(mode)

    def free(self) -> int:
        return 0 if self.full else shutil.disk_usage(self.root).free

    def _leads_out(self, link: Path) -> bool:
        """A link to a real program outside of the tree (an interpreter) counts as the program itself."""
        target = os.readlink(link)
        return target.startswith("/") and not os.path.lexists(self.real(target)) and os.path.exists(target)

    def _touch(self, real: Path) -> None:
        at = self.tick()
        os.utime(real, ns=(at, at))
