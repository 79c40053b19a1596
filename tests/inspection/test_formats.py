# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""One start in every form in which a journal or a container shows it."""

import json
from collections.abc import Callable

import pytest

from state.inspection.log import LogReader, read_log
from state.inspection.report import Boot, LogReport
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY

LINES = (
    SGLANG_ARGS,
    "[2026-10-07 10:00:01 TP0] Load weight end. elapsed=2.20 s, type=Qwen3_5ForCausalLMMTP, avail mem=44.10 GB, mem usage=1.52 GB.",
    SGLANG_READY,
    *(
        f"[2026-10-07 10:01:0{s} TP0] Decode batch, #running-req: 2, #token: 640, token usage: 0.01, accept len: 2.{s}0, accept rate: 0.{s}0, "
        f"cuda graph: True, gen throughput (token/s): 9{s}.00, #queue-req: 0"
        for s in range(1, 6)
    ),
)  # fmt: skip
Form = Callable[[str], bytes]


def prefixed(prefix: str) -> Form:
    return lambda line: f"{prefix}{line}\n".encode()


def as_json(**more: object) -> Form:
    fields = {
        "__CURSOR": "s=1",
        "__REALTIME_TIMESTAMP": "1791460800100000",
        "_PID": "77",
        "SYSLOG_IDENTIFIER": "python3",
    }
    return lambda line: json.dumps({**fields, "MESSAGE": line, **more}).encode() + b"\n"


def as_bytes(line: str) -> bytes:
    return (
        json.dumps({"__CURSOR": "s=1", "_PID": "77", "MESSAGE": list(f"\x1b[32m{line}\x1b[0m".encode())}).encode()
        + b"\n"
    )


def as_docker_file(line: str) -> bytes:
    return (
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-10-07T10:00:00.650000137Z"}).encode() + b"\n"
    )


def as_export(line: str) -> bytes:
    return f"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1791460800100000\n_PID=77\nMESSAGE={line}\nSYSLOG_IDENTIFIER=python3\n\n".encode()


def as_binary_export(line: str) -> bytes:
    words = f"a\rb\n{line}".encode()
    return b"__CURSOR=s=1\n_PID=77\nMESSAGE\n" + len(words).to_bytes(8, "little") + words + b"\n\n"


FORMS = (
    pytest.param(prefixed(""), (), id="cat"),
    pytest.param(prefixed("Oct 07 10:00:00 gpu-a python3[77]: "), (77,), id="short"),
    pytest.param(prefixed("Oct  7 10:00:00 gpu-a python3[77]: "), (77,), id="short-padded-day"),
    pytest.param(prefixed("Oct 07 10:00:00.123456 gpu-a python3[77]: "), (77,), id="short-precise"),
    pytest.param(prefixed("2026-10-07T10:00:00+02:00 gpu-a python3[77]: "), (77,), id="short-iso"),
    pytest.param(prefixed("2026-10-07T10:00:00+0200 gpu-a python3[77]: "), (77,), id="short-iso-old"),
    pytest.param(prefixed("2026-10-07T10:00:00.123456+0200 gpu-a python3[77]: "), (77,), id="short-iso-precise"),
    pytest.param(prefixed("Wed 2026-10-07 10:00:00 CEST gpu-a python3[77]: "), (77,), id="short-full"),
    pytest.param(prefixed("1791460800.123456 gpu-a python3[77]: "), (77,), id="short-unix"),
    pytest.param(prefixed("[ 4242.123456] gpu-a python3[77]: "), (77,), id="short-monotonic"),
    pytest.param(as_json(), (77,), id="json"),
    pytest.param(as_bytes, (77,), id="json-byte-arrays"),
    pytest.param(as_json(PRIORITY=["6", "7"]), (77,), id="json-field-twice"),
    pytest.param(as_export, (77,), id="export"),
    pytest.param(as_binary_export, (77,), id="export-binary"),
    pytest.param(prefixed("2026-10-07T10:00:00.650000137Z "), (), id="docker-timestamps"),
    pytest.param(prefixed("2026-10-07T10:00:00.650000137Z stderr F "), (), id="containerd"),
    pytest.param(as_docker_file, (), id="docker-json-file"),
    pytest.param(prefixed("engine-1  | "), (), id="compose"),
    pytest.param(prefixed("engine-1  | 2026-10-07T10:00:00.650000137Z "), (), id="compose-timestamps"),
    pytest.param(prefixed("[pod/llm-0/engine] "), (), id="kubectl"),
    pytest.param(prefixed("\x1b[36mengine-1  |\x1b[0m "), (), id="compose-coloured"),
    pytest.param(lambda line: f"{line}\r\n".encode(), (), id="crlf"),
    pytest.param(lambda line: b"\xff\xfe broken \xc3\n" + line.encode() + b"\n", (), id="invalid-utf-8-between"),
)


def told(boot: Boot) -> tuple[object, ...]:
    return (
        boot.outcome,
        boot.stage,
        boot.arguments,
        boot.weights,
        boot.speculation,
        boot.throughput,
        boot.queue,
        boot.failures,
    )


