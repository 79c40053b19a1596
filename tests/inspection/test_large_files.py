# ruff: noqa: E501  # lines of logs are shown whole
"""Large files: the report is the same whoever takes the blocks apart, and whatever ends early."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deployments import inspect_ahead
from deployments.inspect_ahead import feed_file
from state.inspection.log import LogReader
from state.inspection.report import LogReport, to_json
from state.inspection.splitting import Split
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY

ACCESS = '[2026-10-07 10:{m}:{s}] INFO:     10.0.0.{n}:{n}7 - "POST /generate HTTP/1.1" {status}'
DECODE = "[2026-10-07 10:{m}:{s} TP0] Decode batch, #running-req: {n}, #token: {tokens}, token usage: 0.{s}, accept len: {length}, accept rate: {rate}, cuda graph: {graph}, gen throughput (token/s): {n}.{s}, #queue-req: {q}"
PLAIN = "[2026-10-07 10:{m}:{s} TP0] Decode batch, #running-req: {n}, #token: {tokens}, token usage: 0.{s}, cuda graph: {graph}, gen throughput (token/s): {n}.{s}, #queue-req: {q}"
PREFILL = "[2026-10-07 10:{m}:{s} TP0] Prefill batch, #new-seq: {n}, #new-token: {tokens}, #cached-token: 0, token usage: {usage}, #running-req: {n}, #queue-req: 0, cuda graph: False, input throughput (token/s): {n}.20"
OTHERS = (
    "Started session-{n}.scope - Session {n} of User op.",
    "[2026-10-07 10:{m}:{s}] Received output for rid='{n:032x}' but the state was deleted in TokenizerManager.",
    "[2026-10-07 10:{m}:{s} TP0] KV cache pool is full. Retract requests. #retracted_reqs: {n}, #new_token_ratio: 0.5 -> 0.6",
    "Traceback (most recent call last):",
    '  File "/x/sglang/srt/a.py", line {n}, in f',
    "RuntimeError: CUDA out of memory. Tried to allocate {n}.00 GiB",
    "[2026-10-07 10:{m}:{s}] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
    "noise {n} \x1b[31mred\x1b[0m",
    "a\r[2026-10-07 10:{m}:{s}] b{n}",
    "",
)
CLOCK = "2026-10-07 10:{m}:{s}"
CLOCKS = (
    "2026-10-07 10:{m}:xx",
    "\x00" * 19,
    "2026-99-99 99:99:99",
    "2026-02-30 10:{m}:{s}",
    "2026-10-07 10:60:{s}",
    "2026-10-07 10:{m}:{s}.9",
)
"""Damaged ones, some that are no time of any day, and one with a part of a second."""
DAMAGED = tuple(DECODE.replace(CLOCK, clock) for clock in CLOCKS)
BARE = DECODE[len(CLOCK) + len("[ TP0] ") :]
"""A record with no clock but the journal's."""

words = st.sampled_from((ACCESS, DECODE, DECODE, DECODE, PLAIN, PREFILL, PREFILL, *OTHERS, *DAMAGED, BARE))
varied = st.builds(
    lambda text, m, s, n, tokens, length, graph, q, usage, status: text.format(
        m=f"{m:02d}", s=f"{s:02d}", n=n, tokens=tokens, length=f"{length / 100:.2f}", rate=f"{(length - 100) / 300:.2f}",
        graph=graph, q=q, usage=usage, status=status,
    ),
    words, st.integers(0, 2), st.integers(0, 59), st.integers(0, 400), st.sampled_from((0, 7, 640, 64_000)),
    st.integers(100, 400), st.sampled_from(("True", "True", "False")), st.integers(0, 12),
    st.sampled_from(("0.10", "0.97", "0.98", "1.00")), st.sampled_from(("200 OK", "200 OK", "400 Bad Request", "503 Service Unavailable")),
)  # fmt: skip
crowds = st.lists(st.tuples(st.lists(varied, min_size=1, max_size=6), st.integers(1, 40)), min_size=1, max_size=8)
"""Lines that come again and again, so that their shapes are learned, and others among them."""


