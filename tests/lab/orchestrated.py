"""A host with an orchestrator's store beside it: what rollouts are rehearsed on, whatever kind of host it is."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from flows import requests
from flows.ports import Ports, Watch, opened
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.engines.engine import engine_for
from state.events import Purpose
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from state.rollout import Rollout
from tasks.endpoint import Endpoint
from tasks.practice.engine.install import write_faults
from tasks.practice.scene import UNIT

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
class Orchestrated(ABC):
    """`folder` holds the orchestrator's data: its store outlives it. `unit` is the service's."""

    folder: Path
    generation_s: float = 10.0
    unit: str = UNIT

    @property
    @abstractmethod
    def key(self) -> Path:
        """The private key that the host lets in."""

    @property
    @abstractmethod
    def port(self) -> int:
        """Where the engine listens on the host's loopback."""

    @property
    @abstractmethod
    def root(self) -> Path:
        """The host's files, from outside."""

    @abstractmethod
    def manifest(self, arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
        """The seed's configuration for this host, changed as asked."""

    @abstractmethod
    async def run(self, *words: str) -> str:
        """What a program of the host prints that is run as root."""

    @abstractmethod
    async def transient_units(self) -> tuple[str, ...]:
        """The units that interlock left on the host."""

    @abstractmethod
    def cmdline(self, pid: int) -> bytes:
        """A process's `/proc/PID/cmdline`, by its PID on the host."""

    @abstractmethod
    def environ(self, pid: int) -> bytes:
        """The same for its `environ`."""

    @property
    def settings(self) -> Settings:
        return Settings(
            data_dir=self.folder, ssh_key=str(self.key), ssh_config="", generation_s=self.generation_s, database_url=""
        )

    @property
    def environment(self) -> dict[str, str]:
        """The same settings for an orchestrator in a process of its own."""
        names = {"INTERLOCK_DATA_DIR": self.folder, "INTERLOCK_SSH_KEY": self.key, "INTERLOCK_SSH_CONFIG": ""}
        return {name: str(value) for name, value in names.items()} | {"INTERLOCK_DATABASE_URL": ""}

    @asynccontextmanager
    async def ports(self, watch: Watch | None = None) -> AsyncIterator[Ports]:
        async with wired(self.settings, watch) as (ports, _):
            yield ports

    def wanted(self, arguments: Mapping[str, Any] | None = None, **changes: Any) -> Manifest:
        return load_manifest(self.manifest(arguments, **changes), "manifest.yaml")

    async def roll_out(
        self,
        arguments: Mapping[str, Any] | None = None,
        purpose: Purpose = "rollout",
        watch: Watch | None = None,
        **changes: Any,
    ) -> Rollout:
        """A rollout to the seed's configuration, changed as asked, driven to its end over SSH."""
        manifest = self.wanted(arguments, **changes)
        async with self.ports(watch) as ports:
            return await begin(ports, requests.from_manifest(ports, manifest, purpose, "practice"))

    def path(self, path: str) -> Path:
        """A file of the host, from outside."""
        return self.root / path.lstrip("/")

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the host, as an editor would; systemd is not told."""
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)
        self.path(path).chmod(mode)

    def script_faults(self, *faults: Mapping[str, object]) -> None:
        """Faults of the engine's next start."""
        write_faults(self.root, faults)

    async def begin(self, files: Mapping[str, str], unit: str = UNIT) -> None:
        """Write unit files, start `unit`, and wait until it generates: from here on it is the service."""
        self.unit = unit
        for path, text in files.items():
            self.put(path, text)
        await self.run("systemctl", "daemon-reload")
        await self.run("systemctl", "start", "--", unit)
        await self.until_it_generates()

    async def until_it_generates(self, seconds: float = 30.0) -> None:
        manifest = self.wanted()
        engine = engine_for(manifest.engine.kind)
        patience = AsyncRetrying(
            retry=retry_if_result(lambda answer: not answer.ok), wait=wait_fixed(0.1), stop=stop_after_delay(seconds)
        )
        async with (
            self.ports() as ports,
            opened(ports, manifest.hosts) as hosts,
            Endpoint(hosts[manifest.unit.host], manifest.engine.endpoint) as endpoint,
        ):
            await patience(endpoint.ask, engine.generation("The quick brown fox", 4, exact=False), timeout_s=5.0)

    async def show(self, *names: str) -> dict[str, str]:
        """Properties of the service's unit."""
        shown = await self.run("systemctl", "show", f"--property={','.join(names)}", "--", self.unit)
        return dict(line.split("=", 1) for line in shown.splitlines())

    async def state(self) -> HostState:
        facts = await self.show("ActiveState", "MainPID", "NeedDaemonReload")
        cmdline = self.cmdline(int(facts["MainPID"])) if facts["MainPID"] != "0" else b""
        return HostState(
            files=await asyncio.to_thread(self._files),
            active=facts["ActiveState"],
            argv=tuple(word.decode() for word in cmdline.split(b"\0")[:-1]),
            units=await self.transient_units(),
            reload=facts["NeedDaemonReload"],
        )

    def _files(self) -> dict[str, str]:
        """Path -> type, mode, owner and content of everything below KEPT."""
        found = (path for folder in KEPT for path in sorted((self.root / folder).rglob("*")))
        described = {str(path.relative_to(self.root)): _described(path) for path in found}
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
