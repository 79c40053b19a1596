"""The rows of streams that were read whole and found sound, so that a stream that is read again decodes only its new
ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from state.store.decoding import Row, decode_chain
from state.store.port import GENESIS, RecordedEvent

MOST_BYTES = 16 << 20
"""Of stored text, after which the stream that was read longest ago is forgotten. What is decoded of it takes about five
times as much memory."""

LONGEST_BYTES = 1 << 20
"""A longer stream is not remembered: it would take the place of too many others."""

_ROW_BYTES = 200
"""A row's names, time and digest."""

_anew: ContextVar[bool] = ContextVar("anew", default=False)


@contextmanager
def read_anew() -> Iterator[None]:
    """Within it nothing that is remembered stands in for what is stored: each digest of what is read is computed."""
    token = _anew.set(True)
    try:
        yield
    finally:
        _anew.reset(token)


@dataclass(frozen=True, slots=True)
class _Known:
    rows: Sequence[Row]
    events: tuple[RecordedEvent, ...]
    size: int


class KnownRows:
    """What this proves: a row is still every byte the row whose digest was found right, in its place in the chain,
    since all columns of all rows are read from the database and compared, not only digests. So what is changed in the
    database is found as it is without this: the row differs, and the whole stream is checked by its digests.

    It does not prove that this process's own memory is unharmed; `read_anew` is for that.
    """

    def __init__(self) -> None:
        self._streams: dict[str, _Known] = {}
        self._size = 0

    def decoded(self, stream: str, rows: Sequence[Row]) -> tuple[RecordedEvent, ...]:
        """The events of `rows`, which are the whole stream; raises HistoryCorrupt as `decode_chain`."""
        if _anew.get():
            return decode_chain(stream, rows, GENESIS, 0)
        known = self._forgotten(stream)
        if known is not None and rows[: len(known.rows)] == known.rows:
            events, size = known.events, known.size
        else:
            events, size = (), 0
        new = rows[len(events) :]
        if new:
            events += decode_chain(stream, new, events[-1].digest if events else GENESIS, len(events))
            size += sum(_ROW_BYTES + len(row[5]) + len(row[6]) for row in new)
        self._keep(stream, _Known(rows, events, size))
        return events

    def _forgotten(self, stream: str) -> _Known | None:
        known = self._streams.pop(stream, None)
        self._size -= known.size if known else 0
        return known

    def _keep(self, stream: str, known: _Known) -> None:
        """As the newest of all."""
        if not known.events or known.size > LONGEST_BYTES:
            return
        self._streams[stream] = known
        self._size += known.size
        while self._size > MOST_BYTES:
            self._forgotten(next(iter(self._streams)))
