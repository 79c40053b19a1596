"""The raw evidence of one verification, by name, and the facts that need no knowledge of an engine."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from state import contracts, keyless
from state.claims import Fact
from state.inspection.kernel import looks_like_kernel, read_kernel
from state.inspection.log import LogReader
from state.inspection.report import Boot, LogReport
from state.target import Target, started_by

JOURNAL, UNIT, CMDLINE, ENVIRON, CONTEXT = "journal", "unit", "cmdline", "environ", "context"
LISTENERS, PROCESSES, DRIVERS, KERNEL, KERNEL_GPU = "listeners", "processes", "drivers", "kernel", "kernel-gpu"
MEMORY_EVENTS = "memory-events"


@dataclass(frozen=True)
class Evidence:
    """Bytes by name, with the digest each is kept under. `context` says which invocation and processes are meant.
    `read` is the journal of this start alone where somebody has read it already, line by line."""

    items: Mapping[str, bytes]
    digests: Mapping[str, str] = field(default_factory=dict)
    read: LogReport | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.items

    def text(self, name: str) -> str:
        return self.items.get(name, b"").decode("utf-8", "replace")

    def json(self, name: str) -> Any:
        """The decoded JSON, None where there is none or it is cut."""
        try:
            return json.loads(self.items[name]) if name in self.items else None
        except ValueError:
            return None

    def records(self, name: str) -> list[dict[str, Any]]:
        """The objects of a JSON list, those of earlier rounds (`name@1`, `name@2`, ...) first; none where there is no
        such list, or it is cut."""
        found: list[dict[str, Any]] = []
        for part in self._rounds(name):
            listed = self.json(part)
            found += [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        return found

    def _rounds(self, name: str) -> list[str]:
        earlier = [item for item in self.items if item.startswith(f"{name}@")]
        return [*sorted(earlier, key=lambda item: int(item.rpartition("@")[2])), *([name] if name in self else [])]

    def earliest(self, name: str) -> str:
        """The text of the first round's item."""
        rounds = self._rounds(name)
        return self.text(rounds[0]) if rounds else ""

    def pids(self, name: str) -> list[int] | None:
        """A JSON list of PIDs; None where there is none, or anything else in it."""
        found = self.json(name)
        return found if isinstance(found, list) and all(type(pid) is int for pid in found) else None

    def cite(self, *names: str) -> tuple[str, ...]:
        parts = (part for name in names for part in self._rounds(name))
        return tuple(dict.fromkeys(self.digests[part] for part in parts if part in self.digests))

    @cached_property
    def context(self) -> Mapping[str, Any]:
        found = self.json(CONTEXT)
        return found if isinstance(found, dict) else {}

    @cached_property
    def log(self) -> LogReport:
        """The journal of this start alone: records of older processes are left out, whatever invocation they carry.

        Those that have ended meanwhile are known by the connection through which they wrote (`_STREAM_ID`): systemd
        makes one for each start, and all of its processes inherit it.
        """
        if self.read is not None:
            return self.read
        reader = LogReader()
        for line in self._own_lines():
            reader.feed_line(line)
        return reader.report()

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """What the processes of this start wrote, line by line."""
        return tuple(text for line in self._own_lines() if (text := _message(line)) is not None)

    @cached_property
    def boot(self) -> Boot | None:
        """The boot of the process that was started; the last one where the journal does not tell."""
        main = self.context.get("main_pid")
        boots = self.log.boots
        return next((b for b in reversed(boots) if main in b.pids), boots[-1] if boots else None)

    @cached_property
    def stranger_records(self) -> int | None:
        """Records that older processes wrote after the start; None without a record that names its process, or without
        knowing which processes are the older ones."""
        records = [(_pid(line), _stream(line)) for line in self.items.get(JOURNAL, b"").splitlines()]
        if "old_pids" not in self.context or not any(pid for pid, _ in records):
            return None
        theirs = {stream for pid, stream in records if pid in self._old and stream}
        return sum(1 for pid, stream in records if pid in self._old or stream in theirs)

    def _own_lines(self) -> Iterator[bytes]:
        lines = self.items.get(JOURNAL, b"").splitlines()
        living = frozenset(self.pids(PROCESSES) or ()) - self._old
        ours = {stream for line in lines if (stream := _stream(line)) and _pid(line) in living}
        return (line for line in lines if _pid(line) not in self._old and not (ours and _foreign(line, ours)))

    @cached_property
    def _old(self) -> frozenset[int]:
        return frozenset(self.context.get("old_pids", ()))


