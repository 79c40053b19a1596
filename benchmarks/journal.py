# ruff: noqa: E501  # lines of logs are shown whole
"""A synthetic journal of any size: one machine, two boots of an SGLang server, and everything else that such a journal has.

The shares follow a busy server: access lines, prefill and decode records, request noise of the engine, and other
programs of the machine, whose lines seldom repeat. Seeded: the same size and form give the same bytes.
"""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

FORMS = ("short", "json", "plain")
_POOL = 20_000
"""Different lines of each kind; a file of 1 GB repeats them under other clocks."""
_PIDS = (20010, 31744)
_INVOCATIONS = ("5f0c2a9be1d74c0c8c1f3f6a2d9b7e10", "aa70c4d1f3f74c6c9d0e4b1a2c3d4e5f")

Message = tuple[str, int | None, str]
"""Identifier, PID (None: the server's own) and words, in which `@` stands for the engine's clock."""


def _decode(rng: random.Random) -> Message:
    length = rng.choice((1.0, rng.uniform(1.2, 4.0)))
    return _server(
        f"[@ TP0] Decode batch, #running-req: {rng.randint(1, 48)}, #full token: {rng.randint(1000, 400_000)}, "
        f"full token usage: {rng.uniform(0, 0.9):.2f}, mamba num: {rng.randint(1, 90)}, "
        f"mamba usage: {rng.uniform(0, 0.9):.2f}, accept len: {length:.2f}, accept rate: {(length - 1) / 3:.2f}, "
        f"cuda graph: True, gen throughput (token/s): {rng.uniform(100, 900):.2f}, #queue-req: {rng.choice((0, 0, 3, 12))}"
    )


def _drained(rng: random.Random) -> Message:
    return _server(
        "[@ TP0] Decode batch, #running-req: 0, #full token: 0, full token usage: 0.00, mamba num: 0, mamba usage: 0.00, "
        f"accept len: {rng.uniform(1, 4):.2f}, accept rate: 0.50, cuda graph: True, "
        f"gen throughput (token/s): {rng.uniform(1, 90):.2f}, #queue-req: 0"
    )


def _prefill(rng: random.Random) -> Message:
    return _server(
        f"[@ TP0] Prefill batch, #new-seq: {rng.randint(1, 9)}, #new-token: {rng.randint(10, 8000)}, "
        f"#cached-token: {rng.randint(0, 900)}, full token usage: {rng.uniform(0, 0.9):.2f}, "
        f"mamba usage: {rng.uniform(0, 0.9):.2f}, #running-req: {rng.randint(0, 40)}, #queue-req: 0, "
        f"#pending-token: {rng.randint(0, 900)}, cuda graph: False, input throughput (token/s): {rng.uniform(9, 9000):.2f}"
    )


def _access(rng: random.Random) -> Message:
    path = rng.choice(("POST /v1/chat/completions", "POST /v1/chat/completions", "POST /generate", "GET /health"))
    status = rng.choices(("200 OK", "400 Bad Request", "503 Service Unavailable"), (1000, 5, 1))[0]
    return _server(
        f'[@] INFO:     10.0.{rng.randint(0, 9)}.{rng.randint(1, 250)}:{rng.randint(30000, 60000)} - "{path} HTTP/1.1" {status}'
    )


def _request(rng: random.Random) -> Message:
    rid = f"{rng.getrandbits(128):032x}"
    return _server(
        rng.choice(
            (
                f"[@] Received output for rid='{rid}' but the state was deleted in TokenizerManager.",
                f"[@] Abort request {rid} while it was waiting",
                "[@ TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.5000 -> 0.6000",
                f"[@] WARNING: request {rid} asks for 4096 tokens, 2048 are left",
            )
        )
    )


def _kernel(rng: random.Random) -> Message:
    mac = ":".join(f"{rng.randrange(256):02x}" for _ in range(14))
    return (
        "kernel",
        0,
        f"[UFW BLOCK] IN=eno1 OUT= MAC={mac} SRC=10.0.0.{rng.randrange(255)} DST=10.0.0.9 LEN={rng.randint(40, 99)} "
        f"TTL=64 ID={rng.randrange(65536)} PROTO=TCP SPT={rng.randrange(65536)} DPT=22 WINDOW=1024 RES=0x00 SYN URGP=0",
    )


def _machine(rng: random.Random) -> Message:
    pid = rng.randint(40_000, 90_000)
    return rng.choice(
        (
            (
                "sshd",
                pid,
                f"Accepted publickey for op from 10.0.0.{rng.randrange(255)} port {rng.randrange(65536)} ssh2",
            ),
            ("CRON", pid, "pam_unix(cron:session): session opened for user root(uid=0) by (uid=0)"),
            ("systemd", 1, f"Started session-{rng.randrange(9999)}.scope - Session {rng.randrange(9999)} of User op."),
            (
                "node_exporter",
                911,
                f'ts={rng.random()} caller=stdlib.go:105 level=error msg="error encoding {rng.random()}"',
            ),
        )
    )


