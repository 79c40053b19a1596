"""Services: what each stands at, its last rollouts, who holds it, the revisions that were proven."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from deployments.api.ports import Api, CataloguedService
from deployments.api.routing import api_of, guarded, needs, problems
from deployments.api.told import (
    LeaseLine,
    ProvenRevision,
    Revisions,
    RolloutLine,
    ServiceLine,
    Services,
    ServiceWhole,
)
from deployments.api.wanted import ServicePath
from flows.requests import last_proven_before
from state.errors import NotFound
from state.leases import Lease, RevisionProven, decode, lease_of
from state.store.listing import rollout_page
from state.store.projections import rows
from state.store.tables import services as table

LAST_ROLLOUTS = 10

router = guarded("/services", "services")


@router.get("", response_model=Services, responses=problems(), openapi_extra=needs("read"))
async def list_services(request: Request) -> Services:
    """Every service that has a rollout, or a manifest on file."""
    api = api_of(request)
    await request.app.state.read_models.caught_up()
    kept = {row["service"]: row for row in await rows(api.stores.engine, table)}
    on_file = {entry.service: entry for entry in await api.catalogue.services()}
    return Services(services=[_line(name, kept.get(name), on_file.get(name)) for name in sorted({*kept, *on_file})])


@router.get("/{service}", response_model=ServiceWhole, responses=problems(), openapi_extra=needs("read"))
async def read_service(request: Request, service: ServicePath) -> ServiceWhole:
    """One service: present revision, last rollouts, who holds it."""
    api = api_of(request)
    line = await _read_line(request, service)
    last = await rollout_page(api.stores.engine, LAST_ROLLOUTS, service=service)
    held = lease_of(await api.ports.events.read(f"service-lease-{service}"))
    return ServiceWhole(line=line, rollouts=[_rollout(row) for row in last], lease=_lease(held))


@router.get("/{service}/revisions", response_model=Revisions, responses=problems(), openapi_extra=needs("read"))
async def list_revisions(request: Request, service: ServicePath) -> Revisions:
    """The revisions that were proven, newest first."""
    api = api_of(request)
    await _read_line(request, service)
    proven = [(e, decode(e)) for e in await api.ports.events.read(f"service-{service}")]
    listed = [_proven(event, recorded.recorded_at) for recorded, event in reversed(proven)]
    back = last_proven_before([e.revision for _, e in proven if isinstance(e, RevisionProven)])
    return Revisions(
        service=service, revisions=[one for one in listed if one], rollback_to=back.digest if back else None
    )


async def _read_line(request: Request, service: str) -> ServiceLine:
    api = api_of(request)
    await request.app.state.read_models.caught_up()
    kept = await rows(api.stores.engine, table, service=service)
    on_file = await _on_file(api, service)
    if not kept and on_file is None:
        raise NotFound("service", service, hint="GET /api/v1/services lists them")
    return _line(service, kept[0] if kept else None, on_file)


async def _on_file(api: Api, service: str) -> CataloguedService | None:
    found: Sequence[CataloguedService] = await api.catalogue.services()
    return next((entry for entry in found if entry.service == service), None)


def _line(service: str, kept: Mapping[str, Any] | None, on_file: CataloguedService | None) -> ServiceLine:
    known = kept or {}
    return ServiceLine(
        service=service,
        description=on_file.description if on_file else "",
        state=known.get("state"),
        rollout=known.get("rollout"),
        revision=known.get("revision"),
        revision_since=known.get("revision_since"),
        catalogue=list(on_file.revisions) if on_file else [],
    )


def _rollout(row: Mapping[str, Any]) -> RolloutLine:
    return RolloutLine.model_validate(dict(row))


def _lease(held: Lease) -> LeaseLine | None:
    return LeaseLine.model_validate(held.model_dump()) if held.rollout else None


def _proven(event: object, at: Any) -> ProvenRevision | None:
    if not isinstance(event, RevisionProven):
        return None
    revision = event.revision
    return ProvenRevision(
        digest=revision.digest, rollout=event.rollout, proven_at=at, engine=revision.engine, unit=revision.unit
    )
