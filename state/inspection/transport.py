"""What stands in front of an engine's words: journal formats, container prefixes, timestamps."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from state.inspection.text import without_ansi

_SHORT = re.compile(
    rb"(?P<time>(?:(?:[A-Z][a-z]{2}|[a-z\x80-\xff]{2,12}\.?|\d{1,2}\xe6\x9c\x88) "  # short, in the host's language
    rb"[ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?)"  # short-precise
    rb"|(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?[+-]\d\d:?\d\d)"  # short-iso, short-iso-precise
    rb"|(?:[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [A-Z]{1,5})"  # short-full
    rb"|(?:\d{10}\.\d{1,9})|(?:\[ *\d{1,12}\.\d{1,9}\])) "  # short-unix, short-monotonic
    rb"(?P<host>[^\s:\[\]]{1,255}) (?P<ident>\([^()]{1,64}\)|[^\s:\[\]]{1,64})(?:\[(?P<pid>\d{1,10})\])?:(?: |$)"
)
_SHORT_NO_HOST = re.compile(  # as some exporters drop the host
    rb"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) "
    rb"(?P<ident>\([^()]{1,64}\)|[^\s:\[\]]{1,64})\[(?P<pid>\d{1,10})\]: ?"
)
_DOCKER_TIME = re.compile(
    rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ?"
    rb"(?:(?:stdout|stderr) [FP] )?(?=[^ ]|$| )"  # as containerd keeps its logs
)
_RAY = re.compile(rb"\((?P<name>\w{1,64}) pid=(?P<pid>\d{1,10})(?:, ip=[^)\s]{1,64})?\) (?=\[\d{4}-\d\d-\d\d )")
_COMPOSE = re.compile(rb"(?P<name>[A-Za-z0-9][\w.-]{0,127}) {1,60}\| ?")
_KUBECTL = re.compile(rb"\[(?P<name>pod/[^\]\s]{1,253})\] ?")
_DMESG = re.compile(rb"(?:<\d{1,3}>)?\[ *\d{1,9}\.\d{6}\](?:\[ *[TC]\d+\])? ")
_CLOCK = re.compile(rb"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_DATE = re.compile(rb"(\d{4})-(\d\d)-(\d\d)[T ]|([A-Z][a-z]{2}) ([ \d]\d) ")
_MONTHS = b"JanFebMarAprMayJunJulAugSepOctNovDec"
_DOCKER_PIECE = 16_384
_HEAD = 512
"""Bytes of a line in which a prefix can stand."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Who wrote the line and when, as far as the transport says. `source` names a container, `size` counts bytes."""

    ident: str = ""
    pid: int | None = None
    invocation: str | None = None
    unit: str | None = None
    source: str = ""
    time: float | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One decoded journal record. `unit` and `invocation` are those that the record speaks of; times are microseconds.

    `message` is None where the journal held it back (`journalctl -o json` without `--all`, over 4096 bytes).
    """

    message: bytes | None
    pid: int | None = None
    invocation: str | None = None
    unit: str | None = None
    realtime_us: int | None = None
    ident: str = ""
    cursor: str | None = None

    def prefix(self) -> Prefix:
        time = self.realtime_us / 1e6 if self.realtime_us is not None else None
        return Prefix(self.ident, self.pid, self.invocation, self.unit, "", time)


NO_PREFIX = Prefix()


def read_prefix(line: bytes) -> Prefix:
    """The transport's prefix of a line without colours; `NO_PREFIX` where there is none."""
    head = line[:_HEAD]
    first = head[:1]
    if first == b"[" and (kubectl := _KUBECTL.match(head)):
        return _contained(head, kubectl["name"], kubectl.end())
    if (found := _SHORT.match(head)) and (found["pid"] or first != b"[" or found["ident"] == b"kernel"):
        return _journal(found)
    if first == b"(" and (found := _RAY.match(head)):
        return Prefix(found["name"].decode("ascii", "replace"), int(found["pid"]), size=found.end())
    if found := _SHORT_NO_HOST.match(head):
        return _journal(found)
    if found := _DOCKER_TIME.match(head):
        return Prefix(time=_seconds(found["time"]), size=found.end())
    if b"| " in head[:200] and (compose := _COMPOSE.match(head)):
        return _contained(head, compose["name"], compose.end())
    return NO_PREFIX


def without_seams(text: bytes, prefix: Prefix) -> bytes:
    """The words of a line. Docker stores 16 KiB at a time, and `docker logs --timestamps` stamps each piece of it."""
    words = text[prefix.size :] if prefix.size else text
    if prefix.ident or not prefix.size or len(words) <= _DOCKER_PIECE:
        return words
    parts, at = [words[:_DOCKER_PIECE]], _DOCKER_PIECE
    while seam := _DOCKER_TIME.match(words, at):
        at = seam.end() + _DOCKER_PIECE
        parts.append(words[seam.end() : at])
    return b"".join((*parts, words[at:]))


def _contained(head: bytes, name: bytes, size: int) -> Prefix:
    time = _DOCKER_TIME.match(head, size)
    return Prefix(
        source=name.decode("ascii", "replace"),
        time=_seconds(time["time"]) if time else None,
        size=time.end() if time else size,
    )


def _journal(found: re.Match[bytes]) -> Prefix:
    pid = found["pid"]
    return Prefix(
        ident=found["ident"].decode("utf-8", "replace"),
        pid=int(pid) if pid else None,
        time=_seconds(found["time"]),
        size=found.end(),
    )


def _seconds(stamp: bytes) -> float | None:
    """Seconds on the stamp's own clock; a year not given is taken as 2000: only differences mean anything."""
    clock, date = _CLOCK.search(stamp), _DATE.search(stamp)
    if clock is None:
        return float(stamp.strip(b"[] ")) if stamp.strip(b"[] ").replace(b".", b"").isdigit() else None
    fraction = float(b"0." + (clock[4] or b"0"))
    of_day = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3]) + fraction
    return of_day + 86400 * _day(date) if date else of_day


def _day(date: re.Match[bytes]) -> int:
    try:
        if date[1]:
            return datetime(int(date[1]), int(date[2]), int(date[3]), tzinfo=UTC).toordinal()
        month = _MONTHS.find(date[4]) // 3 + 1
        return datetime(2000, month or 1, int(date[5]), tzinfo=UTC).toordinal()
    except ValueError:
        return 0


def strip_kernel_clock(text: bytes) -> bytes:
    """A kernel message without dmesg's `[   12.345678] `."""
    return _DMESG.sub(b"", text, count=1)


def is_kernel(prefix: Prefix) -> bool:
    return prefix.ident == "kernel" and prefix.pid is None


def clean(line: bytes) -> bytes:
    """A raw line without its end and without colours."""
    return without_ansi(line.rstrip(b"\r\n"))
