"""The practice machine's journal: records as journald keeps them, and what journalctl's matches pick."""

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tasks.practice.clock import Clock
from tasks.practice.process import EmitAs
from tasks.practice.units import ServiceUnit

Fields = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Record:
    """One journal entry; `seq` counts from 1, times in microseconds."""

    seq: int
    cursor: str
    realtime_us: int
    monotonic_us: int
    boot_id: str
    fields: Fields

    def text(self, name: str) -> str:
        return self.fields.get(name, b"").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Query:
    """What journalctl was asked for. `unit`'s records are its processes' and those that systemd wrote about it."""

    matches: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    units: frozenset[str] = frozenset()
    kernel: bool = False
    after: int = 0
    since_us: int = 0
    until_us: int = 0
    boot_id: str = ""

    def admits(self, record: Record) -> bool:
        return (
            record.seq > self.after
            and record.realtime_us >= self.since_us
            and (not self.until_us or record.realtime_us <= self.until_us)
            and (not self.boot_id or record.boot_id == self.boot_id)
            and (not self.kernel or record.fields.get("_TRANSPORT") == b"kernel")
            and (not self.units or any(_speaks_of(record, unit) for unit in self.units))
            and all(_field(record, name) in values for name, values in self.matches.items())
        )


def _field(record: Record, name: str) -> bytes:
    return record.boot_id.encode() if name == "_BOOT_ID" else record.fields.get(name, b"")


def _speaks_of(record: Record, unit: str) -> bool:
    name = unit.encode()
    return record.fields.get("_SYSTEMD_UNIT") == name or (
        record.fields.get("_PID") == b"1" and record.fields.get("UNIT") == name
    )


class Journal:
    """Append-only records with waiting readers. A line over 48 KiB is cut into several records, as journald does."""

    LINE_MAX = 48 * 1024

    def __init__(self, clock: Clock, hostname: str) -> None:
        self._clock, self._hostname = clock, hostname
        self._seqnum_id = uuid.uuid4().hex
        self.boot_id = uuid.uuid4().hex
        self.records: list[Record] = []
        self.ring: list[str] = []
        self._stalls, self._backlog = 0, list[Mapping[str, str | bytes]]()
        self._grown = asyncio.Event()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """journald waits for the kernel: it writes down afterwards what has been said meanwhile."""
        self._stalls += 1
        try:
            yield
        finally:
            self._stalls -= 1
            backlog, self._backlog = self._backlog, []
            for fields in backlog:
                self.append(fields)

    def append(self, fields: Mapping[str, str | bytes]) -> None:
        if self._stalls:
            self._backlog.append(fields)
            return
        seq, real, mono = len(self.records) + 1, self._clock.realtime_us(), self._clock.monotonic_us()
        check = seq * 0x9E3779B97F4A7C15 % 2**64
        cursor = f"s={self._seqnum_id};i={seq:x};b={self.boot_id};m={mono:x};t={real:x};x={check:x}"
        whole = {"_HOSTNAME": self._hostname, **fields}
        raw = {name: value.encode() if isinstance(value, str) else value for name, value in whole.items()}
        record = Record(seq, cursor, real, mono, self.boot_id, raw)
        self.records.append(record)
        self._grown.set()

    def printer(self, unit: str, invocation: Callable[[], str], identifier: str) -> EmitAs:
        """What takes the lines of one command that a unit runs, and of all that it leaves behind: systemd makes a
        connection to journald (`_STREAM_ID`) for each command, and children inherit it."""
        stream = uuid.uuid4().hex
        return lambda pid, line: self._stdout(unit, invocation(), stream, pid, identifier, line)

    def _stdout(self, unit: str, invocation: str, stream: str, pid: int, identifier: str, line: bytes) -> None:
        """A line that a unit's process printed, cut where journald cuts it; a `<3>` in front is its priority."""
        level = re.match(rb"<([0-7])>", line)
        line = line[level.end() :] if level else line
        for start in range(0, max(len(line), 1), self.LINE_MAX):
            self.append(
                {
                    "PRIORITY": level[1] if level else "6",
                    "SYSLOG_IDENTIFIER": identifier,
                    "_TRANSPORT": "stdout",
                    "_PID": str(pid),
                    "_COMM": identifier[:15],
                    "_SYSTEMD_UNIT": unit,
                    "_STREAM_ID": stream,
                    "_SYSTEMD_CGROUP": ServiceUnit(unit).control_group,
                    "_SYSTEMD_INVOCATION_ID": invocation,
                    "MESSAGE": line[start : start + self.LINE_MAX],
                }
            )

    def manager(self, unit: str, invocation: str, message: str, *, priority: int = 6, **extra: str) -> None:
        """A record of systemd itself about a unit."""
        about = {"UNIT": unit, "INVOCATION_ID": invocation} if invocation else {"UNIT": unit}
        self.append(
            {
                "PRIORITY": str(priority),
                "SYSLOG_IDENTIFIER": "systemd",
                "SYSLOG_FACILITY": "3",
                "_TRANSPORT": "journal",
                "_PID": "1",
                "_UID": "0",
                "_COMM": "systemd",
                "_SYSTEMD_UNIT": "init.scope",
                **about,
                "MESSAGE": message,
                **extra,
            }
        )

    def kernel(self, message: str, *, priority: int = 4) -> None:
        self.ring.append(f"[{self._clock.monotonic_us() / 1e6:12.6f}] {message}")
        self.append(
            {
                "PRIORITY": str(priority),
                "SYSLOG_FACILITY": "0",
                "SYSLOG_IDENTIFIER": "kernel",
                "_TRANSPORT": "kernel",
                "_SOURCE_MONOTONIC_TIMESTAMP": str(self._clock.monotonic_us()),
                "MESSAGE": message,
            }
        )

    def select(self, query: Query) -> list[Record]:
        return [record for record in self.records[query.after :] if query.admits(record)]

    def find(self, cursor: str) -> int:
        """The number of the record with this cursor; ValueError if it is no cursor of this journal."""
        parts = dict(part.partition("=")[::2] for part in cursor.split(";"))
        if parts.get("s") != self._seqnum_id:
            raise ValueError(cursor)
        return int(parts["i"], 16)

    async def follow(self, query: Query, at: int) -> AsyncGenerator[Record, None]:
        """Every admitted record after number `at`, as it comes; never ends."""
        while True:
            self._grown.clear()
            for record in self.records[at:]:
                at = record.seq
                if query.admits(record):
                    yield record
            if at == len(self.records):
                await self._grown.wait()

    def now_us(self) -> int:
        return self._clock.realtime_us()

    def rebooted(self) -> None:
        self.boot_id = uuid.uuid4().hex
        self.ring.clear()


def matches_of(words: Iterable[str]) -> dict[str, frozenset[bytes]]:
    """FIELD=VALUE words as matches; ValueError for a word that is none."""
    found: dict[str, frozenset[bytes]] = {}
    for word in words:
        name, sep, value = word.partition("=")
        if not sep or not name or not name.replace("_", "").isalnum() or name != name.upper():
            raise ValueError(word)
        found[name] = found.get(name, frozenset()) | {value.encode()}
    return found
