"""What the HTTP API needs of the process that serves it: who drives rollouts, and which manifests are on file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deployments.api.settings import ApiSettings
from flows.ports import Ports
from state.events import RolloutRequested
from state.manifest.model import Manifest
from state.store.connect import Stores


class Starter(Protocol):
    """Drives rollouts in the background, for as long as the server lives."""

    async def start(self, requested: RolloutRequested) -> None:
        """Record the request, so that the rollout's stream exists when this returns, and drive it.

        Raises VersionConflict if there is a stream for that rollout already (a request made twice), StoreUnavailable.
        """
        ...

    async def cancel(self, rollout: str, actor: str) -> bool:
        """Turn back a rollout that is being driven here, on behalf of `actor`; False if it is not driven here.

        Returns once that is asked for, not once the rollout has ended.
        """
        ...

    async def recover(self, rollout: str, *, take_over: bool) -> None:
        """Go on with a rollout whose orchestrator is gone, in the background.

        Raises NotFound, and LeaseHeld while its orchestrator may be alive, which `take_over` does not ask.
        """
        ...

    async def ready(self) -> Mapping[str, bool]:
        """The parts of the server beside the event store (`runner`, `prefect`, …), and whether each works."""
        ...


@dataclass(frozen=True, slots=True)
class CataloguedService:
    """A service that has manifests on file; `revisions` are their names, as the folder has them."""

    service: str
    revisions: tuple[str, ...]
    description: str = ""


REVISION_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""What a revision on file may be called."""


class Catalogue(Protocol):
    """Manifests on file, each a named revision of a service."""

    async def services(self) -> Sequence[CataloguedService]: ...

    async def manifest(self, service: str, revision: str) -> Manifest:
        """Raises NotFound for a name that is not there, ManifestInvalid for a file with mistakes."""
        ...


@dataclass(frozen=True, slots=True)
class Api:
    """Everything that a request can reach. `ports.holder` is this server's; actors in events are tokens' names."""

    ports: Ports
    stores: Stores
    starter: Starter
    catalogue: Catalogue
    settings: ApiSettings = field(default_factory=ApiSettings)