def common_facts(target: Target, evidence: Evidence) -> tuple[Fact, ...]:
    """Identity of the process, drivers, kernel faults: what systemd, /proc, ss, sysfs and the kernel say."""
    return (
        *_identity(target, evidence),
        *_ownership(evidence),
        *_environment(target, evidence),
        *_hardware(target, evidence),
        *_weights(evidence),
        *contracts.facts(evidence.records(contracts.CONTRACTS), evidence.cite(contracts.CONTRACTS)),
        *_keyless(evidence),
    )


def _keyless(evidence: Evidence) -> Iterator[Fact]:
    now, before = keyless.KEYLESS, keyless.BEFORE
    return keyless.facts(evidence.records(now)[-1:], evidence.records(before), evidence.cite(now, before))


def _identity(target: Target, evidence: Evidence) -> Iterator[Fact]:
    shown = dict(line.split("=", 1) for line in evidence.text(UNIT).splitlines() if "=" in line)
    cite, want = evidence.cite(UNIT), evidence.context.get("invocation")
    state = shown.get("ActiveState")
    yield Fact(metric="unit.state", value=state, text=f"systemd says {state}" if state else "", evidence=cite)
    seen = shown.get("InvocationID")
    same = seen == want if seen and want else None
    yield Fact(
        metric="unit.same_start",
        value=same,
        text=_start_text(seen, want),
        evidence=cite,
    )
    count, before = shown.get("NRestarts", ""), int(evidence.context.get("restarts", 0))
    restarts = int(count) - before if count.isdecimal() else None
    text = "" if restarts is None else f"{restarts} restarts since the start"
    yield Fact(metric="unit.restarts", value=restarts, text=text, evidence=cite)
    words = [w.decode("utf-8", "replace") for w in evidence.items.get(CMDLINE, b"").split(b"\0")[:-1]]
    argv = list(target.argv) if started_by(words, target.argv) else words
    yield Fact(metric="process.argv", value=argv or None, text=_argv_text(words), evidence=evidence.cite(CMDLINE))
    strangers = evidence.stranger_records
    text = "" if strangers is None else f"{strangers} journal records of older processes after the start"
    yield Fact(metric="journal.strangers", value=strangers, text=text, evidence=evidence.cite(JOURNAL))


def _ownership(evidence: Evidence) -> Iterator[Fact]:
    pids, listening = evidence.pids(PROCESSES), evidence.pids(LISTENERS)
    value, text = None, ""
    if pids is not None and listening:
        strangers = sorted(set(listening) - set(pids) - {0})
        value = False if strangers else None if 0 in listening else True
        text = f"the port is held by PID {', '.join(map(str, strangers or listening))}"
        text = "the port is held by a process that is not shown" if value is None else text
    yield Fact(metric="port.ours", value=value, text=text, evidence=evidence.cite(LISTENERS, PROCESSES))


def _environment(target: Target, evidence: Evidence) -> Iterator[Fact]:
    variables = evidence.json(ENVIRON)
    if not isinstance(variables, dict) or not variables:  # systemd starts nothing without any
        return
    for name in target.environment:
        value = variables.get(name, "(unset)")
        yield Fact(metric=f"environment.{name}", value=value, text=f"{name}={value}", evidence=evidence.cite(ENVIRON))


def _weights(evidence: Evidence) -> Iterator[Fact]:
    """GB on the fullest rank, target and draft together: what the next start of the same model will need as well."""
    loads = evidence.boot.weights if evidence.boot else ()
    ranks: dict[object, float] = {}
    for load in loads:
        if load.gb is not None:
            ranks[load.rank] = ranks.get(load.rank, 0.0) + load.gb
    if ranks:
        most = round(max(ranks.values()), 3)
        text = f"{most:.2f} GB of weights on the fullest of {len(ranks)} ranks"
        yield Fact(
            metric="memory.weights_gb", value=most, sample=len(ranks), text=text, evidence=evidence.cite(JOURNAL)
        )


