"""Starts the stand-in as a real process below a root of its own and keeps what it printed."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.practice.engine.install import (
    QWEN,
    QWEN_DRAFT_GGUF,
    QWEN_GGUF,
    QWEN_MTP,
    QWEN_WITHOUT_MTP,
    EngineName,
    install_engine,
)

MODELS = (QWEN, QWEN_MTP, QWEN_WITHOUT_MTP, QWEN_GGUF, QWEN_DRAFT_GGUF)
QUICK: Mapping[str, object] = {
    "stage_seconds": dict.fromkeys(
        ("arguments", "distributed", "weights", "draft-weights", "kv-cache", "graphs", "http", "warm-up"), 0.005
    ),
    "forward_seconds": 0.0003,
    "prefill_seconds": 0.001,
    "health_seconds": 0.01,
    "health_timeout_seconds": 0.5,
    "drain_poll_seconds": 0.01,
    "exit_seconds": 0.005,
}
MODEL = ("--model-path", QWEN.path, "--tp", "4")
SPECULATION = (
    "--speculative-algorithm",
    "NEXTN",
    "--speculative-num-steps",
    "5",
    "--speculative-eagle-topk",
    "1",
    "--speculative-num-draft-tokens",
    "6",
    "--speculative-draft-model-path",
    QWEN_MTP.path,
)
READY = "The server is fired up and ready to roll!"
PATIENCE_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class StandIn:
    """One start; `text` is stdout and stderr as a journal would hold them."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        version: str = "0.5.20",
        faults: Sequence[Mapping[str, object]] = (),
        settings: Mapping[str, object] = QUICK,
        environment: Mapping[str, str] | None = None,
        module: Sequence[str] = ("-m", "sglang.launch_server"),
        port: int | None = None,
        engine: EngineName = "sglang",
    ) -> None:
        install_engine(root, engine=engine, version=version, models=MODELS, faults=faults, settings=settings)
        self.port = port or free_port()
        self._output = root / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [root / f"opt/{engine}/bin/python", *module, *arguments, "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": os.environ["PATH"], "PRACTICE_ROOT": str(root), **(environment or {})},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait_for(self, words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while words not in self.text:
            alive = self.process.poll() is None
            assert alive or words in self.text, (
                f"ended {self.process.returncode} without {words!r}:\n{self.text[-3000:]}"
            )
            assert time.monotonic() < end, f"no {words!r} in time:\n{self.text[-3000:]}"
            time.sleep(0.01)

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()

    def ask(
        self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None, timeout: float = PATIENCE_S
    ) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, dict(headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def generate(self, text: str, **sampling: object) -> dict[str, Any]:
        status, body = self.ask("/generate", {"text": text, "sampling_params": {"temperature": 0, **sampling}})
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    def children(self) -> dict[int, tuple[str, str]]:
        """PID to (comm, cmdline) of the session's other processes."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self.process.pid:
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    argv = (entry / "cmdline").read_bytes().rstrip(b"\0").decode()
                    comm = (entry / "comm").read_text().strip()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found[int(entry.name)] = (comm, argv)
        return found

    def left(self, count: int) -> dict[int, tuple[str, str]]:
        """`children` once no more than `count` are left: one that was killed takes its time to go on a busy machine."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self.children()) > count and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@contextmanager
def started(root: Path, *arguments: str, **options: Any) -> Iterator[StandIn]:
    standin = StandIn(root, *arguments, **options)
    try:
        yield standin
    finally:
        standin.kill()


@contextmanager
def serving(root: Path, *arguments: str, **options: Any) -> Iterator[StandIn]:
    with started(root, *arguments, **options) as standin:
        standin.wait_for(READY)
        yield standin
        assert "asyncio" not in standin.text, standin.text[-3000:]  # the stand-in's own mistakes end up there
