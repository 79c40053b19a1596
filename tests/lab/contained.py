"""A container host with an orchestrator's store beside it: what rollouts on real systemd are rehearsed on."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state.store.migrate import upgrade
from tasks.lab import container, lab
from tasks.lab.layer import PORT, Furnishing
from tasks.lab.record import LabHost
from tasks.practice.scene import UNIT, service_unit
from tests.lab.orchestrated import HostState, Orchestrated

__all__ = ["HostState", "Stage", "prepare", "stage", "stages", "unit_with"]


@dataclass(kw_only=True)
class Stage(Orchestrated):
    """A container host."""

    host: LabHost

    @property
    def key(self) -> Path:
        return self.host.key

    @property
    def port(self) -> int:
        return PORT

    @property
    def root(self) -> Path:
        return container.root(self.host)

    def manifest(self, arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
        return lab.manifest(self.host, arguments, **changes)

    async def run(self, *words: str) -> str:
        return (await container.execute(self.host, words)).text.strip()

    async def transient_units(self) -> tuple[str, ...]:
        ours = await self.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "interlock-*")
        return tuple(line.split()[0] for line in ours.splitlines())

    def cmdline(self, pid: int) -> bytes:
        return self.path(f"/proc/{pid}/cmdline").read_bytes()

    def environ(self, pid: int) -> bytes:
        return self.path(f"/proc/{pid}/environ").read_bytes()


async def prepare(folder: Path) -> None:
    """Make the store in `folder`, unless it is there. One at a time: alembic has one environment in a process."""
    if not (folder / "interlock.db").exists():
        await upgrade(f"sqlite:///{folder / 'interlock.db'}")


@asynccontextmanager
async def stages(folder: Path, *furnishings: Furnishing) -> AsyncIterator[list[Stage]]:
    """New hosts that share one store, their services answering; they end with the block, or with the process."""
    hosts = await lab.up(furnishings, tied=True)
    async with AsyncExitStack() as stack:
        for host in hosts:
            stack.callback(lab.down_one, host)
        made = [Stage(folder, host=host) for host in hosts]
        await prepare(folder)
        for stage, furnishing in zip(made, furnishings, strict=True):
            if furnishing.enabled:
                await _answering(stage)
        yield made


@asynccontextmanager
async def stage(
    folder: Path, *faults: Mapping[str, object], unit: str | None = None, kill_mode: str = "control-group"
) -> AsyncIterator[Stage]:
    """One new host, its service running without speculation."""
    text = unit or service_unit(PORT, kill_mode=kill_mode)
    async with stages(folder, Furnishing(faults=faults, unit=text)) as (made,):
        yield made


async def _answering(stage: Stage) -> None:
    """Wait until the engine says in its journal that it is ready."""
    words = ("journalctl", "--follow", "--no-tail", "--output=cat", f"--unit={UNIT}")
    grep = ("grep", "-q", "-m1", "The server is fired up")
    await container.execute(stage.host, ("sh", "-c", f"{' '.join(words)} | {' '.join(grep[:-1])} '{grep[-1]}'"))


def unit_with(*changes: tuple[str, str]) -> str:
    """The hand-written unit with some of its text replaced."""
    text = service_unit(PORT)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text
