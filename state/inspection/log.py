"""Reading logs as they stream by: any journal format or prefix, any engine, in bounded memory."""

from collections.abc import Callable, Iterable, Sequence

from state.inspection.boot import BootState
from state.inspection.bulk import Bulk, after_lines
from state.inspection.engines import readings
from state.inspection.events import Event
from state.inspection.host_lines import HostLines
from state.inspection.incarnations import Incarnations
from state.inspection.journal import ExportReader, looks_like_json, read_json
from state.inspection.reading import NO_EVIDENCE, STRONG, Line, LineReader, Located, Reading
from state.inspection.report import LogReport
from state.inspection.silence import Silence, message_of
from state.inspection.splitting import Split, Splitter
from state.inspection.systemd import WORDS
from state.inspection.taken import Taken, as_raw
from state.inspection.text import clipped, segments
from state.inspection.transport import JournalRecord, Prefix, clean, read_prefix, without_seams

_HELD_BACK = "the journal held a message back (use `journalctl -o json --all`)"
_OPEN_LINES = 256
"""Lines for which an open traceback keeps everything from being passed over, counted from the last one of its own."""
_MOST_SOURCES = 4096
_Source = tuple[str, int | None, str, str]
"""Engine, PID, invocation, and container with the server in it: whose lines one reader follows."""


