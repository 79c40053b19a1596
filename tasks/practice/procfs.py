"""/proc of the practice machine: the processes of its units, and of strangers, nobody else's."""

import contextlib
import errno
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tasks.practice.files import Entry, Layer, refusal
from tasks.practice.units import ServiceUnit

_FILES = ("cmdline", "environ", "comm", "stat", "status", "cgroup")
_SETTINGS = {
    "/proc/sys/net/ipv4/ip_local_port_range": b"32768\t60999\n",
    "/proc/sys/net/ipv4/ip_local_reserved_ports": b"\n",
}
"""The kernel's own defaults."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"

_REAL_PID_MAX = 4_194_304


@dataclass(frozen=True, slots=True)
class Seen:
    """What /proc tells about one process. All but the argv of a `real` one is read from the real /proc."""

    argv: Sequence[str]
    env: Mapping[str, str]
    unit: str = ""
    owner: str = "root"
    real: bool = False


class Procfs(Layer):
    """The machine's own processes under /proc/PID; `table` is asked at each look. `frozen` ones are in state D."""

    def __init__(
        self, table: Callable[[], Mapping[int, Seen]], frozen: Set[int] = frozenset(), boot: Callable[[], str] = str
    ) -> None:
        """`boot` tells the id of the boot, 32 hexadecimal digits."""
        self._table, self._frozen, self._boot = table, frozen, boot

    def covers(self, path: str) -> bool:
        return path == "/proc" or path.startswith("/proc/")

    def lstat(self, path: str) -> Entry:
        if path in _SETTINGS or path == BOOT_ID:
            return Entry("file", 0o444 if path == BOOT_ID else 0o644, 0, 0)
        if any(setting.startswith(f"{path}/") for setting in (*_SETTINGS, BOOT_ID)):
            return Entry("directory", 0o555, 0, 0)
        match path.split("/")[2:]:
            case []:
                return Entry("directory", 0o555, 0, 0)
            case [pid]:
                return Entry("directory", 0o555, 0, 0, owner=self._seen(pid, path).owner)
            case [pid, name] if name in _FILES:
                return Entry("file", 0o400 if name == "environ" else 0o444, 0, 0, owner=self._seen(pid, path).owner)
        raise refusal(errno.ENOENT, path)

    def read(self, path: str) -> bytes:
        if path in _SETTINGS:
            return _SETTINGS[path]
        if path == BOOT_ID:
            return f"{uuid.UUID(self._boot())}\n".encode()
        pid, name = path.split("/")[2:4]
        seen = self._seen(pid, path)
        if name == "cgroup":
            return f"0::{ServiceUnit(seen.unit).control_group}\n".encode() if seen.unit else b"0::/user.slice\n"
        if seen.real and name != "cmdline":
            return _real(int(pid), name, path)
        return _synthetic(int(pid), name, seen, frozen=int(pid) in self._frozen)

    def names(self, path: str) -> list[str]:
        return list(_FILES) if path.count("/") == 2 else [str(pid) for pid in self._table()]

    def _seen(self, pid: str, path: str) -> Seen:
        seen = self._table().get(int(pid)) if pid.isdigit() else None
        if seen is None:
            raise refusal(errno.ENOENT, path)
        return seen


def _real(pid: int, name: str, path: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    raise refusal(errno.ENOENT, path)


def is_real(pid: int) -> bool:
    """Whether a PID can be one of the real kernel's; in child mode the machine's own programs count from above it."""
    return pid <= _REAL_PID_MAX


def _synthetic(pid: int, name: str, seen: Seen, *, frozen: bool) -> bytes:
    comm = seen.argv[0].rpartition("/")[2][:15]
    match name:
        case "cmdline":
            return "".join(f"{word}\0" for word in seen.argv).encode("utf-8", "surrogateescape")
        case "environ":
            return "".join(_pairs(seen.env)).encode("utf-8", "surrogateescape")
        case "comm":
            return f"{comm}\n".encode()
        case "stat":
            return f"{pid} ({comm}) {'D' if frozen else 'S'} 1 {pid} {pid} 0 -1 4194560 {'0 ' * 41}0\n".encode()
    state = "D (disk sleep)" if frozen else "S (sleeping)"
    return f"Name:\t{comm}\nState:\t{state}\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\nUid:\t0\t0\t0\t0\n".encode()


def _pairs(env: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={value}\0" for name, value in env.items())