def by_blocks(data: bytes, size: int) -> LogReport:
    reader = LogReader()
    for at in range(0, len(data), size):
        reader.feed_block(data[at : at + size])
    reader.finish()
    return reader.report()


@pytest.mark.parametrize(("form", "pids"), FORMS)
def test_every_form_tells_the_same(form: Form, pids: tuple[int, ...]) -> None:
    plain = read_log([f"{line}\n".encode() for line in LINES]).boots[0]
    data = b"".join(form(line) for line in LINES)
    for report in (
        read_log(data.splitlines(keepends=True)) if b"\r" not in data else by_blocks(data, 1 << 20),
        by_blocks(data, 97),
    ):
        (boot,) = report.boots
        assert told(boot) == told(plain)
        assert boot.pids == pids


def test_a_message_that_the_journal_held_back_is_said() -> None:
    held = json.dumps({"__CURSOR": "s", "_PID": "77", "MESSAGE": None}).encode()
    ready = json.dumps({"__CURSOR": "s", "_PID": "77", "MESSAGE": SGLANG_READY}).encode()
    report = read_log([ready, held, ready])
    assert [n.code for n in report.boots[0].notices] == ["log-cut"]


@pytest.mark.parametrize(
    ("cut", "samples"),
    [
        pytest.param("accept len: 2.5", 0, id="a-number-that-may-go-on-is-not-used"),
        pytest.param("accept len: 2.50, accept rate: 0.5", 1, id="a-whole-field-is"),
    ],
)
def test_a_cut_record_counts_with_its_whole_fields(cut: str, samples: int) -> None:
    last = f"[2026-10-07 10:01:09 TP0] Decode batch, #running-req: 2, #token: 640, token usage: 0.01, {cut}"
    report = read_log([f"{SGLANG_READY}\n".encode(), last.encode()])
    speculation = report.boots[0].speculation
    assert (speculation.samples, speculation.state) == (samples, "active" if samples else None)
    assert "log-cut" in {n.code for n in report.boots[0].notices}


def test_a_live_journal_can_be_asked_at_any_line() -> None:
    reader = LogReader()
    stages = []
    for line in (
        SGLANG_ARGS,
        "[2026-10-07 10:00:01 TP0] Load weight begin. avail mem=7.00 GB",
        "[2026-10-07 10:00:02 TP0] KV Cache is allocated. #tokens: 9, K size: 1.00 GB, V size: 1.00 GB",
        SGLANG_READY,
    ):
        reader.feed_line(line.encode())
        stages.append(reader.report().boots[0].stage)
    assert stages == ["arguments", "weights", "kv-cache", "ready"]


def test_a_line_that_docker_stored_in_pieces_is_whole() -> None:
    stamp = "2026-10-07T10:00:00.650000137Z "
    line = SGLANG_ARGS.replace("model_path='/m'", "model_path='/m', chat_template='" + "x" * 40_000 + "'")
    pieces = [line[at : at + 16_384] for at in range(0, len(line), 16_384)]
    (boot,) = read_log([(stamp + stamp.join(pieces) + "\n").encode()]).boots
    (plain,) = read_log([(line + "\n").encode()]).boots
    assert len(pieces) == 3
    assert boot.arguments == plain.arguments
    assert boot.notices == ()


DECODE = (
    "[2026-10-07 10:00:1{} TP0] Decode batch [{}], #running-req: 3, #token: 10, token usage: 0.67, accept len: 2.50, "
    "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 80.50, #queue-req: 0,"
)


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param("août 28 18:14:37 gpu-a python3[35]: ", id="journal-in-french"),
        pytest.param("10月 03 18:14:37 gpu-a python3[35]: ", id="journal-in-japanese"),
        pytest.param("(SGLangEngine pid=35) ", id="ray"),
        pytest.param("(SGLangEngine pid=35, ip=192.0.2.7) ", id="ray-on-another-host"),
    ],
)
def test_less_usual_prefixes_give_the_pid(prefix: str) -> None:
    (boot,) = read_log([f"{prefix}{DECODE.format(i, i)}\n".encode() for i in range(4)]).boots
    assert (boot.pids, boot.speculation.state, boot.speculation.samples) == ((35,), "active", 4)


@pytest.mark.parametrize(
    ("fields", "state", "length"),
    [
        pytest.param("avg_accept_len: 2.50, accept_rate: 0.50, ", "active", 2.5, id="names-of-a-fork"),
        pytest.param("spec ratio: 2.50, ", None, None, id="an-unknown-name-about-speculation-proves-nothing"),
        pytest.param("", "off", None, id="no-such-field"),
    ],
)
def test_a_record_is_off_only_without_any_word_of_speculation(
    fields: str, state: str | None, length: float | None
) -> None:
    record = DECODE.replace("accept len: 2.50, accept rate: 0.50, ", fields)
    reader = LogReader()
    reader.feed_block("".join(f"{record.format(i % 10, i)}\n" for i in range(300)).encode())
    speculation = reader.report().boots[0].speculation
    assert speculation.state == state
    assert (speculation.accept_length.mean if speculation.accept_length else None) == length
    assert speculation.samples == (300 if state == "active" else 0)
