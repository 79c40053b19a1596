"""Standard output that may go away: whoever stops reading stops reading, and the rollout goes on to its end."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


class Unbroken:
    """Writes to a stream until that fails, then says so once on standard error and writes to nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lost = False

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _lose(self, error: OSError) -> None:
        if self._lost:
            return
        self._lost = True
        with suppress(OSError):  # what is buffered, and what Python flushes at its end, goes to nothing as well
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        with suppress(OSError):
            print(f"standard output is gone ({error.strerror}); going on without it", file=sys.stderr)


@contextmanager
def unbroken_output() -> Iterator[None]:
    """Standard output that no reader can break while the block runs."""
    before = sys.stdout
    output = Unbroken(before)
    sys.stdout = output  # all that is used of a text stream
    try:
        yield
    finally:
        output.flush()
        sys.stdout = before
