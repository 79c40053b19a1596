"""`interlock serve` in a process of its own on a practice host, and what people and machines do to it."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from deployments.serve.reach import Reach
from tests.cli.practice import Stage

SERVICE = "qwen35-122b"
LIMIT_S = 90.0
CAME_UP = "the HTTP API listens"
PREFECT_CAME_UP = "Prefect answers"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Served:
    """A server that runs; `lines` are those of its log, as they come."""

    stage: Stage
    process: "subprocess.Popen[str]"
    prefect_url: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    _came: threading.Condition = field(default_factory=threading.Condition)

    def read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._came:
                self.lines.append(json.loads(line) if line.startswith("{") else {"message": line})
                self._came.notify_all()
        with self._came:
            self._came.notify_all()

    def until_it_says(self, words: str, times: int = 1, **fields: str) -> dict[str, Any]:
        """The `times`-th line of the log whose message has `words`, and whose fields are these."""

        def found() -> list[dict[str, Any]]:
            told = [line for line in self.lines if words in line["message"]]
            return [line for line in told if fields.items() <= line.items()]

        with self._came:
            come = self._came.wait_for(lambda: len(found()) >= times or self.process.poll() is not None, LIMIT_S)
            assert come, f"it has not said {words!r} within {LIMIT_S} s: {self.lines}"
            assert len(found()) >= times, f"it ended ({self.process.returncode}): {self.lines}"
            return found()[times - 1]

    @property
    def reach(self) -> Reach:
        return Reach.model_validate_json((self.stage.directory / "serve.json").read_text(encoding="utf-8"))

    def api(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        reach = self.reach
        with httpx.Client(base_url=f"{reach.url}/api/v1", trust_env=False, timeout=30.0) as client:
            return client.request(
                method, path, json=body, headers={"Authorization": f"Bearer {reach.token}", **headers}
            )

    def prefect(self, method: str, path: str, body: object = None) -> Any:
        """Prefect's REST API; its 503 means: ask again."""
        for _ in range(20):
            answer = httpx.request(method, f"{self.prefect_url}/api{path}", json=body, trust_env=False, timeout=30.0)
            if answer.status_code != 503:
                answer.raise_for_status()
                return answer.json() if answer.content else None
            time.sleep(0.5)  # it is asked over HTTP: nothing tells when its database is free
        raise AssertionError("Prefect says 503 for 10 s")

    def rollout(self, rollout: str) -> dict[str, Any]:
        answer = self.api("GET", f"/rollouts/{rollout}")
        found: dict[str, Any] = answer.raise_for_status().json()["line"]
        return found

    def started(self, revision: str, reason: str = "a test") -> str:
        """A rollout through the HTTP API; its id."""
        answer = self.api("POST", "/rollouts", {"service": SERVICE, "revision": revision, "reason": reason})
        assert answer.status_code == 202, answer.text
        rollout: str = answer.json()["rollout"]
        return rollout

    def ended(self, rollout: str) -> dict[str, Any]:
        """How it ended, once the server has said so."""
        self.until_it_says("ended: ", rollout=rollout)
        return self.rollout(rollout)

    def run_deployment(self, name: str, **parameters: object) -> str:
        """Through Prefect, as its UI does; the flow run's id."""
        flow = {"scheduled switch": "scheduled-switch"}.get(name, name)
        deployment = self.prefect("GET", f"/deployments/name/{flow}/{name}")["id"]
        run: str = self.prefect("POST", f"/deployments/{deployment}/create_flow_run", {"parameters": parameters})["id"]
        return run

    def flow_run(self, run: str, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The flow run, once it is as wanted."""
        found = eventually(lambda: self.prefect("GET", f"/flow_runs/{run}"), until)
        assert isinstance(found, dict)
        return found

    def flow_run_ended(self, run: str) -> dict[str, Any]:
        return self.flow_run(run, lambda r: r["state"]["type"] in ("COMPLETED", "FAILED", "CANCELLED", "CRASHED"))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit status."""
        return self.process.wait(LIMIT_S)


def eventually(look: Callable[[], Any], wanted: Callable[[Any], bool], limit_s: float = LIMIT_S) -> Any:
    """What `look` sees, once it is as wanted; for what nothing can be awaited of."""
    deadline = time.monotonic() + limit_s
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r}"
        time.sleep(0.2)
    return seen


@contextmanager
def served(stage: Stage, *, with_prefect: bool = False, **settings: str) -> Iterator[Served]:
    """`interlock serve`, up with its API; killed at the end if it has not ended by then. Without Prefect, the server
    that the environment names is none that answers."""
    prefect = free_port()
    process = stage.start(
        "serve", "--port", "0", "--prefect-port", str(prefect), manifests=str(manifests(stage)),
        environment={"PREFECT_API_URL": "" if with_prefect else f"http://127.0.0.1:{prefect}/api"}, **settings,
    )  # fmt: skip
    made = Served(stage, process, f"http://127.0.0.1:{prefect}")
    reader = threading.Thread(target=made.read, daemon=True)
    reader.start()
    try:
        made.until_it_says(CAME_UP)
        yield made
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT_S)
        reader.join(LIMIT_S)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()


def manifests(stage: Stage) -> Path:
    """The folder of manifests, with three revisions of the service that differ in how they end."""
    folder = stage.directory / "manifests"
    (folder / SERVICE).mkdir(parents=True, exist_ok=True)
    for name, changes in REVISIONS.items():
        file(stage, name, **changes)
    return folder


def file(stage: Stage, revision: str, arguments: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """Put a revision on file."""
    path = stage.directory / "manifests" / SERVICE / f"{revision}.yaml"
    path.write_text(stage.scene.manifest(arguments, **changes), encoding="utf-8")
    return path


REVISIONS: Mapping[str, Mapping[str, Any]] = {
    "day": {},
    "night-vm": {"arguments": {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}},
    "ignored": {"arguments": {"speculative_algorithm": "EAGLE3"}},
    "asks": {
        "arguments": {"mem_fraction_static": 0.7},
        "claims": [{"claim": "accept-length", "at_least": 3.4, "within": "1s"}],
        "policy": {"inconclusive": "hold"},
    },
}
"""`ignored` is refuted, nothing decides `asks`: the stand-in accepts 3.40 in the mean."""
