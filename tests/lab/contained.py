"""A container host with an orchestrator's store beside it: what rollouts on real systemd are rehearsed on."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from flows import requests
from flows.ports import Ports, Watch
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.events import Purpose
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.migrate import upgrade
from tasks.lab import container, lab
from tasks.lab.layer import PORT, Furnishing
from tasks.lab.record import LabHost
from tasks.practice.engine.install import write_faults
from tasks.practice.scene import UNIT, service_unit

KEPT = ("etc", "opt", "usr/local", "root", "home")
"""Folders in which a rollback must leave nothing changed. /var/lib/interlock keeps old files by their digests."""


@dataclass(frozen=True)
class HostState:
    """What a rollback must give back, as the host's own systemd, kernel and disk tell it."""

    files: Mapping[str, str]
    active: str
    argv: tuple[str, ...]
    units: tuple[str, ...]
    reload: str


@dataclass
class Stage:
    """`folder` holds the orchestrator's data: its store outlives it."""

    host: LabHost
    folder: Path
    generation_s: float = 10.0

    @property
    def settings(self) -> Settings:
        key = str(self.host.key)
        return Settings(data_dir=self.folder, ssh_key=key, ssh_config="", generation_s=self.generation_s)

    @property
    def environment(self) -> dict[str, str]:
        """The same settings for an orchestrator in a process of its own."""
        names = {"INTERLOCK_DATA_DIR": self.folder, "INTERLOCK_SSH_KEY": self.host.key, "INTERLOCK_SSH_CONFIG": ""}
        return {name: str(value) for name, value in names.items()}

    @asynccontextmanager
    async def ports(self, watch: Watch | None = None) -> AsyncIterator[Ports]:
        async with wired(self.settings, watch) as (ports, _):
            yield ports

    async def roll_out(
        self,
        arguments: Mapping[str, Any] | None = None,
        purpose: Purpose = "rollout",
        watch: Watch | None = None,
        **changes: Any,
    ) -> Rollout:
        """A rollout to the seed's configuration, changed as asked, driven to its end over SSH."""
        manifest = load_manifest(lab.manifest(self.host, arguments, **changes), "manifest.yaml")
        async with self.ports(watch) as ports:
            return await begin(ports, requests.from_manifest(ports, manifest, purpose, "practice"))

    async def run(self, *words: str) -> str:
        return (await container.execute(self.host, words)).text.strip()

    def path(self, path: str) -> Path:
        """A file of the host, from outside."""
        return container.root(self.host) / path.lstrip("/")

    def script_faults(self, *faults: Mapping[str, object]) -> None:
        """Faults of the engine's next start."""
        write_faults(container.root(self.host), faults)

    async def state(self) -> HostState:
        shown = await self.run("systemctl", "show", "--property=ActiveState,MainPID,NeedDaemonReload", "--", UNIT)
        facts = dict(line.split("=", 1) for line in shown.splitlines())
        pid = facts["MainPID"]
        cmdline = self.path(f"/proc/{pid}/cmdline").read_bytes() if pid != "0" else b""
        ours = await self.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "interlock-*")
        return HostState(
            files=await asyncio.to_thread(self._files),
            active=facts["ActiveState"],
            argv=tuple(word.decode() for word in cmdline.split(b"\0")[:-1]),
            units=tuple(line.split()[0] for line in ours.splitlines()),
            reload=facts["NeedDaemonReload"],
        )

    def _files(self) -> dict[str, str]:
        """Path -> type, mode, owner and content of everything below KEPT."""
        root = container.root(self.host)
        found = (path for folder in KEPT for path in sorted((root / folder).rglob("*")))
        described = {str(path.relative_to(root)): _described(path) for path in found}
        return {name: about for name, about in described.items() if about}

    async def journal(self, *words: str) -> str:
        return await self.run("journalctl", "--no-pager", "--output=cat", *words)

    async def until(self, holds: Callable[[HostState], bool], seconds: float) -> HostState:
        """The host's state once `holds` is true of it; the last one seen if that takes too long."""
        patience = AsyncRetrying(
            retry=retry_if_result(lambda state: not holds(state)),
            wait=wait_fixed(0.5),
            stop=stop_after_delay(seconds),
            retry_error_callback=lambda attempt: attempt.outcome.result() if attempt.outcome else None,
        )
        state: HostState = await patience(self.state)
        return state


def _described(path: Path) -> str:
    """Empty for a file that went away meanwhile."""
    try:
        stat = path.lstat()
        about = f"{stat.st_mode:o} {stat.st_uid}:{stat.st_gid}"
        if path.is_symlink():
            return f"{about} -> {path.readlink()}"
        return f"{about} {hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else about
    except FileNotFoundError:
        return ""


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
        made = [Stage(host, folder) for host in hosts]
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
