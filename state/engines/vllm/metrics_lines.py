"""vLLM's periodic log records: engine statistics and speculation, V0 and V1, in every field order seen.

V1 prints windows; V0 prints running totals since the start. Rates are per cent in V1, fractions in V0; `nan%` means
that nothing was drafted.
"""

import re
from collections.abc import Iterator

from state.inspection.events import Decoded, Drafted, Event, Noticed
from state.inspection.text import quote

_FIELD = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z \-]{2,40}): "
    r"(?P<value>-?\d+(?:\.\d+)?(?:, \d+\.\d+(?![\d%.]))*|nan|-?inf)(?P<percent>%?)(?= |,|\.|$)"
)
_NEXT = re.compile(r", [A-Z]")
_RUNNING = re.compile(r"Running: (\d+) reqs")
_WAITING = re.compile(r"(?:Waiting|Pending): (\d+) reqs")
_GENERATION = re.compile(r"Avg generation throughput: (\d+(?:\.\d+)?) tokens/s")
_ENGINE = re.compile(r"(Engine \d+): ")
_KV_USAGE = re.compile(r"GPU KV cache usage: (\d+(?:\.\d+)?)%")
LONGEST_RECORD = 8192
"""Characters of a record that are read; the longest seen are about 400."""
SATURATED_PERCENT = 98.0


def read_statistics(text: str, time: float | None) -> Iterator[Event]:
    """`Avg prompt throughput: …, Running: N reqs, Waiting: N reqs, GPU KV cache usage: …%`."""
    engine, running, waiting = _ENGINE.search(text), _RUNNING.search(text), _WAITING.search(text)
    speed, usage = _GENERATION.search(text), _KV_USAGE.search(text)
    generated = float(speed[1]) if speed else 0.0
    yield Decoded(
        group=engine[1] if engine else "",
        time=time if generated else None,
        running=int(running[1]) if running else None,
        queued=int(waiting[1]) if waiting else None,
        throughput=generated or None,
    )
    if usage and float(usage[1]) >= SATURATED_PERCENT:
        yield Noticed("pool-saturated", quote(text))


def read_speculation(text: str, *, whole: bool) -> Iterator[Event]:
    """`SpecDecoding metrics: …` (V1) and `Speculative metrics: …` (V0)."""
    total = "Speculative metrics:" in text
    whole = whole and len(text) <= LONGEST_RECORD
    body = text[:LONGEST_RECORD].partition("metrics: ")[2].rstrip()
    fields = _fields(body, whole=whole)
    doubts: list[Event] = []
    accepted = _count(fields, "Number of accepted tokens" if total else "Accepted")
    drafted = _count(fields, "Number of draft tokens" if total else "Drafted")
    rate = _figure(fields, ("Avg Draft acceptance rate", "Draft acceptance rate"), 0.0, 1.0, text, doubts)
    length = _figure(fields, ("Mean acceptance length",), 1.0, 1000.0, text, doubts)
    positions = fields.get("Per-position acceptance rate", ("", False))[0]
    steps = _count(fields, "Number of speculative tokens")
    if accepted is not None and drafted is not None and accepted > drafted:
        doubts.append(Noticed("impossible-value", quote(text)))
        accepted = drafted = None
    yield Drafted(
        accepted=accepted,
        drafted=drafted,
        accept_length=length,
        accept_rate=rate,
        per_position=_positions(positions),
        per_step=steps,
        total=total,
    )
    yield from doubts
    if not whole:
        yield Noticed("log-cut", quote(text))


def _positions(text: str) -> tuple[float, ...] | None:
    rates = [float(part) for part in text.split(", ") if part[:1].isdigit()]
    return tuple(rates) if rates and all(0.0 <= rate <= 1.0 for rate in rates) else None


def _fields(body: str, *, whole: bool) -> dict[str, tuple[str, bool]]:
    """Values by name, each with whether it is in per cent; in a cut line the last one is not whole.

    Of a list that is cut only the field behind it tells that it was whole.
    """
    fields: dict[str, tuple[str, bool]] = {}
    for found in _FIELD.finditer(body):
        listed = found["name"].startswith("Per-position")
        if whole or (_NEXT.match(body, found.end()) if listed else found.end() < len(body)):
            fields.setdefault(found["name"].strip(), (found["value"], bool(found["percent"])))
    return fields


def _count(fields: dict[str, tuple[str, bool]], name: str) -> int | None:
    value = fields.get(name, ("", False))[0]
    return int(value) if value.isdigit() else None


def _figure(
    fields: dict[str, tuple[str, bool]], names: tuple[str, ...], low: float, high: float, text: str, doubts: list[Event]
) -> float | None:
    name = next((known for known in names if known in fields), None)
    if name is None:
        return None
    shown, percent = fields[name]
    value = float(shown.partition(",")[0]) / (100.0 if percent else 1.0)
    if low <= value <= high:
        return value
    doubts.append(Noticed("nan-acceptance" if value != value else "impossible-value", quote(text)))
    return None
