"""What an inspected file is before anything is read from it: compressed ones are opened, hopeless ones are refused."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from shlex import quote
from typing import IO, cast

LONGEST_LINE = 16 << 20
"""Bytes without a line end that no log has: journald cuts messages at 48 KiB, a crash may leave a few MiB of NULs."""
LARGEST_WHOLE = 64 << 20
"""Bytes of a unit, of metrics or of an answer, which are read as a whole."""
DAMAGED = (EOFError, zlib.error, lzma.LZMAError)
"""What decompression raises for data that is damaged or ends early."""

_OPENERS: tuple[tuple[bytes, Callable[[BufferedReader], object]], ...] = (
    (b"\x1f\x8b", lambda stream: gzip.GzipFile(fileobj=stream)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
_REFUSED = (
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd; try: zstdcat {} | interlock inspect -"),
    (b"\x04\x22\x4d\x18", "it is compressed by lz4; try: lz4cat {} | interlock inspect -"),
    (b"PK\x03\x04", "it is a zip archive; try: unzip -p {} | interlock inspect -"),
    (b"LPKSHHRH", "it is a journal of systemd's own; try: journalctl --file {} -o json --all | interlock inspect -"),
)


class Unreadable(Exception):
    """Why nothing can be read, as a clause."""


class Empty(Exception):
    """There is not one byte."""


def opened(stream: IO[bytes], file: str) -> IO[bytes]:
    """The stream, or what it decompresses to. Raises Empty, and Unreadable for formats that need a tool to be read."""
    if not isinstance(stream, BufferedReader):
        return stream
    head = stream.peek(16)[:16]
    if not head:
        raise Empty
    for magic, why in _REFUSED:
        if head.startswith(magic):
            raise Unreadable(why.format(quote(file)))
    for magic, opener in _OPENERS:
        if head.startswith(magic):
            return cast(IO[bytes], opener(stream))
    return stream


def read_blocks(head: bytes, stream: IO[bytes], size: int) -> Iterator[bytes]:
    """`head` and what comes after it, in blocks that end with a line unless it is very long. Raises Unreadable."""
    unbroken, block = 0, head
    while block:
        line_end = block.rfind(b"\n")
        unbroken = len(block) - line_end - 1 if line_end >= 0 else unbroken + len(block)
        if unbroken > LONGEST_LINE:
            raise Unreadable(f"it has a line of more than {LONGEST_LINE >> 20} MiB")
        yield block
        block = stream.read(size) + stream.readline(size)


def read_whole(head: bytes, stream: IO[bytes], kind: str) -> bytes:
    """`head` and all that comes after it. Raises Unreadable."""
    data = head + stream.read(LARGEST_WHOLE)
    if stream.read(1):
        raise Unreadable(f"it has more than {LARGEST_WHOLE >> 20} MiB, too much for kind {kind}")
    return data
