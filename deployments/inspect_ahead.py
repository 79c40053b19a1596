"""Feeding a large file: a second process takes blocks apart, while the first one reads what they say, in order.

Both do the same to each block, and what a block says does not depend on who took it apart. So the report is the same
as without the second process, also where that one ends early.
"""

import os
import pickle
import signal
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING

from state.inspection.log import LogReader
from state.inspection.splitting import Split, Splitter

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SMALLEST = 64 << 20
"""Bytes from which on a second process is worth its start."""
BLOCK = 1 << 20
_LOOK = 1 << 12
_LONGEST_LINE = 4 << 20
"""Bytes in which the end of a block's last line is looked for, and how many of them at once."""
_ASKED = 2
_HELD = 4
"""Blocks that the other process is asked for at once, and that are held at most, split and not yet read."""
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
"""Linux, fcntl(2): so that an answer fits into the pipe, and the other process need not wait for its reader."""


class _Gone(Exception):
    """The other process has ended."""


class _Other:
    """The other process, and the way to it. Methods raise _Gone."""

    def __init__(self, requests: "Connection", answers: "Connection") -> None:
        self._requests = requests
        self._answers = answers
        self._splitter: Splitter | None = None
        self.asked = 0

    def ask(self, start: int, end: int, splitter: Splitter) -> None:
        try:
            self._requests.send((start, end, None if splitter is self._splitter else splitter))
        except OSError as error:
            raise _Gone from error
        self._splitter = splitter
        self.asked += 1

    @property
    def ready(self) -> bool:
        return self._answers.poll()

    def answer(self) -> Split:
        """Of the oldest question that has none yet."""
        try:
            packed = pickle.loads(self._answers.recv_bytes())
        except (OSError, EOFError) as error:
            raise _Gone from error
        self.asked -= 1
        return Split.unpacked(packed)


def is_file(stream: IO[bytes]) -> bool:
    return isinstance(stream, BufferedReader) and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)


def feed_file(reader: LogReader, descriptor: int, start: int) -> int:
    """Feeds what a regular file has from `start` on, up to its last blocks.

    Returns where it stopped, at the start of a line. Raises OSError where the file cannot be read.
    """
    feeder = _Feeder(reader, descriptor, start)
    if _worth_a_process(descriptor):
        with _other(descriptor) as other, suppress(_Gone):
            feeder.with_other(other)
    feeder.alone()
    return feeder.read


def _worth_a_process(descriptor: int) -> bool:
    """Whether the file is large, and a processor free enough (proc_loadavg(5): what can run now, this process too)."""
    if sys.platform != "linux" or os.fstat(descriptor).st_size < SMALLEST:
        return False
    running = Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0]
    return 1 < len(os.sched_getaffinity(0)) >= int(running)


@contextmanager
def _other(descriptor: int) -> Iterator[_Other]:
    """The process runs until its questions end, which they also do when this process is killed."""
    from fcntl import fcntl
    from multiprocessing import get_context  # here, for most files are small

    context = get_context("fork")
    questions, ask = context.Pipe(duplex=False)
    answers, answer = context.Pipe(duplex=False)
    with suppress(OSError):
        fcntl(answer.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
    process = context.Process(target=_answer_all, args=(descriptor, questions, answer, (ask, answers)), daemon=True)
    process.start()
    questions.close()
    answer.close()
    try:
        yield _Other(ask, answers)
    finally:
        ask.close()
        answers.close()
        process.join()


def _answer_all(
    descriptor: int, questions: "Connection", answers: "Connection", others_ends: "tuple[Connection, ...]"
) -> None:
    """The other process: splits what it is asked to, in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its parent, which the same Ctrl-C reaches
    for end in others_ends:
        end.close()
    splitter: Splitter | None = None
    with suppress(EOFError, OSError):
        while True:
            start, stop, new = questions.recv()
            splitter = new or splitter
            assert splitter is not None
            answers.send_bytes(pickle.dumps(splitter.split(os.pread(descriptor, stop - start, start)).packed()))


@dataclass(frozen=True, slots=True)
class _Block:
    """Bytes of the file from `start` to before `end`; `split` is None if the other process was asked for it."""

    start: int
    end: int
    splitter: Splitter
    split: Split | None


class _Feeder:
    """Holds the blocks between `read` and `_next` that have been split or asked for."""

    def __init__(self, reader: LogReader, descriptor: int, start: int) -> None:
        self._reader = reader
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._held: deque[_Block] = deque()
        self._next = start
        self.read = start

    def alone(self) -> None:
        """Every block that is left."""
        while (end := self._end_of(self.read)) is not None:
            self._reader.feed_block(self._bytes(self.read, end))
            self.read = end

    def with_other(self, other: _Other) -> None:
        """Every block. While the other one is not ready with the next block, this process splits a later one."""
        while True:
            splitter = self._reader.splitter
            if splitter is not None:
                self._ask(other, splitter)
            first = self._held[0] if self._held else None
            if first is not None and (first.split or other.ready or len(self._held) >= _HELD):
                self._take(self._held.popleft(), other)
            elif splitter is not None and (end := self._end_of(self._next)) is not None:
                self._hold(end, splitter, splitter.split(self._bytes(self._next, end)))
            elif first is not None:
                self._take(self._held.popleft(), other)
            elif (end := self._end_of(self._next)) is not None:
                self._reader.feed_block(self._bytes(self._next, end))
                self.read = self._next = end
            else:
                return

    def _ask(self, other: _Other, splitter: Splitter) -> None:
        while other.asked < _ASKED and len(self._held) < _HELD and (end := self._end_of(self._next)) is not None:
            other.ask(self._next, end, splitter)
            self._hold(end, splitter, None)

    def _hold(self, end: int, splitter: Splitter, split: Split | None) -> None:
        self._held.append(_Block(self._next, end, splitter, split))
        self._next = end

    def _take(self, block: _Block, other: _Other) -> None:
        """Reads a block, by its split unless the reader has learned something since."""
        split = block.split or other.answer()
        if block.splitter is self._reader.splitter:
            self._reader.feed_split(split, lambda: self._bytes(block.start, block.end))
        else:
            self._reader.feed_block(self._bytes(block.start, block.end))
        self.read = block.end

    def _end_of(self, start: int) -> int | None:
        """Where the block that starts there ends: with a line. None near the end of the file or of a very long line."""
        begin = start + BLOCK
        for at in range(begin, min(self._size, begin + _LONGEST_LINE), _LOOK):
            found = os.pread(self._descriptor, _LOOK, at).find(b"\n")
            if found >= 0:
                return at + found + 1
        return None

    def _bytes(self, start: int, end: int) -> bytes:
        return os.pread(self._descriptor, end - start, start)
