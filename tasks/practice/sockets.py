"""Listening TCP sockets of the real kernel, with the processes that hold them."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening socket; `address` as `ss` prints it. `holders` are (comm, PID, file descriptor)."""

    address: str
    port: int
    holders: tuple[tuple[str, int, int], ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for _, pid, _ in self.holders)

    @property
    def anywhere(self) -> str:
        return "[::]:*" if self.address.startswith("[") else "0.0.0.0:*"


def listeners(port: int | None = None) -> list[Listener]:
    """Every listener, or those on one port."""
    found = [row for table in ("tcp", "tcp6") for row in _rows(table) if port in (None, row[1])]
    holders = _holders({inode for _, _, inode in found})
    return [Listener(address, at, tuple(holders.get(inode, ()))) for address, at, inode in found]


def _rows(table: str) -> Iterator[tuple[str, int, str]]:
    try:
        lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        words = line.split()
        if words[3] == _LISTEN:
            address, _, port = words[1].partition(":")
            yield _address(address), int(port, 16), words[9]


def _address(text: str) -> str:
    words = [struct.pack("=I", int(text[i : i + 8], 16)) for i in range(0, len(text), 8)]
    raw = b"".join(words)
    return socket.inet_ntop(socket.AF_INET, raw) if len(raw) == 4 else f"[{socket.inet_ntop(socket.AF_INET6, raw)}]"


def _holders(inodes: set[str]) -> dict[str, list[tuple[str, int, int]]]:
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, list[tuple[str, int, int]]] = {}
    for entry in os.scandir("/proc") if wanted else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                for fd in os.listdir(f"{entry.path}/fd"):
                    if inode := wanted.get(os.readlink(f"{entry.path}/fd/{fd}")):
                        comm = Path(entry.path, "comm").read_text().strip()
                        found.setdefault(inode, []).append((comm, int(entry.name), int(fd)))
    return found