def _json_record(line: str, pid: int) -> str:
    fields = {
        "__CURSOR": f"s=1;i={pid}", "__REALTIME_TIMESTAMP": "1791460800100000", "_PID": str(pid), "SYSLOG_IDENTIFIER": "python3",
        "_SYSTEMD_INVOCATION_ID": f"{pid:032x}", "MESSAGE": line,
    }  # fmt: skip
    return json.dumps(fields)


FORMS: dict[str, Callable[[str, int], str]] = {
    "plain": lambda line, pid: line,
    "short": lambda line, pid: f"Oct 07 10:00:00 gpu-a python3[{pid}]: {line}",
    "json": _json_record,
    "compose": lambda line, pid: f"engine-{pid}  | {line}",
}


def journal(form: str, crowd: list[tuple[list[str], int]], starts: int = 2) -> bytes:
    """Two boots that were crowded alike; every group of lines is repeated so many times.

    With one of the `starts` left out, the second serves without having started, and the first was never over.
    """
    lines: list[str] = []
    for at, pid in enumerate((101, 202)):
        body = [line for group, times in crowd for _ in range(times) for line in group]
        start = (SGLANG_ARGS, SGLANG_READY) if at < starts else ()
        lines += [FORMS[form](line, pid) for line in (*start, *body)]
    return "".join(f"{line}\n" for line in lines).encode()


def by_line(data: bytes) -> LogReader:
    reader = LogReader()
    for line in data.splitlines(keepends=True) if b"\r" not in data else [x + b"\n" for x in data.split(b"\n")[:-1]]:
        reader.feed_line(line)
    return reader


def by_block(data: bytes, sizes: list[int]) -> LogReader:
    reader, at = LogReader(), 0
    while at < len(data):
        for size in sizes:
            reader.feed_block(data[at : at + size])
            at += size
    reader.finish()
    return reader


def told(report: LogReport) -> object:
    """The report with sums rounded, which are made in another order."""
    return json.loads(json.dumps(to_json(report)), parse_float=lambda text: round(float(text), 4))


NEVER_ACCEPTED = DECODE.format(m="00", s="07", n=3, tokens=7, length="1.00", rate="0.00", graph="True", q=0)
SESSION = OTHERS[0].format(n=3)
SERVED = ACCESS.format(m="00", s="09", n=3, status="200 OK")
LONG_SPEECH = [([NEVER_ACCEPTED], 40), ([PLAIN.format(m="00", s="08", n=3, tokens=7, graph="True", q=0)], 40), ([SERVED], 40), ([SESSION], 40)]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(FORMS)),
    crowds,
    st.lists(st.integers(1, 20_000), min_size=1, max_size=4),
    st.sampled_from((1, 2, 2)),
)
@example("compose", LONG_SPEECH, [13], 2)
@example("plain", LONG_SPEECH, [4096], 2)
@example("short", LONG_SPEECH, [4096], 1)
def test_blocks_of_any_size_say_what_their_lines_say(
    form: str, crowd: list[tuple[list[str], int]], sizes: list[int], starts: int
) -> None:
    data = journal(form, crowd, starts)
    assert told(by_block(data, sizes).report()) == told(by_line(data).report())


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(FORMS)), crowds)
def test_a_split_survives_its_way_to_another_process(form: str, crowd: list[tuple[list[str], int]]) -> None:
    data = journal(form, crowd)
    splitter = by_block(data, [1 << 20]).splitter
    if splitter is not None:
        split = splitter.split(data)
        unpacked = Split.unpacked(split.packed())
        assert (unpacked.count, unpacked.others) == (split.count, split.others)
        for there, here in zip(unpacked.matches, split.matches, strict=True):
            assert list(there.rows) == list(here.rows)
            assert there.fields == here.fields


def beats(*clocks: str) -> list[str]:
    """A record for each clock, a second or more apart, each faster than the one before."""
    return [
        DECODE.replace(CLOCK, clock).format(m="00", s="00", n=n % 50, tokens=7, length="2.50", rate="0.50", graph="True", q=0)
        for n, clock in enumerate(clocks)
    ]  # fmt: skip


