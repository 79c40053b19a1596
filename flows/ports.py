"""What the loop needs of the world, as ports, so that the same loop runs in production, in simulation and in a demo."""

import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from state.folds import Folds
from state.manifest.model import HostSpec
from state.rollout import Rollout
from state.store.port import EventStore, EvidenceStore, RecordedEvent, Spools
from tasks.hosts.port import Host

Hosts = Mapping[str, Host]
OpenHost = Callable[[str, HostSpec], Host]


def utc_now() -> datetime:
    return datetime.now(UTC)


def on_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what happens: each event once it is recorded, progress within an action (stage, seconds), and what
    a person should know beside the events: that the store is away, where its facts wait, what came of them."""

    recorded: Callable[[Rollout, RecordedEvent], None] = lambda _rollout, _event: None
    progress: Callable[[str, float], None] = lambda _stage, _seconds: None
    said: Callable[[str], None] = on_stderr


@dataclass(frozen=True, slots=True)
class Ports:
    """`lease_s` is how long a lease lasts without renewal; `generation_s` how long a first generation may take;
    `spools` is where facts are kept while the store is away, None for a machine that keeps none; `folds` are the
    rollouts that were loaded before."""

    events: EventStore
    evidence: EvidenceStore
    open_host: OpenHost
    holder: str
    now: Callable[[], datetime] = utc_now
    clock: Callable[[], float] = time.monotonic
    watch: Watch = field(default_factory=Watch)
    lease_s: float = 300.0
    generation_s: float = 30.0
    spools: Spools | None = None
    folds: Folds = field(default_factory=Folds)


@asynccontextmanager
async def opened(ports: Ports, specs: Mapping[str, HostSpec]) -> AsyncIterator[Hosts]:
    """The hosts of a rollout, one connection each, closed when the block ends."""
    hosts = {name: ports.open_host(name, spec) for name, spec in specs.items()}
    try:
        yield hosts
    finally:
        for host in hosts.values():
            await host.aclose()
