# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Noise, colours, prefixes, cuts and interleaving never make a fact of an unknown, nor one boot's fact another's."""

import json
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from state.inspection.log import LogReader, read_log
from state.inspection.report import Boot, LogReport
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY

OFF_ARGS = SGLANG_ARGS.replace("speculative_algorithm='EAGLE'", "speculative_algorithm=None")


def record(second: int, acceptance: str, token: int = 640) -> str:
    return (
        f"[2026-10-07 10:01:{second:02d} TP0] Decode batch, #running-req: 2, #token: {token}, token usage: 0.01, {acceptance}"
        f"cuda graph: True, gen throughput (token/s): {90 + second}.00, #queue-req: 1"
    )


ACTIVE = [SGLANG_ARGS, SGLANG_READY, *[record(s, f"accept len: 2.{s}0, accept rate: 0.{s}0, ") for s in range(4, 8)]]
OFF = [OFF_ARGS, SGLANG_READY, *[record(s, "") for s in range(4, 8)]]
LOADING = [SGLANG_ARGS, "[2026-10-07 10:00:01 TP0] Load weight begin. avail mem=78.84 GB"]
BOOTS = {"active": ACTIVE, "off": OFF, "loading": LOADING}

noise = st.one_of(
    st.text("abcdef 0123456789:,[]#|%/()'\"=.-_é\x00", max_size=80),
    st.sampled_from(
        (
            "", "nohup: ignoring input", "speculation is great and the server is ready", "  0%|          | 0/12 [00:00<?, ?it/s]",
            "INFO:root:hello accept len: 9.99, accept rate: 0.99", "wrapper.sh: server ready on port 30000", "accept len: 3.00",
            "Decode", "batch, #running-req: 1", "#token: 5, accept len: 4.00, gen throughput (token/s): 1.00, #queue-req: 0", "\ufeff",
            "token usage: 0.99", "[2026-10-07 10:00:00] something else was said",
        )
    ),
)  # fmt: skip
transports: tuple[Callable[[str], str], ...] = (
    lambda line: line,
    lambda line: f"\x1b[0;36m{line}\x1b[0m",
    lambda line: f"{line}\r",
    lambda line: f"  5%|█ | 3/60 [00:01<00:20,  2.85it/s]\r{line}",
    lambda line: f"engine-1  | {line}",
    lambda line: f"2026-10-07T10:00:00.650000137Z {line}",
    lambda line: f"[pod/llm-0/engine] {line}",
)


def told(boot: Boot) -> tuple[object, ...]:
    return boot.outcome, boot.stage, boot.arguments, boot.speculation, boot.throughput, boot.queue, boot.weights


def read(lines: list[str]) -> LogReport:
    return read_log([line.encode() + b"\n" for line in lines])


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(BOOTS)),
    st.sampled_from(transports),
    st.lists(st.tuples(st.integers(0, 40), noise), max_size=6),
)
def test_noise_and_transport_change_nothing(
    name: str, transport: Callable[[str], str], extra: list[tuple[int, str]]
) -> None:
    lines = [transport(line) for line in BOOTS[name]]
    for place, text in extra:
        lines.insert(place % (len(lines) + 1), text)
    report = read(lines)
    assert [told(boot) for boot in report.boots] == [told(boot) for boot in read(BOOTS[name]).boots]


@settings(max_examples=150, deadline=None)
@given(st.lists(noise, max_size=12))
def test_noise_alone_proves_nothing(lines: list[str]) -> None:
    for boot in read(lines).boots:
        assert (boot.arguments, boot.outcome, boot.stage, boot.weights, boot.throughput) == (None, None, None, (), None)
        assert boot.speculation.state is None
        assert boot.speculation.samples == 0


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(BOOTS)), st.floats(0, 1), st.floats(0, 1))
def test_a_cut_anywhere_only_takes_away(name: str, begin: float, end: float) -> None:
    data = "\n".join(BOOTS[name]).encode() + b"\n"
    first, last = sorted((int(begin * len(data)), int(end * len(data))))
    reader = LogReader()
    reader.feed_block(data[first:last])
    reader.finish()
    whole = read(BOOTS[name]).boots[0]
    for boot in reader.report().boots:
        _only_less(boot, whole, name)


