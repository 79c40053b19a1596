# ruff: noqa: E501  # lines of logs are shown whole
"""Lines that say nothing are passed over, and only those: reading in blocks says what reading line by line says."""

import random

import pytest

from state.inspection.engines import readings
from state.inspection.literals import value_of
from state.inspection.log import LogReader
from state.inspection.reading import Line, Reading
from state.inspection.report import LogReport
from state.inspection.silence import Silence, message_of
from tests.inspection.failure_cases import SGLANG, SGLANG_ARGS, SGLANG_READY
from tests.inspection.test_prefilter import lines


@pytest.mark.parametrize("reading", [pytest.param(reading, id=reading.name) for reading in readings()])
def test_no_line_that_is_understood_is_silent(reading: Reading) -> None:
    silence = Silence(reading.words)
    understood = [line for line in lines() if reading.line_reader().read(Line(line.encode(), 1))]
    assert [line for line in understood if silence.of(line.encode())] == []


@pytest.mark.parametrize("reading", [pytest.param(reading, id=reading.name) for reading in readings()])
def test_every_word_breaks_the_silence_in_any_case(reading: Reading) -> None:
    silence = Silence(reading.words)
    assert [word for word in reading.words if silence.of(b"xx" + word + b"yy") or silence.of(word.upper())] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b'{"_PID":"1","MESSAGE":"a b","X":"y"}', b"a b", id="text"),
        pytest.param(b'{"MESSAGE" : "a \\"b\\"\\n c"}', b'a \\"b\\"\\n c', id="escaped-quotes-and-ends"),
        pytest.param(b'{"MESSAGE":"a\\u001b[0m"}', None, id="escaped-colour"),
        pytest.param(b'{"MESSAGE":null,"X":"y"}', None, id="held-back"),
        pytest.param(b'{"MESSAGE":[97,98]}', None, id="bytes"),
        pytest.param(b'{"MESSAGE":"a b","X":"y', None, id="cut"),
        pytest.param(b'{"X":"\\"MESSAGE\\": \\"n\\"","MESSAGE":"real"}', b"real", id="a-message-inside-another-field"),
    ],
)
def test_the_message_of_a_record_is_looked_at_alone(line: bytes, message: bytes | None) -> None:
    assert message_of(line) == message


DECODE = (
    "[2026-10-07 10:{m:02d}:{s:02d} TP0] Decode batch, #running-req: {r}, #token: {t}, token usage: 0.01, accept len: 2.{r}0, accept rate: 0.{r}0, "
    "cuda graph: True, gen throughput (token/s): 9{r}.00, #queue-req: {r}"
)  # fmt: skip
OTHERS = (
    "kernel: [UFW BLOCK] IN=eno1 MAC={id:012x} SRC=10.0.0.{r}",
    "sshd[4{id}]: Accepted publickey for op from 10.0.0.{r} port {id} ssh2",
    "node_exporter[9]: level=error msg=\"error encoding {id}\"",
    "python3[77]: [2026-10-07 10:00:00] KV cache pool is full. Retract requests. #retracted_reqs: {r}",
    'python3[77]: [2026-10-07 10:00:00] INFO:     10.0.0.1:{id} - "POST /generate HTTP/1.1" 503 Service Unavailable',
    'python3[77]: [2026-10-07 10:00:00] INFO:     10.0.0.1:{id} - "GET /health HTTP/1.1" 200 OK',
    "python3[77]: [Errno {id}] while binding",
    "python3[77]: Subprocess x (pid={id}) seems fine, exit code: {r}",
)  # fmt: skip


def journal(rng: random.Random, count: int) -> bytes:
    """A server's journal among other programs' lines, with gaps and drain tails, one failure at the end."""
    made = [f"python3[77]: {SGLANG_ARGS}", f"python3[77]: {SGLANG_READY}"]
    clock = 0
    for _ in range(count):
        clock += rng.choice((0, 0, 1, 2, 40))
        numbers = {"r": rng.randint(0, 9), "id": rng.choice((0, 1, 9, 97, rng.getrandbits(40)))}
        if rng.random() < 0.6:
            fields = {"m": clock // 60 % 60, "s": clock % 60, "t": rng.choice((0, 640, 641))}
            made.append("python3[77]: " + DECODE.format(**numbers, **fields))
        else:
            made.append(rng.choice(OTHERS).format(**numbers))
    made += [f"python3[77]: {line}" for line in SGLANG[0][2].split("\n")]
    return "".join(f"Oct 07 10:00:00 gpu-a {line}\n" for line in made).encode()


def by_line(data: bytes) -> LogReport:
    reader = LogReader()
    for line in data.splitlines(keepends=True):
        reader.feed_line(line)
    return reader.report()


def by_block(data: bytes, size: int) -> LogReport:
    reader = LogReader()
    for at in range(0, len(data), size):
        reader.feed_block(data[at : at + size])
    reader.finish()
    return reader.report()


@pytest.mark.parametrize("seed", range(12))
def test_blocks_say_what_lines_say(seed: int) -> None:
    data = journal(random.Random(seed), 600)
    said = by_line(data)
    assert said.boots[0].speculation.samples > 100
    assert by_block(data, 1 << 13) == said
    assert by_block(data, 1 << 20) == said


def test_a_damaged_literal_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    assert [value_of("1or"), value_of("'\\d'")] == ["1or", "\\d"]
    assert recwarn.list == []
