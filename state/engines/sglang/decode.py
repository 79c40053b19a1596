"""SGLang's `Prefill batch` and `Decode batch` records, by field name and in any order (0.4.6 to 0.5.23 and forks).

Fields are `key: value` joined by `, `; unknown keys are passed over. On hybrid models there is no `#token:` and no bare
`token usage:`. Forks print `#accepted`, `#draft`, `spec_accept` and `output throughput`.
"""

import re
from collections.abc import Mapping

from state.inspection.events import Alive, Decoded, Event, Noticed, RoleSeen
from state.inspection.shapes import Slot, digit_slots
from state.inspection.text import quote

_HEAD = re.compile(r"(?P<kind>Prefill|Decode) batch(?: \[(?P<iteration>\d+)\])?[.,] ")
_PAIR = re.compile(
    r"(?P<name>[#A-Za-z][^:,]{0,60}?): (?P<value>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?%?|True|False"
    r"|[+-]?nan|[+-]?inf)(?=,|\s*$)"
)
_DECODE_ROLE = ("pre-allocated usage", "#prealloc-req", "#transfer-req", "#retracted-req", "#host-receive-req")
_PREFILL_ROLE = (
    "#unbootstrapped-req",
    "#prealloc-req",
    "#inflight-req",
    "#bootstrap-req",
    "#optimistic-req",
    "#transferring-req",
)
_USAGE = ("token usage", "full token usage", "swa token usage", "mamba usage", "new token usage", "gpu token usage")
_LENGTHS = ("accept len", "avg_accept_len", "accept_len")
_RATES = ("accept rate", "spec_accept", "accept_rate")
_ACCEPTANCE = (*_LENGTHS, *_RATES, "#accepted", "#draft", "block accept len")
_ABOUT_SPECULATION = re.compile(r"accept|spec|draft", re.IGNORECASE)
"""A record with a field of such a name does not prove that speculation is off, even if nobody knows the field."""
LONGEST_RECORD = 8192
"""Characters of a record that are read; the longest seen are about 500."""
SATURATED = 0.98
"""The share of a pool from which on it counts as full."""


def split_rank(ranks: str) -> tuple[str, str]:
    """`DP0 TP1` as its data-parallel part and the rest."""
    words = ranks.split()
    return " ".join(w for w in words if w.startswith("DP")), " ".join(w for w in words if not w.startswith("DP"))


def read_batch(text: str, ranks: str, time: float | None, *, whole: bool) -> tuple[Event, ...]:
    """The events of one record; nothing where the text is no batch record."""
    head = _HEAD.match(text)
    if head is None:
        return ()
    whole = whole and len(text) <= LONGEST_RECORD
    body = text[head.end() : LONGEST_RECORD]
    fields, cut = _fields(body, whole=whole)
    notices = tuple(Noticed("log-cut", quote(text)) for _ in range(cut and not whole))
    if head["kind"] == "Prefill":
        role = (RoleSeen("prefill"),) if any(name in fields for name in _PREFILL_ROLE) else ()
        return (Alive(), *role, *_saturation(fields, text), *notices)
    role = (RoleSeen("decode"),) if any(name in fields for name in _DECODE_ROLE) else ()
    record, doubts = _record(fields, text, ranks, time, whole=whole)
    retracted = _count(fields, "#retracted-req")
    pressure = (Noticed("retractions", quote(text)),) if retracted else ()
    return (record, *role, *_saturation(fields, text), *pressure, *doubts, *notices)


def _fields(body: str, *, whole: bool) -> tuple[dict[str, str], bool]:
    """Values by name, the first of a repeated one; the last field of a cut line is not whole unless a comma follows."""
    fields: dict[str, str] = {}
    end = 0
    for pair in _PAIR.finditer(body):
        if not whole and pair.end() == len(body.rstrip("\r\n")):
            return fields, True
        fields.setdefault(pair["name"].strip(), pair["value"])
        end = pair.end()
    return fields, bool(body[end:].strip(" ,"))