def _only_less(boot: Boot, whole: Boot, name: str) -> None:
    allowed = {"active": {"active", "configured", None}, "off": {"off", None}, "loading": {"configured", None}}[name]
    assert boot.speculation.state in allowed
    assert boot.speculation.samples <= whole.speculation.samples
    assert boot.speculation.algorithm in (None, whole.speculation.algorithm)
    assert boot.outcome in (None, "starting", whole.outcome)
    assert set((boot.arguments or {}).items()) <= set((whole.arguments or {}).items())
    assert not boot.failures
    length, full = boot.speculation.accept_length, whole.speculation.accept_length
    if length is not None:
        assert full is not None
        assert length.min is not None
        assert full.min is not None
        assert length.max is not None
        assert full.max is not None
        assert full.min <= length.min <= length.max <= full.max


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), min_size=12, max_size=12), st.sampled_from(("short", "json", "compose")))
def test_interleaved_boots_stay_apart(order: list[bool], form: str) -> None:
    queues = {True: list(ACTIVE), False: list(OFF)}
    turns = [*order, *([True, False] * 8)]
    lines = [_framed(queues[first].pop(0), first, form) for first in turns if queues[first]]
    report = read(lines)
    states = {boot.speculation.state: boot for boot in report.boots}
    assert len(report.boots) == 2
    assert set(states) == {"active", "off"}
    assert told(states["active"]) == told(read(ACTIVE).boots[0])
    assert told(states["off"]) == told(read(OFF).boots[0])


def _framed(line: str, first: bool, form: str) -> str:
    pid = 101 if first else 202
    if form == "short":
        return f"Oct 07 10:00:00 gpu-a python3[{pid}]: {line}"
    if form == "compose":
        return f"engine-{1 if first else 2}  | {line}"
    invocation = ("a" if first else "b") * 32
    return json.dumps(
        {"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1791460800100000", "_PID": str(pid), "SYSLOG_IDENTIFIER": "python3",
         "_SYSTEMD_INVOCATION_ID": invocation, "MESSAGE": line}
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("active", "off", "access", "prefill", "odd", "drain", "cr")), st.integers(0, 59)),
        min_size=1,
        max_size=200,
    ),
    st.sampled_from(("plain", "short", "json", "compose")),
    st.integers(1, 5000),
)
def test_blocks_read_as_lines_do(kinds: list[tuple[str, int]], form: str, size: int) -> None:
    """The fast reading of whole blocks and the reading of each line give the same report."""
    texts = {
        "active": lambda s: record(s, f"accept len: 2.{s:02d}, accept rate: 0.{s:02d}, "),
        "off": lambda s: record(s, ""),
        "drain": lambda s: record(s, "accept len: 1.50, accept rate: 0.17, ", 0),
        "access": lambda s: (
            f'[2026-10-07 10:01:{s:02d}] INFO:     127.0.0.1:{s + 9000} - "POST /generate HTTP/1.1" {"500 Internal Server Error" if s == 7 else "200 OK"}'
        ),
        "prefill": lambda s: (
            f"[2026-10-07 10:01:{s:02d} TP0] Prefill batch, #new-seq: 1, #new-token: {s}, #cached-token: 0, token usage: 0.{s + 40}, #running-req: 0, #queue-req: 0, cuda graph: False, input throughput (token/s): 9.20"
        ),
        "odd": lambda s: f"[2026-10-07 10:01:{s:02d}] note {s:x} abc",
        "cr": lambda s: f"[2026-10-07 10:01:{s:02d}] a\r[2026-10-07 10:01:{s:02d}] b",
    }
    lines = [texts[kind](second) for kind, second in kinds]
    framed = (
        [SGLANG_ARGS, *lines, SGLANG_READY, *lines]
        if form == "plain"
        else [_framed(x, True, form) for x in (SGLANG_ARGS, *lines, *lines)]
    )
    data = "".join(line + "\n" for line in framed).encode()
    by_block = LogReader()
    for at in range(0, len(data), size):
        by_block.feed_block(data[at : at + size])
    by_block.finish()
    assert _rounded(by_block.report()) == _rounded(read(framed))


def _rounded(report: LogReport) -> str:
    from state.inspection.report import to_json

    return json.dumps(json.loads(json.dumps(to_json(report)), parse_float=lambda text: round(float(text), 4)))
