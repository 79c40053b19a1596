"""`interlock inspect`: read one operator artefact offline and print what it proves.

Also `python -m deployments.inspect`, which starts without the rest of the product.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import IO, Any

from deployments.inspect_ahead import BLOCK, feed_file, is_file
from deployments.inspect_input import DAMAGED, Empty, Unreadable, opened, read_blocks, read_whole
from state.inspection.answer import is_answer, read_answer
from state.inspection.engines import readings
from state.inspection.kernel import KernelReader
from state.inspection.kind import KINDS, SAMPLE_BYTES, body_of, kind_of, parse_json
from state.inspection.log import LogReader
from state.inspection.metrics import read_metrics
from state.inspection.openai_answer import from_stream
from state.inspection.report import Report, UnitReport, to_json
from state.inspection.server_info import read_server_info
from state.inspection.unit import read_unit

READ, UNUSABLE, UNRECOGNISED = 0, 2, 3
ENGINES = ("auto", *(reading.name for reading in readings()))


def inspect(file: str, kind: str, engine: str, as_json: bool) -> int:
    """Print the report of `file` (`-` for standard input). Returns 0 read, 2 unusable, 3 nothing recognised."""
    for option, value, known in (("--kind", kind, ("auto", *KINDS)), ("--engine", engine, ENGINES)):
        if value not in known:
            print(f"error: {option} {value} is not known; it is one of {', '.join(known)}", file=sys.stderr)
            return UNUSABLE
    try:
        report = _read(file, kind, engine)
    except OSError as error:
        return _cannot_read(file, error.strerror or str(error))
    except Unreadable as error:
        return _cannot_read(file, str(error))
    except DAMAGED:
        return _cannot_read(
            file, "its compressed data is damaged or ends early; zcat, bzcat or xzcat give what is there"
        )
    except Empty:
        print(f"error: {file} is empty", file=sys.stderr)
        return UNRECOGNISED
    if report is None:
        print(f"error: nothing in {file} was recognised", file=sys.stderr)
        return UNRECOGNISED
    if as_json:
        print(json.dumps(to_json(report), ensure_ascii=False))
    else:
        from deployments.inspect_page import print_page

        print_page(report, file)
    return READ


def _cannot_read(file: str, why: str) -> int:
    print(f"error: cannot read {file}: {why}", file=sys.stderr)
    return UNUSABLE


def _read(file: str, kind: str, engine: str) -> Report | None:
    with nullcontext(sys.stdin.buffer) if file == "-" else closing(Path(file).open("rb")) as raw:
        stream = opened(raw, file)
        head = _head(stream)
        chosen = kind_of(head) if kind == "auto" else kind
        name = None if file == "-" else Path(file).name
        if chosen == "log":
            return _read_log(head, stream, engine)
        if chosen == "kernel":
            return _read_kernel(head, stream, sure=kind == "kernel")
        return _read_whole(chosen, read_whole(head, stream, chosen), name, engine, sure=kind != "auto")


def _head(stream: IO[bytes]) -> bytes:
    """The bytes that decide the kind, fewer only at the end of the input."""
    parts: list[bytes] = []
    while (missing := SAMPLE_BYTES - sum(map(len, parts))) > 0 and (part := stream.read(missing)):
        parts.append(part)
    return b"".join(parts)


def _read_log(head: bytes, stream: IO[bytes], engine: str) -> Report | None:
    reader = LogReader(engine)
    reader.feed_block(head + stream.readline(BLOCK))
    if is_file(stream):
        stream.seek(feed_file(reader, stream.fileno(), stream.tell()))
    for block in read_blocks(stream.read(BLOCK), stream, BLOCK):
        reader.feed_block(block)
    reader.finish()
    report = reader.report()
    return report if reader.recognised else None


def _read_kernel(head: bytes, stream: IO[bytes], *, sure: bool) -> Report | None:
    reader, rest = KernelReader(), b""
    for block in read_blocks(head, stream, BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            reader.feed_line(line)
    if rest:
        reader.feed_line(rest)
    return reader.report() if reader.recognised or (sure and reader.faults) else None


def _read_whole(kind: str, data: bytes, name: str | None, engine: str, *, sure: bool) -> Report | None:
    if kind == "unit":
        unit = read_unit(data.decode("utf-8", "replace"), name)
        return unit if _is_unit(unit, data) else None
    if kind == "metrics":
        metrics = read_metrics(data.decode("utf-8", "replace"), engine)
        return metrics if metrics.engine is not None else None
    data = body_of(data)
    parsed = parse_json(data) or from_stream(data.decode("utf-8", "replace"))
    if parsed is None:
        return None
    if kind == "answer":
        return read_answer(parsed, engine) if is_answer(parsed) or (sure and "answers" in parsed) else None
    return _server_info(parsed, engine)


def _is_unit(report: UnitReport, data: bytes) -> bool:
    return b"[" in data and b"=" in data and any(section in data for section in (b"[Unit]", b"[Service]", b"[Install]"))


def _server_info(data: Any, engine: str) -> Report | None:
    report = read_server_info(data, engine)
    return report if report.engine is not None else None


def main(argv: Sequence[str] | None = None) -> int:
    """The command line of `python -m deployments.inspect [inspect] [--kind K] [--engine E] [--json] FILE`."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="interlock inspect", description="Read one operator artefact and print what it proves."
    )
    parser.add_argument("--kind", choices=("auto", *KINDS), default="auto")
    parser.add_argument("--engine", choices=ENGINES, default="auto")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    given = parser.parse_args(words[1:] if words[:1] == ["inspect"] else words)
    return inspect(given.file, given.kind, given.engine, given.as_json)


if __name__ == "__main__":
    sys.exit(main())