class LogReader:
    """Takes lines one by one and can report at any time; memory does not grow with the number of lines.

    Not for several threads. `engine` names the only engine to be recognised, or `auto`.
    """

    def __init__(self, engine: str = "auto") -> None:
        self._readings = readings(engine)
        self._evidence = dict.fromkeys((reading.name for reading in self._readings), NO_EVIDENCE)
        self._incarnations = Incarnations()
        self._host = HostLines(self._incarnations)
        self._readers: dict[_Source, LineReader] = {}
        self._boots_of_sources: dict[tuple[int | None, str, str], BootState] = {}
        self._idents: dict[tuple[int | None, str, str], str] = {}
        self._export: ExportReader | None = None
        self._number = 0
        self._rest: list[bytes] = []
        self._taken: Taken | None = None
        self._bulk = Bulk(self._feed, self._count, self._speaks, self._silent)
        self._silence: Silence | None = None
        self._open_until = 0
        self._recognised = False

    @property
    def recognised(self) -> bool:
        """Whether anything at all was an engine's, or systemd's about one."""
        return bool(self._incarnations.boots) or self._recognised

    def feed_line(self, line: bytes, *, whole: bool = True) -> None:
        """One raw line in any format; `whole` is False for a last line without its end."""
        self._number += 1
        if self._export is not None:
            record = self._export.feed(line)
            if record is not None:
                self._take_record(record)
            return
        if line[:1] == b"{" and looks_like_json(line):
            record = read_json(line)
            if record is not None:
                self._take_record(record)
            return
        if self._number == 1 and ExportReader.recognises(line):
            self._export = ExportReader()
            self._export.feed(line if line.endswith(b"\n") else line + b"\n")
            return
        text = clean(line)
        prefix = read_prefix(text)
        self._take(prefix, without_seams(text, prefix), whole=whole)

    def feed_block(self, block: bytes) -> None:
        """Any number of bytes of a file, cut anywhere; `finish` takes what is left of the last line."""
        whole = block.rfind(b"\n") + 1
        if not whole:
            self._rest.append(block)
            return
        lines = block[:whole]
        if self._rest:
            lines = b"".join((*self._rest, lines))
        self._rest = [block[whole:]] if whole < len(block) else []
        self._bulk.take(lines)

    @property
    def splitter(self) -> Splitter | None:
        """What the next block would be split by, for those who want to do it ahead; None if nothing can be said."""
        return None if self._rest else self._bulk.splitter

    def feed_split(self, split: Split, block: Callable[[], bytes]) -> None:
        """A block of whole lines that was split by the present `splitter`; `block` gives its bytes, seldom wanted."""
        lines = self._bulk.take_split(split)
        if lines is not None:
            self._bulk.take(after_lines(block(), lines))

    def finish(self) -> None:
        """The input is over; a last line without its end may have been cut anywhere."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self.feed_line(rest, whole=False)

    def _feed(self, line: bytes) -> Taken | None:
        """Reads one line of a block in full; None where it tells nothing about lines like it."""
        self._taken = None
        self.feed_line(line + b"\n" if self._export is not None else line)
        return as_raw(self._taken, line)

    def _count(self, lines: int) -> int:
        self._number += lines
        return self._number

    def _silent(self, line: bytes) -> bool:
        """Whether reading the line in full could show nothing; False in doubt."""
        if self._number < self._open_until or self._export is not None or len(self._readings) != 1:
            return False
        reading = self._readings[0]
        if self._silence is None:
            if self._evidence[reading.name] < STRONG:
                return False
            self._silence = Silence((*reading.words, *WORDS))
        words = message_of(line) if line[:1] == b"{" else line
        return words is not None and self._silence.of(words)

    def _speaks(self, line: bytes) -> bool:
        return any(reading.evidence(line) == STRONG for reading in self._readings)

    def feed_record(self, record: JournalRecord) -> None:
        """One decoded journal record; its lines count as one line of input."""
        self._number += 1
        self._take_record(record)

    def report(self) -> LogReport:
        """What the lines so far prove."""
        if self._export is not None and (record := self._export.flush()) is not None:
            self._take_record(record)
        pending = self._pending()
        boots = tuple(boot.snapshot(pending.get(id(boot), ())) for boot in self._incarnations.boots)
        return LogReport(self._engine(), boots)

    def _pending(self) -> dict[int, list[Located]]:
        """What unfinished tracebacks say, by boot; a traceback that is all there is makes a boot of its own."""
        pending: dict[int, list[Located]] = {}
        told: set[tuple[int | None, str, str]] = set()
        for key, reader in sorted(self._readers.items(), key=lambda item: -self._evidence[item[0][0]]):
            located = reader.pending()
            if not located or key[1:] in told:
                continue
            told.add(key[1:])
            boot = self._boots_of_sources.get(key[1:]) or self._settle(key, located)
            if boot is not None:
                pending.setdefault(id(boot), []).extend(located)
        return pending

    def _settle(self, key: _Source, located: Sequence[Located]) -> BootState | None:
        source, _, stream = key[3].partition("/")
        prefix = Prefix(self._idents.get(key[1:], ""), key[1], key[2] or None, source=source)
        boot = self._incarnations.find(prefix, stream, located)
        if boot is not None:
            self._boots_of_sources[key[1:]] = boot
        return boot

    def _engine(self) -> str | None:
        best = max(self._evidence.values(), default=NO_EVIDENCE)
        if best == NO_EVIDENCE:
            return None
        return next(name for name, level in self._evidence.items() if level == best)

    def _take_record(self, record: JournalRecord) -> None:
        prefix = record.prefix()
        if record.message is None:
            boot = self._incarnations.by_invocation.get(record.invocation or "") or self._incarnations.by_pid.get(
                record.pid or 0
            )
            if boot is not None:
                boot.add_notice("log-cut", _HELD_BACK, self._number)
            return
        for part in record.message.split(b"\n"):
            self._take(prefix, clean(part), whole=True)

    def _take(self, prefix: Prefix, text: bytes, *, whole: bool) -> None:
        said = self._host.take(prefix, text, self._number)
        if said is not None:
            if said.alike:
                self._say_taken(text, said.events)
            return
        for part in segments(text):
            self._take_words(prefix, part, whole=whole)

    def _take_words(self, prefix: Prefix, words: bytes, *, whole: bool) -> None:
        """All readings follow the line; while it is unsure whose it is, the likeliest that understands it is heard."""
        clip = clipped(words)
        line = Line(clip, self._number, whole and clip is words, prefix.time)
        heard: tuple[_Source, Sequence[Located]] | None = None
        for reading in self._candidates(clip):
            key = (reading.name, prefix.pid, prefix.invocation or "", f"{prefix.source}/{reading.stream(clip)}")
            reader = self._reader(key, reading)
            located = reader.read(line) if reader.busy or reading.worth(clip) else ()
            if reader.busy:
                self._open_until = self._number + _OPEN_LINES
                if key[1:] not in self._boots_of_sources:
                    self._pin(key, prefix)
            if located and (heard is None or self._evidence[reading.name] > self._evidence[heard[0][0]]):
                heard = (key, located)
        boot = self._apply(heard[0], prefix, heard[1]) if heard is not None else None
        self._say_taken(words, tuple(event for _, event in heard[1]) if heard is not None else (), boot)

    def _pin(self, key: _Source, prefix: Prefix) -> None:
        """A traceback is the boot's in whose time it begins, whenever it ends."""
        boot = self._incarnations.expected(prefix, key[3].partition("/")[2])
        if boot is not None:
            self._boots_of_sources[key[1:]] = boot
        elif prefix.ident:
            self._idents[key[1:]] = prefix.ident

    def _say_taken(self, words: bytes, events: tuple[Event, ...], boot: BootState | None = None) -> None:
        """Of a line of several parts nothing can be said about lines like it."""
        if len(self._readings) != 1:
            return
        newest = not events or (boot is not None and boot is self._incarnations.boots[-1])
        before = self._taken
        at, earlier = (0, ()) if before is None else (-1, before.events)
        busy = self._number < self._open_until
        self._taken = Taken(at, words, (*earlier, *events), boot, self._readings[0], busy, newest)

    def _reader(self, key: _Source, reading: Reading) -> LineReader:
        reader = self._readers.get(key)
        if reader is None:
            if len(self._readers) >= _MOST_SOURCES:
                self._readers.pop(next(iter(self._readers)))
            reader = self._readers[key] = reading.line_reader()
        return reader

    def _candidates(self, words: bytes) -> tuple[Reading, ...]:
        """The readings that may speak about the line: all until one has strong evidence, then that one."""
        if len(self._readings) == 1:
            reading = self._readings[0]
            if self._evidence[reading.name] < STRONG:
                self._evidence[reading.name] = max(self._evidence[reading.name], reading.evidence(words))
            return self._readings
        for reading in self._readings:
            level = reading.evidence(words)
            if level > self._evidence[reading.name]:
                self._evidence[reading.name] = level
            if level == STRONG:
                self._readings = (reading,)
                return self._readings
        return self._readings

    def _apply(self, key: _Source, prefix: Prefix, located: Sequence[Located]) -> BootState | None:
        boot = self._incarnations.find(prefix, key[3].partition("/")[2], located)
        if boot is None:
            return None
        self._boots_of_sources[key[1:]] = boot
        for line, event in located:
            boot.apply(event, line)
        return boot


def read_log(lines: Iterable[bytes], engine: str = "auto") -> LogReport:
    """The report over all lines. A last line without its end may have been cut, if the others had theirs."""
    reader = LogReader(engine)
    ends = False
    for line in lines:
        ended = line.endswith(b"\n")
        reader.feed_line(line, whole=ended or not ends)
        ends = ends or ended
    return reader.report()