_KINDS: Sequence[tuple[int, Callable[[random.Random], Message]]] = (
    (400, _decode), (2, _drained), (230, _prefill), (330, _access), (6, _request), (20, _kernel), (12, _machine),
)  # fmt: skip


def _server(words: str) -> Message:
    return "python3", None, words


def _start(algorithm: str) -> tuple[str, ...]:
    return (
        "[@] server_args=ServerArgs(model_path='/models/m', tokenizer_path='/models/m', host='0.0.0.0', port=30000, tp_size=1, "
        f"api_key='sk-benchmark-000000', speculative_algorithm={algorithm}, speculative_num_steps=3, "
        "speculative_eagle_topk=1, speculative_num_draft_tokens=4, disaggregation_mode='null')",
        "[@ TP0] Load weight begin. avail mem=78.84 GB",
        "[@ TP0] Load weight end. elapsed=41.20 s, type=Qwen3_5ForCausalLM, avail mem=41.90 GB, mem usage=36.62 GB.",
        "[@ TP0] Load weight begin. avail mem=41.84 GB",
        "[@ TP0] Load weight end. elapsed=3.11 s, type=Qwen3_5ForCausalLMMTP, avail mem=41.90 GB, mem usage=1.62 GB.",
        "[@ TP0] KV Cache is allocated. #tokens: 400000, K size: 10.00 GB, V size: 10.00 GB",
        "[@] The server is fired up and ready to roll!",
    )


_STOP = ("[@] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",)


def write_journal(path: Path, size: int, form: str, seed: int = 7) -> int:
    """Writes at least `size` bytes of a journal in that form to `path`; returns the number of lines."""
    rng = random.Random(seed)
    pools = [[kind(rng) for _ in range(_POOL)] for _, kind in _KINDS]
    weights = [weight for weight, _ in _KINDS]
    written = lines = second = 0
    with path.open("wb") as out:
        for boot in (0, 1):
            for words in _start("'EAGLE'"):
                written += out.write(_line(form, boot, second, lines, _server(words)))
                lines, second = lines + 1, second + 1
            while written < size * (boot + 1) // 2:
                second += 1 if rng.random() < 0.999 else 45
                drawn = rng.choices(range(len(pools)), weights, k=rng.randint(1, 9))
                block = b"".join(
                    _line(form, boot, second, lines + index, pools[kind][int(rng.random() * _POOL)])
                    for index, kind in enumerate(drawn)
                )
                written, lines = written + out.write(block), lines + len(drawn)
            written += sum(out.write(_line(form, boot, second, lines, _server(words))) for words in _STOP)
            lines, second = lines + 1, second + 5
    return lines


def _line(form: str, boot: int, second: int, number: int, message: Message) -> bytes:
    ident, pid, words = message
    day, of_day = second // 86_400 % 28 + 1, second % 86_400
    clock = f"{of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}"
    words = words.replace("@", f"2026-10-{day:02d} {clock}", 1) if words.startswith("[@") else words
    owner = _PIDS[boot] if pid is None else pid
    if form == "plain":
        return f"{words}\n".encode()
    if form == "json":
        return _record(ident, owner, boot if pid is None else None, second, number, words)
    tag = f"{ident}[{owner}]" if owner else ident
    return f"Oct {day:02d} {clock} gpu-a {tag}: {words}\n".encode()


def _record(ident: str, pid: int, boot: int | None, second: int, number: int, words: str) -> bytes:
    fields = {
        "__CURSOR": f"s=0d6c4c0e;i={number:x};b=5f0c2a9b;m={number * 7:x};t={second:x};x={number * 31:x}",
        "__REALTIME_TIMESTAMP": str(1_791_460_800_100_000 + second * 1_000_000),
        "__MONOTONIC_TIMESTAMP": str(100_000 + second * 1_000_000),
        "_BOOT_ID": "5f0c2a9be1d74c0c8c1f3f6a2d9b7e10",
        "_HOSTNAME": "gpu-a",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": ident,
        "_TRANSPORT": "kernel" if ident == "kernel" else "stdout",
        **({"_PID": str(pid)} if pid else {}),
        **(
            {"_SYSTEMD_UNIT": "sglang.service", "_SYSTEMD_INVOCATION_ID": _INVOCATIONS[boot]}
            if boot is not None
            else {}
        ),
        "MESSAGE": words,
    }
    return (json.dumps(fields) + "\n").encode()
