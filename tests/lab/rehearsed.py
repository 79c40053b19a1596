"""The same test on both kinds of host: simulated, reached over real SSH, and a container with a systemd of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tasks.lab.layer import Furnishing
from tasks.practice.scene import UNIT_FILE, USER, Scene, scene
from tests.lab.contained import prepare, stages
from tests.lab.orchestrated import Orchestrated
from tests.practice.quick import QUICK

KINDS = [pytest.param("simulated", id="simulated"), pytest.param("container", id="container", marks=pytest.mark.lab)]


@dataclass(kw_only=True)
class Simulated(Orchestrated):
    """A practice host whose engine is a real child process."""

    scene: Scene

    @property
    def key(self) -> Path:
        assert self.scene.key is not None
        return self.scene.key

    @property
    def port(self) -> int:
        return self.scene.port

    @property
    def root(self) -> Path:
        assert self.scene.serving.root is not None
        return self.scene.serving.root

    def manifest(self, arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
        return self.scene.manifest(arguments, **{"gpus": None, **changes})

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        self.scene.serving.files.put(path, text, mode=mode)

    async def run(self, *words: str) -> str:
        return (await self.scene.serving.execute(("sudo", "-n", "--", *words), user=USER)).text.strip()

    async def transient_units(self) -> tuple[str, ...]:
        systemd = self.scene.serving.systemd
        return tuple(sorted(name for name in (*systemd.services, *systemd.timers) if name.startswith("interlock-")))

    def cmdline(self, pid: int) -> bytes:
        return self.scene.serving.files.read(f"/proc/{pid}/cmdline")

    def environ(self, pid: int) -> bytes:
        return self.scene.serving.files.read(f"/proc/{pid}/environ")


@asynccontextmanager
async def rehearsed(kind: str, folder: Path, *faults: Mapping[str, object]) -> AsyncIterator[Orchestrated]:
    """A host of that kind with the engine installed, without a unit for it: `begin` brings one."""
    store = folder / "store"
    store.mkdir()
    await prepare(store)
    if kind == "simulated":
        async with scene(folder / "hosts", faults=faults, settings=QUICK, started=False) as made:
            made.serving.files.remove(UNIT_FILE)
            yield Simulated(store, scene=made)
        return
    async with stages(store, Furnishing(faults=faults, enabled=False)) as (stage,):
        stage.path(UNIT_FILE).unlink()
        yield stage
