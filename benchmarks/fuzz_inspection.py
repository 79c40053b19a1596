# ruff: noqa: E501  # lines of logs are shown whole
"""Feeds inspection with damaged and disguised artefacts for some time, and stops at the first thing that must not be.

    python benchmarks/fuzz_inspection.py [--seconds 600] [--seed 1]

What must not be: a crash; a report that is no JSON; a report that depends on whether lines came one by one or in blocks; a
planted secret in the output; a line of 1 MiB that takes more than 0.2 s of processor time (at the best of five tries).
A finding is printed with the input that shows it, and the exit status is 1.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from state.inspection.answer import read_answer
from state.inspection.kernel import read_kernel
from state.inspection.kind import kind_of, parse_json
from state.inspection.log import LogReader
from state.inspection.metrics import read_metrics
from state.inspection.report import LogReport, to_json
from state.inspection.server_info import read_server_info
from state.inspection.unit import read_unit
from tests.inspection.failure_cases import SGLANG, SGLANG_ARGS, SGLANG_READY, VLLM
from tests.inspection.test_fuzz import HEADS, LONG, SEEDS

SECRET = "Zq7-planted.9f3KxW2vB8"
MIB = 1 << 20
LONGEST_S = 0.2

SECRETS = (
    "api_key='{}'", "'api_key': '{}'", '"api_key": "{}"', "api_key=\"{}\"", "admin_api_key='{}'", "--api-key {}", "--api-key={}",
    "'--api-key', '{}'", "--admin-api-key {}", "Authorization: Bearer {}", "authorization: bearer {}", "'authorization': 'Bearer {}'",
    "Proxy-Authorization: Basic {}", "(b'authorization', b'Bearer {}')", "x-api-key: {}", "'x-api-key': '{}'", "HF_TOKEN={}", "OPENAI_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY={}", "http://op:{}@proxy:3128/", "https://h/v1?api_key={}&n=1", "password='{}'", "hf_token='{}'",
    "{{'env': {{'HF_TOKEN': '{}'}}}}", "ssl_keyfile_password='{}'",
)  # fmt: skip
CARRIERS = (
    "[2026-10-07 10:00:00] server_args=ServerArgs(model_path='/m', {}, tp_size=1)",
    "[2026-10-07 10:00:00] server_args={{'model_path': '/m', 'x': \"{}\", 'tp_size': 1}}",
    "launch_server.py: error: unrecognized arguments: {}",
    "vllm serve: error: unrecognized arguments: {}",
    "[2026-10-07 10:00:00] ValueError: model_path is not valid: {}",
    "Traceback (most recent call last):\n  File \"/x/sglang/srt/a.py\", line 3, in f\nOSError: /m {} does not exist, No such file",
    "[2026-10-07 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: CUDA out of memory {}",
    "[2026-10-07 10:00:00] WARNING: Overlap scheduler is disabled {}",
    "[2026-10-07 10:00:00] KV cache pool is full. Retract requests. {}",
    "INFO 04-05 10:00:10 [utils.py:233] non-default args: {{'model': '/m', 'x': \"{}\"}}",
    "(APIServer pid=7) ERROR 04-05 10:00:10 [core.py:1] RuntimeError: Engine core initialization failed {}",
    "Oct 07 10:00:00 h systemd[1]: sglang.service: Failed to execute /bin/x {}: No such file or directory",
    "[Service]\nEnvironment={}\nExecStart=/bin/python -m sglang.launch_server {}\nType=oneshot\nFoo={}",
    "[Unit]\nDescription=%i {}\n[Service]\nExecStart=bash -c '{}'\nRestart=always\nWorkingDirectory=rel/{}",
    "NVRM: Xid (PCI:0000:41:00): 13, name=python {}, Graphics Exception",
    '{{"model_path": "/m", "tp_size": 1, "internal_states": [{{}}], "launch_command": "python -m sglang.launch_server {}"}}',
)  # fmt: skip
NOISE = (
    b"noise", b"\x1b[31mred\x1b[0m", b"  5%|x | 3/60 [00:01<00:20,  2.85it/s]", b"Oct 07 10:00:00 h kernel: eth0: up", b"\xff\xfe\x00",
    SGLANG_READY.encode(), b"Traceback (most recent call last):", b"[2026-10-07 10:00:00 TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, accept len: 2.00, cuda graph: True, gen throughput (token/s): 9.00, #queue-req: 0",
)  # fmt: skip
PREFIXES = (
    b"",
    b"Oct 07 10:00:00 h python[77]: ",
    b"engine-1  | ",
    b"2026-10-07T10:00:00.123Z ",
    b"[pod/x/y] ",
    b"\x1b[36m",
)


def reports(data: bytes) -> str:
    """What every reader says about the bytes, as one text."""
    text = data.decode("utf-8", "replace")
    parsed = parse_json(data) or {}
    kind_of(data)
    read = (
        by_block(data), read_kernel(data.split(b"\n")), read_unit(text, "x@.service"), read_metrics(text), read_server_info(parsed),
        read_answer(parsed),
    )  # fmt: skip
    return json.dumps([to_json(report) for report in read], allow_nan=False)


def by_block(data: bytes, size: int = 4096) -> LogReport:
    reader = LogReader()
    for at in range(0, len(data), size):
        reader.feed_block(data[at : at + size])
    reader.finish()
    return reader.report()


def by_line(data: bytes) -> object:
    reader = LogReader()
    lines = data.split(b"\n")
    for line in lines[:-1]:
        reader.feed_line(line + b"\n")
    if lines[-1]:
        reader.feed_line(lines[-1], whole=False)
    return reader.report()


def damaged(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS).encode())
    for _ in range(rng.randint(0, 6)):
        at = rng.randint(0, len(data))
        other = rng.choice(SEEDS).encode()
        piece = rng.choice(
            (
                rng.randbytes(rng.randint(0, 9)),
                other[rng.randint(0, len(other)) :][: rng.randint(0, 200)],
                b"\n",
                b"\r",
                b"99999999999",
            )
        )
        data[at : at + rng.choice((0, 0, 1, 8, 60))] = piece
    return bytes(data)


def crowd(rng: random.Random) -> bytes:
    """Many lines of few shapes with others among them: what blocks are made for."""
    shapes = [
        rng.choice(NOISE + tuple(text.encode() for _, _, text in (*SGLANG, *VLLM))) for _ in range(rng.randint(1, 4))
    ]
    prefix = rng.choice(PREFIXES)
    lines = [(SGLANG_ARGS if rng.random() < 0.5 else SGLANG_READY).encode(), NOISE[-1]]
    for number in range(rng.randint(10, 120)):
        line = rng.choice(
            (
                NOISE[-1],
                NOISE[-1],
                b'[2026-10-07 10:00:00] INFO:     10.0.0.1:4 - "POST /generate HTTP/1.1" 200 OK',
                *shapes,
            )
        )
        digits = str(rng.choice((0, 1, 98, number, number * 37))).encode()
        clock = f"10:{number // 60 % 60:02d}:{number % 60:02d}".encode()
        lines.append(
            line.replace(b"9", digits, 1)
            if rng.random() < 0.2
            else line.replace(b"10:00:00]", clock + b"]", 1).replace(b"10:00:00 TP", clock + b" TP", 1)
        )
    return b"\n".join(prefix + part for line in lines for part in line.split(b"\n")) + b"\n"


def disguised(rng: random.Random) -> bytes:
    """A secret of some kind in an artefact of some kind, with noise around it, prefixed, cut behind it or in it."""
    carrier = rng.choice(CARRIERS)
    snippet = rng.choice(SECRETS).format(SECRET)
    if carrier.startswith("{{"):
        snippet = snippet.replace('"', '\\"')
    lines = (
        carrier.replace("{}", "\0").replace("{{", "{").replace("}}", "}").replace("\0", snippet).encode().split(b"\n")
    )
    prefix = rng.choice(PREFIXES) if not lines[0].startswith((b"[Service]", b"[Unit]", b"{", b"Oct")) else b""
    end = rng.choice((b"\n", b"\r\n"))
    whole = [prefix + line for line in lines]
    before, after = (rng.choices(NOISE, k=rng.randint(0, 3)) for _ in range(2))
    data = end.join((*before, *whole, *after)) if not lines[0].startswith(b"{") else end.join(whole)
    return data[: rng.randint(0, len(data))] if rng.random() < 0.3 else data


def leaks(data: bytes) -> bool:
    return SECRET[:10] in reports(data)


def differs(data: bytes) -> bool:
    return by_block(data, 512) != by_line(data)


def long_line(rng: random.Random) -> bytes:
    pieces = [
        rng.choice((*LONG, rng.choice(SEEDS).encode()[: rng.randint(1, 300)].replace(b"\n", b" ")))
        for _ in range(rng.randint(1, 3))
    ]
    piece = b"".join(pieces)
    return rng.choice(HEADS) + piece * (MIB // len(piece)) + b"\n"


def slow(line: bytes) -> bool:
    if _seconds(line) <= LONGEST_S:
        return False
    return min(_seconds(line) for _ in range(4)) > LONGEST_S


def _seconds(line: bytes) -> float:
    reader = LogReader()
    begun = time.process_time()
    reader.feed_line(line)
    reader.report()
    return time.process_time() - begun


def crashes(data: bytes) -> bool:
    return not reports(data)


CHECKS: Sequence[tuple[int, str, Callable[[random.Random], bytes], Callable[[bytes], bool]]] = (
    (40, "crash", damaged, crashes),
    (30, "secret", disguised, leaks),
    (20, "blocks differ from lines", crowd, differs),
    (5, "blocks differ from lines, damaged", damaged, differs),
    (3, "slow", long_line, slow),
)


def fuzz(seconds: float, seed: int) -> Iterator[tuple[str, bytes | None, str]]:
    """Every try as what was looked for, the input if it was found, and how it showed."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    weights = [weight for weight, *_ in CHECKS]
    while time.monotonic() < end:
        _, name, make, found = rng.choices(CHECKS, weights)[0]
        data = make(rng)
        try:
            yield name, data if found(data) else None, ""
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            yield name, data, f"{type(error).__name__}: {error}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep-going", action="store_true", help="print every finding instead of stopping at the first"
    )
    given = parser.parse_args(argv)
    tries: Counter[str] = Counter()
    findings = 0
    for name, data, how in fuzz(given.seconds, given.seed):
        tries[name] += 1
        if data is None:
            continue
        findings += 1
        print(f"{name}: {how}\n{data[:3000]!r}", flush=True)
        if not given.keep_going:
            break
    print(
        f"{sum(tries.values()):,} tries, {findings} findings; "
        + ", ".join(f"{name} {n:,}" for name, n in tries.items())
    )
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
