"""One rollout's stream: read, folded, and appended to. Beside its orchestrator only an answer to a hold is written."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from flows.ports import Ports
from flows.uncut import uncut
from state.errors import NotFound, UsageInvalid, VersionConflict
from state.events import Event, HoldAnswered, decode, encode
from state.rollout import Rollout, evolve
from state.store.port import RecordedEvent


def stream_of(rollout: str) -> str:
    return f"rollout-{rollout}"


async def full_id(ports: Ports, beginning: str) -> str:
    """The id of the one rollout that begins so. Raises NotFound for none, UsageInvalid for more than one."""
    if not beginning:
        raise UsageInvalid("An empty text names no rollout", hint=_LISTED)
    matching = [s.removeprefix("rollout-") for s in await ports.events.streams(stream_of(beginning))]
    if beginning in matching or len(matching) == 1:
        return beginning if beginning in matching else matching[0]
    if not matching:
        raise NotFound("rollout", beginning, hint=_LISTED)
    raise UsageInvalid(f"{len(matching)} rollouts begin with `{beginning}`: {', '.join(matching[:5])}", hint=_LISTED)


_LISTED = "`interlock history` lists them"


@dataclass
class History:
    """`version` is the stream's, as far as this orchestrator knows; somebody else's append shows as VersionConflict.
    `canceller` is on whose behalf the driving is cancelled, if not on its orchestrator's own."""

    ports: Ports
    rollout_id: str
    version: int = 0
    rollout: Rollout = field(default_factory=Rollout)
    canceller: str = ""

    @property
    def stream(self) -> str:
        return stream_of(self.rollout_id)

    async def load(self) -> Rollout:
        """Raises NotFound if there is no such rollout, HistoryCorrupt if it cannot be trusted."""
        recorded = await self.recorded()
        self.version, self.rollout = len(recorded), self.ports.folds.of(recorded)
        return self.rollout

    async def recorded(self) -> tuple[RecordedEvent, ...]:
        recorded = await self.ports.events.read(self.stream)
        if not recorded:
            raise NotFound("rollout", self.rollout_id, hint=_LISTED)
        return recorded

    async def record(self, *events: Event) -> Rollout:
        """Append durably, all or none, then tell the watch. Raises VersionConflict, StoreUnavailable.

        A cancellation waits for the append: what may be stored or not, nobody could go on from.
        """
        stored = await uncut(self.ports.events.append(self.stream, self.version, list(map(encode, events))))
        return self._take_in(stored)

    async def take_in_answer(self) -> Rollout:
        """Go on from an answer that somebody appended meanwhile. Raises VersionConflict unless that is all there is:
        anything else means that another orchestrator has the rollout."""
        found = await self.ports.events.read(self.stream, self.version)
        if not found or any(recorded.type != HoldAnswered.wire for recorded in found):
            raise VersionConflict(self.stream, self.version, self.version + len(found))
        return self._take_in(found)

    def _take_in(self, stored: Iterable[RecordedEvent]) -> Rollout:
        for recorded in stored:
            self.version, self.rollout = recorded.version, evolve(self.rollout, decode(recorded))
            self.ports.watch.recorded(self.rollout, recorded)
        return self.rollout
