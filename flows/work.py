"""One attempt of one action: what it may touch, and what the history says it needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.ports import Hosts, Ports
from state.action import Action
from state.engines.engine import Engine, engine_for
from state.events import EvidenceItem, RolloutRequested
from state.plan import Plan
from state.revision import Revision
from state.rollout import Rollout
from state.store.port import EvidenceStore
from tasks.hosts.port import Host
from tasks.sequence import Fence

if TYPE_CHECKING:  # what proves is not loaded to plan
    from tasks.verification import Items


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt of one action: what it may touch and what is known."""

    ports: Ports
    hosts: Hosts
    action: Action
    attempt: int
    rollout: Rollout

    @property
    def requested(self) -> RolloutRequested:
        assert self.rollout.requested is not None  # every stream begins with it
        return self.rollout.requested

    @property
    def revision(self) -> Revision:
        return self.requested.revision

    @property
    def plan(self) -> Plan:
        assert self.rollout.plan is not None  # no action but `plan` and `lease` comes before it
        return self.rollout.plan

    @property
    def engine(self) -> Engine:
        return engine_for(self.revision.engine)

    @property
    def host(self) -> Host:
        return self.hosts[self.revision.unit_host]

    @property
    def gpu_host(self) -> Host | None:
        return self.hosts[self.revision.gpu_host] if self.revision.gpu_host else None

    def fence(self, host: str) -> Fence:
        again = self.rollout.revivals[-1] if self.rollout.revivals and self.action.direction == "undo" else ""
        return Fence(self.requested.rollout, self.rollout.fencing[host], again)

    def unit(self, key: str, again: str = "") -> str:
        """The transient unit of a step's action; nothing is done forward again, so `again` is of the way back."""
        return Fence(self.requested.rollout, 0, again).unit(key)


async def keep(store: EvidenceStore, items: "Items") -> dict[str, EvidenceItem]:
    """Put raw evidence into the store; the names with what they are kept under."""
    kept = {}
    for name, (data, media_type) in items.items():
        ref = await store.put(data, media_type)
        kept[name] = EvidenceItem(digest=ref.digest, media_type=ref.media_type, size=ref.size)
    return kept
