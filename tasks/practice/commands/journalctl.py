"""journalctl (systemd 252), the options that a deployment uses."""

import itertools
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table, options
from tasks.practice.journal import Journal, Query, Record, matches_of
from tasks.practice.journal_text import FORMS, Form
from tasks.practice.process import ProgramEnded
from tasks.practice.unitfile import parse_span

_LONG = [
    "output=",
    "all",
    "no-pager",
    "unit=",
    "since=",
    "until=",
    "cursor=",
    "after-cursor=",
    "show-cursor",
    "dmesg",
    "lines=",
    "follow",
    "quiet",
    "boot",
    "no-tail",
    "no-hostname",
    "utc",
    "identifier=",
    "reverse",
]
_SHORT = "o:au:kn:fqbt:r"
_SAME = {"o": "output", "a": "all", "u": "unit", "k": "dmesg", "n": "lines", "f": "follow", "q": "quiet", "b": "boot",
         "t": "identifier", "r": "reverse", "S": "since"}  # fmt: skip


class Unusable(Exception):  # named by consequence, as all errors here are
    """Words that journalctl refuses."""


@dataclass(frozen=True, slots=True)
class _Wish:
    query: Query
    form: Form
    everything: bool
    lines: int | None
    show_cursor: bool
    quiet: bool
    newest_first: bool
    skip: int

    def chosen(self, journal: Journal) -> list[Record]:
        """`skip`: after a cursor the first record that fits is left out, whether or not it is the cursor's own."""
        return _last(journal.select(self.query)[self.skip :], self.lines)

    def printed(self, record: Record) -> bytes:
        return self.form(record, self.everything)


async def journalctl(call: Call) -> Completed:
    try:
        wish = _wish(call)
    except Unusable as error:
        return Completed(1, b"", f"{error}\n".encode())
    records = wish.chosen(call.machine.journal)
    out = b"".join(wish.printed(record) for record in (reversed(records) if wish.newest_first else records))
    if not records and not wish.quiet:
        out += b"-- No entries --\n"
    journal = call.machine.journal
    if wish.show_cursor and journal.records:
        at = records[-1] if records else journal.records[-1]
        out += f"-- cursor: {at.cursor}\n".encode()
    return Completed(0, out)


def follow(call: Call) -> AsyncGenerator[bytes, None]:
    """The lines of `journalctl --follow`: the last ten first, or all after a cursor. Raises ProgramEnded."""
    try:
        wish = _wish(call)
    except Unusable as error:
        raise ProgramEnded(Completed(1, b"", f"{error}\n".encode())) from error
    return _following(call.machine.journal, wish)


async def _following(journal: Journal, wish: _Wish) -> AsyncGenerator[bytes, None]:
    start = len(journal.records)
    for record in wish.chosen(journal):
        yield wish.printed(record).removesuffix(b"\n")
    async with aclosing(journal.follow(wish.query, start)) as records:
        async for record in records:
            yield wish.printed(record).removesuffix(b"\n")


def _wish(call: Call) -> _Wish:
    given, operands = options(call, _SHORT, _LONG)
    named = {_SAME.get(name, name): value for name, value in given.items()}
    every_unit = [w for name, w in _pairs(call) if name in ("--unit", "-u")]
    output = named.get("output", "short")
    if output not in FORMS:
        raise Unusable(f"Unknown output format '{output}'.")
    return _Wish(
        _query(call.machine.journal, named, operands, every_unit),
        FORMS[output],
        "all" in named,
        _lines(named),
        "show-cursor" in named,
        "quiet" in named or not output.startswith("short"),  # only the forms for people say that there is nothing
        "reverse" in named,
        1 if "after-cursor" in named else 0,
    )


def _query(journal: Journal, named: dict[str, str], operands: list[str], units: list[str]) -> Query:
    try:
        matches = matches_of(operands)
    except ValueError as error:
        raise Unusable(f"Failed to add match '{error}': Invalid argument") from error
    if "identifier" in named:
        matches["SYSLOG_IDENTIFIER"] = frozenset({named["identifier"].encode()})
    try:
        cursor = named.get("after-cursor", named.get("cursor"))
        after = journal.find(cursor) - 1 if cursor else 0
    except (ValueError, KeyError) as error:
        raise Unusable("Failed to seek to cursor: Invalid argument") from error
    return Query(
        matches=matches,
        units=frozenset(unit if "." in unit else f"{unit}.service" for unit in units),
        kernel="dmesg" in named,
        after=after,
        since_us=_time(journal, named["since"]) if "since" in named else 0,
        until_us=_time(journal, named["until"]) if "until" in named else 0,
        boot_id=journal.boot_id if {"dmesg", "boot"} & named.keys() else "",
    )


def _lines(named: dict[str, str]) -> int | None:
    if "lines" in named:
        return None if named["lines"] in ("all", "+all") else int(named["lines"])
    return 10 if "follow" in named and not {"no-tail", "since", "cursor", "after-cursor"} & named.keys() else None


def _last(records: list[Record], lines: int | None) -> list[Record]:
    return records if lines is None else records[len(records) - min(lines, len(records)) :]


def _time(journal: Journal, text: str) -> int:
    now = journal.now_us()
    if text.startswith("@"):
        return round(float(text[1:]) * 1_000_000)
    if text == "now":
        return now
    try:
        if text.startswith("-"):
            return now - parse_span(text[1:])
        if text.endswith(" ago"):
            return now - parse_span(text.removesuffix(" ago"))
        plain = re.sub(r" UTC$", "", text)
        return round(datetime.fromisoformat(plain).replace(tzinfo=UTC).timestamp() * 1_000_000)
    except ValueError as error:
        raise Unusable(f"Failed to parse timestamp: {text}") from error


def _pairs(call: Call) -> list[tuple[str, str]]:
    words = call.words[1:]
    joined = [(name, value) for name, sep, value in (word.partition("=") for word in words) if sep]
    return joined + [(name, value) for name, value in itertools.pairwise(words) if name in ("-u", "--unit")]


PROGRAMS: Table = {"journalctl": journalctl}
