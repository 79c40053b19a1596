"""The container host that tools are compared on: one for a benchmark, its engine's start time set for each run."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.requests import from_manifest
from flows.wiring import wired
from tasks.lab import container
from tasks.lab.layer import PORT, USER, Furnishing
from tasks.lab.record import LabHost
from tasks.practice.scene import UNIT
from tests.lab.contained import Stage, stages

HERE = Path(__file__).absolute().parent
ROOT = HERE.parent
SPECULATION = (
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_draft_model_path",
)
OTHER_STAGES_S = 1.1
"""Seconds of a start beside loading the weights, on an idle machine: the other stages, and the interpreter."""

SPEED = {"forward_seconds": 0.001, "prefill_seconds": 0.001}
"""So fast that the prober's own requests take nothing from the others."""

SETTINGS_FILE = "opt/sglang/stand-in.json"


OWN = ("PYTHON", "INTERLOCK_", "PREFECT_")
"""How variables begin that no measured process inherits: modules that are never kept compiled make a start slower, and
a store or a Prefect server of one's own is nothing to measure with."""

PROBES_S = 120.0
"""How long the prober may take to see the service once."""


def own_environment() -> dict[str, str]:
    """This process's, but for what begins as OWN says."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OWN)}


class ContenderFailed(Exception):
    """A tool did not do the job; what it printed at the end."""


@dataclass
class Bench:
    """One container host with a service that is changed again and again; `folder` keeps what tools need,
    `limit_s` bounds how long they wait for a generation."""

    stage: Stage
    folder: Path
    runs: int = 0
    limit_s: float = 60.0

    @property
    def host(self) -> LabHost:
        return self.stage.host

    def next_fraction(self) -> float:
        """A value of `mem_fraction_static` that the service has not had yet: every run changes its unit."""
        self.runs += 1
        return round(0.75 + self.runs / 10_000, 4)

    def manifest(self, fraction: float, **changes: Any) -> Path:
        """The seed's service without speculation and without stated claims, at this fraction."""
        text = self.stage.manifest(
            {"mem_fraction_static": fraction, **dict.fromkeys(SPECULATION)}, **{"claims": None, **changes}
        )
        path = self.folder / f"manifest-{fraction}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    async def unit_text(self, fraction: float) -> str:
        """The unit as interlock renders it: every tool installs the same text."""
        wanted = self.stage.wanted({"mem_fraction_static": fraction, **dict.fromkeys(SPECULATION)}, claims=None)
        async with wired(self.stage.settings) as (ports, _):
            requested = from_manifest(ports, wanted, "rollout", "benchmark")
        (file,) = [f for f in requested.revision.files if f.path.endswith(UNIT)]
        return file.data.decode()

    def start_takes(self, seconds: float) -> None:
        """Let the next starts of the engine take about so long until it generates."""
        stages_s = {"weights": max(0.1, seconds - OTHER_STAGES_S)}
        self.stage.put(SETTINGS_FILE, json.dumps({"stage_seconds": stages_s, **SPEED}))

    @property
    def served(self) -> Path:
        """The data directory of a server that runs beside, with a store of its own."""
        return self.folder / "served"

    def environment(self, data_dir: Path | None = None) -> dict[str, str]:
        """Of an orchestrator in a process of its own, which keeps its things in the bench's folder or in `data_dir`."""
        made = {**own_environment(), **self.stage.environment, "PYTHONPATH": str(ROOT)}
        return made | ({"INTERLOCK_DATA_DIR": str(data_dir)} if data_dir else {})


@asynccontextmanager
async def bench(folder: Path, *faults: Mapping[str, object]) -> AsyncIterator[Bench]:
    """A host that answers. Raises Refused where this machine cannot boot one: it takes root and Debian's tools."""
    async with stages(folder, Furnishing(faults=faults)) as (stage,):
        stage.put("etc/sudoers.d/benchmark", f"{USER} ALL=(root) NOPASSWD: ALL\n", 0o440)  # Mitogen's sudo runs Python
        yield Bench(stage, folder)


@contextmanager
def probing(made: Bench) -> Iterator[Path]:
    """A prober beside the work, in the host's own network; the file that it writes."""
    path = made.folder / f"probes-{made.runs}.jsonl"
    pid = container.root(made.host).parent.name
    words = ("nsenter", "--target", pid, "--net", "--", sys.executable, str(HERE / "prober.py"), str(PORT), str(path))
    process = subprocess.Popen(words)
    try:
        _until_it_probes(path, process)
        yield path
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _until_it_probes(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Raises ContenderFailed where the prober ends, or sees no service."""
    begun = time.monotonic()
    while not (path.exists() and b"true" in path.read_bytes()):
        if process.poll() is not None or time.monotonic() - begun > PROBES_S:
            raise ContenderFailed("the prober saw no service before the work began")
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Outage:
    """Seconds since the epoch: when the last answer before the outage came, and the first after it."""

    last_good: float
    first_good: float


def outage(path: Path) -> Outage:
    """The longest time without a good answer. Raises ValueError where there are no two good ones."""
    good = [over for _, over, ok in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if ok]
    if len(good) < 2:
        raise ValueError("the prober saw no service")
    index = max(range(len(good) - 1), key=lambda i: good[i + 1] - good[i])
    return Outage(good[index], good[index + 1])


async def call(words: tuple[str, ...], environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run a tool to its end: exit status, and what it printed."""
    pipe, out = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=out, env=dict(environment), cwd=folder)
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode("utf-8", "replace")