STEADY = [f"2026-10-07 10:{second // 60:02d}:{second % 60:02d}" for second in range(200)]


@pytest.mark.parametrize("form", [pytest.param(form, id=form) for form in FORMS])
@pytest.mark.parametrize(
    ("clocks", "samples", "measured"),
    [
        pytest.param(("2026-10-07 10:03:xx",), 400, 398, id="no-number-of-seconds"),
        pytest.param(("\x00" * 19,), 400, 398, id="nuls"),
        pytest.param(("2026-99-99 99:99:99",), 401, 399, id="no-day-of-a-calendar"),
        pytest.param(("2026-10-07 10:59:50", "2026-10-07 10:60:00", "2026-10-07 11:00:05"), 403, 400, id="no-minute-between-two-that-are-near"),
        pytest.param(("2026-10-07 10:03:49.9", "2026-10-07 10:03:50.1"), 402, 400, id="parts-of-a-second"),
    ],
)  # fmt: skip
def test_a_clock_means_the_same_in_blocks_and_in_lines(
    clocks: tuple[str, ...], samples: int, measured: int, form: str
) -> None:
    later = [clock.replace("10:0", "11:0") for clock in STEADY]
    lines = [SGLANG_ARGS, SGLANG_READY, *beats(*STEADY, *clocks, *later)]
    data = "".join(f"{FORMS[form](line, 101)}\n" for line in lines).encode()
    blocks = by_block(data, [1 << 20]).report()
    assert told(blocks) == told(by_line(data).report())
    (boot,) = blocks.boots
    assert boot.speculation.samples == samples
    assert boot.throughput is not None
    assert boot.throughput.samples == measured


def large(form: str) -> bytes:
    """Some hundred blocks of `SMALL` bytes, with boots that change in the midst of one."""
    lines = [DECODE.format(m=f"{i // 60 % 60:02d}", s=f"{i % 60:02d}", n=i % 50, tokens=i % 300, length="2.50", rate="0.50", graph="True", q=i % 5) for i in range(1500)]  # fmt: skip
    lines += [ACCESS.format(m="00", s=f"{i % 60:02d}", n=i, status="503 Service Unavailable" if i % 100 == 0 else "200 OK") for i in range(500)]  # fmt: skip
    odd = [OTHERS[i % 3].format(m="01", s="07", n=i) for i in range(60)]
    return journal(form, [(lines[::2], 1), (odd, 1), (lines[1::2], 1)])


SMALL = 4096


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is worth a second process, and has many blocks."""
    monkeypatch.setattr(inspect_ahead, "BLOCK", SMALL)
    monkeypatch.setattr(inspect_ahead, "_worth_a_process", lambda descriptor: True)


def _fed(path: Path, data: bytes) -> tuple[str, int]:
    path.write_bytes(data)
    reader = LogReader()
    with path.open("rb") as file:
        stopped = feed_file(reader, file.fileno(), 0)
    reader.feed_block(data[stopped:])
    reader.finish()
    return json.dumps(to_json(reader.report())), stopped


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", [pytest.param(form, id=form) for form in FORMS])
def test_two_processes_report_what_one_does_byte_for_byte(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = large(form)
    together, stopped = _fed(tmp_path / "log", data)
    assert stopped > len(data) - 3 * SMALL
    monkeypatch.setattr(inspect_ahead, "_worth_a_process", lambda descriptor: False)
    alone, _ = _fed(tmp_path / "log", data)
    assert together == alone


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("answers", [pytest.param(n, id=f"after-{n}-answers") for n in (0, 1, 7)])
def test_a_process_that_is_killed_costs_nothing_but_time(
    answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = large("short")
    expected, _ = _fed(tmp_path / "log", data)
    left = iter(range(answers))

    def killed_at_last(*args: object, **more: object) -> bytes:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return dumps(*args, **more)

    dumps = inspect_ahead.pickle.dumps
    monkeypatch.setattr(inspect_ahead.pickle, "dumps", killed_at_last)
    assert _fed(tmp_path / "log", data)[0] == expected
