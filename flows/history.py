"""One rollout's stream: read, folded, and appended to. Nothing else writes it."""

from dataclasses import dataclass, field

from flows.ports import Ports
from state.errors import NotFound
from state.events import Event, decode, encode
from state.rollout import Rollout, evolve, fold
from state.store.port import RecordedEvent


def stream_of(rollout: str) -> str:
    return f"rollout-{rollout}"


@dataclass
class History:
    """`version` is the stream's, as far as this orchestrator knows; somebody else's append shows as VersionConflict."""

    ports: Ports
    rollout_id: str
    version: int = 0
    rollout: Rollout = field(default_factory=Rollout)

    @property
    def stream(self) -> str:
        return stream_of(self.rollout_id)

    async def load(self) -> Rollout:
        """Raises NotFound if there is no such rollout, HistoryCorrupt if it cannot be trusted."""
        recorded = await self.recorded()
        self.version, self.rollout = len(recorded), fold(map(decode, recorded))
        return self.rollout

    async def recorded(self) -> tuple[RecordedEvent, ...]:
        recorded = await self.ports.events.read(self.stream)
        if not recorded:
            raise NotFound("rollout", self.rollout_id, hint="`interlock history` lists them")
        return recorded

    async def record(self, event: Event) -> Rollout:
        """Append durably, then tell the watch. Raises VersionConflict, StoreUnavailable."""
        (recorded,) = await self.ports.events.append(self.stream, self.version, [encode(event)])
        self.version, self.rollout = recorded.version, evolve(self.rollout, event)
        self.ports.watch.recorded(self.rollout, recorded)
        return self.rollout