def _record(
    fields: Mapping[str, str], text: str, ranks: str, time: float | None, *, whole: bool
) -> tuple[Decoded, tuple[Event, ...]]:
    doubts: list[Event] = []
    length = _figure(fields, _LENGTHS, 1.0, 10_000.0, text, doubts)
    rate = _figure(fields, _RATES, 0.0, 1.0, text, doubts)
    tokens = _count(fields, "#token", "#full token")
    if any(value.startswith("-") for name, value in fields.items() if name.startswith("#")):
        doubts.append(Noticed("impossible-value", quote(text)))
    group, member = split_rank(ranks)
    shown = any(name in fields for name in _ACCEPTANCE)
    complete = (
        not any(_ABOUT_SPECULATION.search(name) for name in fields)
        and whole
        and "#queue-req" in fields
        and any("throughput" in name for name in fields)
    )
    graph = next((value for name, value in fields.items() if name.endswith("graph")), None)
    accepted, drafted = _count(fields, "#accepted"), _count(fields, "#draft")
    record = Decoded(
        group=group,
        member=member,
        time=time,
        running=_count(fields, "#running-req"),
        queued=_count(fields, "#queue-req"),
        tokens=tokens,
        accept_length=length,
        accept_rate=rate,
        has_acceptance=True if shown else (False if complete else None),
        accepted=accepted if drafted is not None else None,
        drafted=drafted if accepted is not None else None,
        throughput=_figure(fields, ("gen throughput (token/s)", "output throughput (token/s)"), 0.0, 1e9, text, doubts),
        graphs=None if graph not in ("True", "False") else graph == "True",
        bonus_hint=True if text.rstrip("\n").endswith(", ") or text.startswith("Decode batch.") else None,
    )
    return record, tuple(doubts)


def _count(fields: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if value is not None and value.isdigit():
            return int(value)
    return None


def _figure(
    fields: Mapping[str, str], names: tuple[str, ...], low: float, high: float, text: str, doubts: list[Event]
) -> float | None:
    """The first of the named figures; one that cannot be is said to be so and not used."""
    name = next((known for known in names if known in fields), None)
    if name is None or fields[name] in ("True", "False"):
        return None
    value = float(fields[name].rstrip("%")) / (100.0 if fields[name].endswith("%") else 1.0)
    if low <= value <= high:
        return value
    acceptance = not name.endswith("(token/s)")
    doubts.append(Noticed("nan-acceptance" if value != value and acceptance else "impossible-value", quote(text)))
    return None


def _saturation(fields: Mapping[str, str], text: str) -> tuple[Event, ...]:
    for name in _USAGE:
        value = fields.get(name, "")
        if value[:1].isdigit() and float(value.rstrip("%")) >= SATURATED * (100.0 if value.endswith("%") else 1.0):
            return (Noticed("pool-saturated", quote(text)),)
    return ()


_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)((?:\.\d{1,6})?)((?: [A-Z_]{2,8}\d+)*)\] ")
_VALUE = re.compile(rb"(?P<name>[#A-Za-z][^:,]{0,60}?): (?P<value>\d+(?:\.\d+)?)(?=,|\s*$)")
_CAPTURED = {
    b"#running-req": ("running", b"[0-9]++"),
    b"#queue-req": ("queued", b"[0-9]++"),
    b"#token": ("tokens", b"[0-9]++"),
    b"#full token": ("tokens", b"[0-9]++"),
    b"accept len": ("length", b"[1-9][0-9]*+\\.[0-9]++"),
    b"accept rate": ("rate", b"(?:0\\.[0-9]++|1\\.0++)"),
    b"gen throughput (token/s)": ("throughput", b"[0-9]++\\.[0-9]++"),
}
_STRICT = {
    b"#retracted-req": b"0++",
    b"#accepted": b"",
    b"#draft": b"",
    b"spec_accept": b"",
    b"accept_len": b"",
    b"avg_accept_len": b"",
    b"accept_rate": b"",
    b"output throughput (token/s)": b"",
}
"""Fields that only mean nothing in these forms; a record with one of the empty ones is always read in full."""


def batch_slots(line: bytes) -> list[Slot]:
    """What varies in a line: digits, the clock, and the values of a batch record as long as they are unremarkable."""
    stamp = _STAMP.match(line)
    start = stamp.end() if stamp else 0
    clock = (
        [Slot(stamp.start(1), stamp.end(1), b"[0-9]{4}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]", "clock")]
        if stamp
        else []
    )
    if stamp and stamp[2]:
        clock.append(Slot(stamp.start(2), stamp.end(2), b"\\.[0-9]++"))
    if b" batch" not in line[start : start + 16]:
        return [*clock, *digit_slots(line, start)]
    plain = b"#token: " in line
    named: set[str] = set()
    return [*clock, *(_slot(found, named, plain=plain) for found in _VALUE.finditer(line, start))]


def _slot(found: re.Match[bytes], named: set[str], *, plain: bool) -> Slot:
    name, value = found["name"].strip(), found["value"]
    place = found.start("value"), found.end("value")
    if name.endswith(b"usage"):
        return Slot(*place, b"0\\.(?:[0-8][0-9]|9[0-7])")
    if name in _STRICT:
        return Slot(*place, _STRICT[name] or re.escape(value))
    field, pattern = _CAPTURED.get(name, ("", b"[0-9]++\\.[0-9]++" if b"." in value else b"[0-9]++"))
    if field in named or (plain and name == b"#full token"):
        field = ""
    named.add(field)
    return Slot(*place, pattern, field)