def _hardware(target: Target, evidence: Evidence) -> Iterator[Fact]:
    drivers = evidence.json(DRIVERS)
    if isinstance(drivers, dict):
        wrong = [f"{a} is on {drivers.get(a) or 'no driver'}" for a, d in target.drivers.items() if drivers.get(a) != d]
        text = "; ".join(wrong) or f"{len(target.drivers)} devices on the drivers asked for"
        yield Fact(metric="gpu.drivers", value=drivers, text=text, evidence=evidence.cite(DRIVERS))
    yield from _kernel(evidence)


def _kernel(evidence: Evidence) -> Iterator[Fact]:
    """The logs of both hosts, and what the unit's cgroup counts: in a container the kernel's log may be another's."""
    logs = [evidence.items[name] for name in (KERNEL, KERNEL_GPU) if name in evidence]
    faults = [fault for log in logs for fault in read_kernel(log.splitlines()).faults]
    told = [f"{fault.code} {fault.device or ''}: {fault.text}" for fault in faults[:3]]
    killed = _killed_for_memory(evidence)
    if killed:
        told.append(f"the OOM killer took {killed} of the unit's processes (memory.events)")
    count = len(faults) + killed
    cited = evidence.cite(KERNEL, KERNEL_GPU, MEMORY_EVENTS)
    if count == 0 and not all(map(_is_kernel_log, logs)):
        yield Fact(metric="kernel.faults", text="the kernel log has a shape that is not known", evidence=cited)
    elif KERNEL in evidence or count:
        text = "; ".join(told) or "no fault in the kernel log since the start"
        yield Fact(metric="kernel.faults", value=count, text=text, evidence=cited)


def _is_kernel_log(log: bytes) -> bool:
    """Whether any line is the kernel's; a log without a record, of which journalctl says `-- No entries --`, is one."""
    lines = [line for line in log.splitlines() if line and not line.startswith(b"-- ")]
    return not lines or any(map(looks_like_kernel, lines))


def _killed_for_memory(evidence: Evidence) -> int:
    counts = dict(line.split(" ", 1) for line in evidence.text(MEMORY_EVENTS).splitlines() if " " in line)
    return int(counts["oom_kill"]) if counts.get("oom_kill", "").isdecimal() else 0


def _start_text(seen: str | None, want: object) -> str:
    if not seen:
        return ""
    return (
        f"InvocationID {seen[:12]}" if seen == want else f"InvocationID {seen[:12]}, but {str(want)[:12]} was started"
    )


def _argv_text(words: list[str]) -> str:
    shown = " ".join(words)
    return f"{len(words)} words: {shown if len(shown) <= 90 else '… ' + shown[-88:]}" if words else ""


def _pid(line: bytes) -> int | None:
    """The `_PID` of a journal record in JSON, without decoding the record."""
    digits = _field(line, b'"_PID"')
    return int(digits) if digits.isdigit() else None


def _stream(line: bytes) -> bytes:
    """The `_STREAM_ID`: 128 bits in hex; empty for records that came another way than through stdout or stderr."""
    return _field(line, b'"_STREAM_ID"')


def _foreign(line: bytes, ours: set[bytes]) -> bool:
    stream = _stream(line)
    return bool(stream) and stream not in ours


def _message(line: bytes) -> str | None:
    """The `MESSAGE`; None for a record without one, or whose bytes are no text (journald then gives numbers)."""
    try:
        found = json.loads(line).get("MESSAGE")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def _field(line: bytes, name: bytes) -> bytes:
    """A short field of a journal record in JSON, without decoding the record: a quote inside of text is escaped."""
    at = line.find(name)
    return line[at + len(name) : at + len(name) + 40].lstrip(b' :"').split(b'"')[0] if at >= 0 else b""
