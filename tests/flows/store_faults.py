"""Stores that fail at a chosen call, and a machine's disk with its spools."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

from flows import requests
from flows.ports import Ports, Watch
from flows.session import begin
from state.errors import StoreUnavailable
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.port import EventStore, EvidenceRef, EvidenceStore, NewEvent, RecordedEvent
from state.store.spool_file import SpoolFolder
from tests.flows.rehearsal import Rehearsal

Result = TypeVar("Result")

STAGED, STOPPED = "action-started do:0:stage-files", "action-started do:3:stop-service"
"""Calls that begin to change a host, and to stop the service."""

How = Literal["once", "for-good", "answer-lost"]
"""Fails, and then no more; fails, and so does all that comes after; does what it was asked for and fails to say so."""


@dataclass
class Line:
    """The line to the store. Its `at`-th call fails as `how` says; while it is `cut` every call does."""

    at: int | None = None
    how: How = "once"
    cut: bool = False
    calls: list[str] = field(default_factory=list)

    async def call(self, name: str, work: Callable[[], Awaitable[Result]]) -> Result:
        self.calls.append(name)
        here = self.at is not None and len(self.calls) == self.at
        self.cut = self.cut or (here and self.how == "for-good")
        if self.cut or (here and self.how == "once"):
            raise StoreUnavailable("connection refused")
        result = await work()
        if here and self.how == "answer-lost":
            raise StoreUnavailable("connection reset by peer")
        return result

    def mended(self) -> None:
        self.at, self.cut = None, False


@dataclass
class LineEvents:
    """Implements `EventStore`."""

    inner: EventStore
    line: Line

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        what = ", ".join(f"{event.type} {event.data.get('action', '')}" for event in events)
        work = lambda: self.inner.append(stream, expected_version, events)  # noqa: E731  # called once, at once
        return await self.line.call(f"append {stream}: {what}", work)

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        return await self.line.call(f"read {stream}", lambda: self.inner.read(stream, after_version))

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        return await self.line.call(f"read the end of {stream}", lambda: self.inner.read_last(stream, count))

    async def unfinished(self) -> tuple[str, ...]:
        return await self.line.call("unfinished", self.inner.unfinished)

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return await self.line.call("read all", lambda: self.inner.read_all(after_position, limit))

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await self.line.call("streams", lambda: self.inner.streams(prefix))


@dataclass
class LineEvidence:
    """Implements `EvidenceStore`."""

    inner: EvidenceStore
    line: Line

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        return await self.line.call("put evidence", lambda: self.inner.put(data, media_type))

    async def get(self, digest: str) -> bytes:
        return await self.line.call("get evidence", lambda: self.inner.get(digest))


def ports_over(stage: Rehearsal, line: Line, folder: Path, heard: list[str]) -> Ports:
    """The rehearsal's ports with its store at the end of `line`, on a machine whose spools are in `folder`."""
    ports = stage.ports()
    return replace(
        ports,
        events=LineEvents(ports.events, line),
        evidence=LineEvidence(ports.evidence, line),
        spools=SpoolFolder(folder),
        watch=Watch(said=heard.append),
    )


async def roll_out(stage: Rehearsal, ports: Ports) -> Rollout:
    manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
    return await begin(ports, requests.from_manifest(ports, manifest, "rollout", "rehearsal"))
