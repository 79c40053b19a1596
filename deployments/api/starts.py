"""Requests that begin something: rollouts, verifications, rollbacks, and plans, which touch nothing."""

import asyncio
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from deployments.api.manifests import manifest_of
from deployments.api.ports import Api
from deployments.api.routing import api_of, guarded, needs, problems, token_of
from deployments.api.schemas import Planned, Started
from deployments.api.wanted import (
    IdempotencyKey,
    ManifestWanted,
    RollbackWanted,
    RolloutWanted,
    ServicePath,
    VerifyWanted,
)
from flows import requests
from flows.history import stream_of
from flows.looking import kept_out_of, look
from flows.ports import opened
from state.errors import DeadlineExceeded, VersionConflict
from state.events import Purpose, RolloutRequested, decode
from state.manifest.model import Manifest
from state.traffic_time import remarks

router = guarded("", "changes")

_BEGUN: dict[int | str, dict[str, Any]] = {202: {"description": "It is recorded, and under way.", "model": Started}}
_PLANNED: dict[int | str, dict[str, Any]] = {200: {"description": "The plan; nothing was begun.", "model": Planned}}


@router.post(
    "/rollouts",
    status_code=202,
    response_model=Started,
    responses={**problems(409, 424), **_BEGUN, **_PLANNED},
    openapi_extra=needs("rollout", keyed=True),
)
async def start_rollout(request: Request, wanted: RolloutWanted, _key: IdempotencyKey = None) -> Response:
    """Take a service to a manifest; prove it, or put the old revision back."""
    api = api_of(request)
    if wanted.dry_run:
        return _json(200, await _planned(api, await manifest_of(wanted, api.catalogue)))
    return await _begun(request, wanted, wanted.purpose, wanted.reason, wanted.plan)


@router.post(
    "/verify",
    status_code=202,
    response_model=Started,
    responses={**problems(409, 424), **_BEGUN},
    openapi_extra=needs("rollout", keyed=True),
)
async def start_verify(request: Request, wanted: VerifyWanted, _key: IdempotencyKey = None) -> Response:
    """Judge what runs now by a manifest's claims, changing nothing."""
    return await _begun(request, wanted, "verify", wanted.reason, None)


@router.post(
    "/services/{service}/rollback",
    status_code=202,
    response_model=Started,
    responses={**problems(409, 424), **_BEGUN},
    openapi_extra=needs("rollback", keyed=True),
)
async def start_rollback(
    request: Request, service: ServicePath, wanted: RollbackWanted | None = None, _key: IdempotencyKey = None
) -> Response:
    """Take a service back to its last proven revision before the present one, or to a named one."""
    api = api_of(request)
    if begun := await _already(api, request.state.rollout):
        return _started(begun)
    asked = wanted or RollbackWanted()
    return await _start(request, await requests.to_proven(api.ports, service, None, asked.to, asked.reason))


@router.post("/plan", response_model=Planned, responses=problems(409, 424), openapi_extra=needs("rollout"))
async def plan(request: Request, wanted: ManifestWanted) -> Response:
    """What a rollout would do and what it would have to prove. The hosts are read, and nothing is touched."""
    api = api_of(request)
    return _json(200, await _planned(api, await manifest_of(wanted, api.catalogue)))


async def _begun(
    request: Request, wanted: ManifestWanted, purpose: Purpose, reason: str, reviewed: str | None
) -> Response:
    api = api_of(request)
    if begun := await _already(api, request.state.rollout):
        return _started(begun)
    manifest = await manifest_of(wanted, api.catalogue)
    return await _start(request, requests.from_manifest(api.ports, manifest, purpose, reason, reviewed))


async def _start(request: Request, made: RolloutRequested) -> Response:
    """Begin it under the id that the request has, on behalf of its token; a stream of that id is this request's."""
    api = api_of(request)
    requested = made.model_copy(update={"rollout": request.state.rollout, "actor": token_of(request).name})
    try:
        await api.starter.start(requested)
    except VersionConflict:
        return _started(await _already(api, requested.rollout) or requested)
    return _started(requested)


async def _already(api: Api, rollout: str) -> RolloutRequested | None:
    """What the same request began before."""
    recorded = await api.ports.events.read(stream_of(rollout))
    first = decode(recorded[0]) if recorded else None
    return first if isinstance(first, RolloutRequested) else None


async def _planned(api: Api, manifest: Manifest) -> Planned:
    requested = requests.from_manifest(api.ports, manifest, "rollout", "plan")
    limit_s = api.settings.plan_timeout_s
    try:
        async with asyncio.timeout(limit_s), opened(api.ports, requested.hosts) as hosts:
            made, _ = await look(hosts, requested.revision, api.ports)
            kept_out = await kept_out_of(hosts, requested.revision, made)
    except TimeoutError as error:
        raise DeadlineExceeded("Looking at the hosts", limit_s, hint="INTERLOCK_API_PLAN_TIMEOUT_S") from error
    return Planned(
        digest=made.digest,
        service=made.service,
        revision=made.revision,
        unchanged=made.unchanged,
        changes=list(made.changes),
        claims=[claim.as_json() for claim in made.claims],
        refusals=kept_out,
        remarks=remarks(made),
        dark_s=made.dark_s,
    )


def _started(requested: RolloutRequested) -> Response:
    href = f"/api/v1/rollouts/{requested.rollout}"
    started = Started(
        rollout=requested.rollout,
        service=requested.service,
        purpose=requested.purpose,
        revision=requested.revision.digest,
        href=href,
        events=f"{href}/events",
    )
    return _json(202, started, {"Location": href})


def _json(status: int, value: Started | Planned, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(value.model_dump(mode="json"), status, headers)
