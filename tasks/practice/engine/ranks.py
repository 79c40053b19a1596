"""Scheduler processes: forks that print their own lines under their own PIDs, and go when the main process goes."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

_HEADER = struct.Struct("!I")


@dataclass(frozen=True)
class RankProcess:
    """`lines` takes framed texts; a byte comes back on `echoes` for each one printed, and the end with the process."""

    pid: int
    lines: int
    echoes: int


def start_ranks(titles: Sequence[str]) -> list[RankProcess]:
    """Fork one process for each title."""
    started: list[RankProcess] = []
    for title in titles:
        lines_out, lines_in = os.pipe()
        echoes_out, echoes_in = os.pipe()
        pid = os.fork()
        if pid == 0:
            for other in started:
                os.close(other.lines)
                os.close(other.echoes)
            os.close(lines_in)
            os.close(echoes_out)
            _serve(title, lines_out, echoes_in)
            os._exit(0)
        os.close(lines_out)
        os.close(echoes_in)
        started.append(RankProcess(pid, lines_in, echoes_out))
    return started


def frame(text: str) -> bytes:
    data = text.encode()
    return _HEADER.pack(len(data)) + data


def _serve(title: str, lines: int, echoes: int) -> None:
    """Print until the main process is gone. Signals of the group are the main process's business."""
    with suppress(OSError):  # a title is for people; a sandbox may refuse it
        _take_title(title)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        header = _exactly(lines, _HEADER.size)
        if header is None:
            return
        data = _exactly(lines, _HEADER.unpack(header)[0])
        if data is None:
            return
        os.write(2, data)
        os.write(echoes, b".")


def _exactly(source: int, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        part = os.read(source, count - len(found))
        if not part:
            return None
        found += part
    return found


def leave_behind(title: str, texts: Iterator[str], interval: float, seconds: float, keep: int | None) -> int:
    """Fork a process that outlives this one, heeds SIGKILL alone, and holds the descriptor `keep` open; its PID."""
    pid = os.fork()
    if pid:
        return pid
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    kept = 3 if keep is None else keep
    os.closerange(3, kept)
    os.closerange(kept if keep is None else kept + 1, 1024)
    with suppress(OSError):
        _take_title(title)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        text = next(texts, None)
        if text is not None:
            os.write(2, text.encode() + b"\n")
        time.sleep(min(interval, max(0.0, end - time.monotonic())))
    os._exit(0)


def _take_title(title: str) -> None:
    """Show `title` as this process's name and argv, as setproctitle does: over the argument memory itself."""
    with open("/proc/self/comm", "wb") as file:
        file.write(title.encode()[:15])
    with open("/proc/self/stat", encoding="ascii") as file:
        after = file.read().rpartition(")")[2].split()
    start, end = int(after[45]), int(after[46])  # fields 48 and 49 of proc(5): arg_start, arg_end
    if end <= start:
        return
    data = title.encode()[: end - start - 1]
    with open("/proc/self/mem", "r+b", buffering=0) as file:
        file.seek(start)
        file.write(data + bytes(end - start - len(data)))
