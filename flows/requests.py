"""Requests: what a rollout is asked for, from a manifest or from what was proven before."""

import re
import secrets
from collections.abc import Mapping, Sequence

from flows.history import History
from flows.ports import Ports
from state.errors import NoneProven, NotFound, UsageInvalid
from state.events import Purpose, RolloutRequested
from state.leases import proven
from state.manifest.model import HostSpec, Manifest
from state.revision import Revision, render

_REVIEWED = r"[0-9a-f]{8,64}"


def new_id() -> str:
    """Twelve hex digits; short enough to read out, long enough not to meet again."""
    return secrets.token_hex(6)


def from_manifest(
    ports: Ports, manifest: Manifest, purpose: Purpose, reason: str, reviewed_plan: str | None = None
) -> RolloutRequested:
    """`reviewed_plan` is a plan's digest, or its beginning.

    Raises UsageInvalid for an engine that is not known, or no such beginning.
    """
    revision = render(manifest)
    if reviewed_plan is not None and not re.fullmatch(_REVIEWED, reviewed_plan):
        raise UsageInvalid(
            f"`{reviewed_plan}` is no plan's digest, nor the beginning of one: at least 8 hex digits",
            hint="`interlock plan MANIFEST` prints it",
        )
    return RolloutRequested(
        rollout=new_id(),
        service=manifest.service,
        purpose=purpose,
        revision=revision,
        hosts=dict(manifest.hosts),
        actor=ports.holder,
        reason=reason,
        reviewed_plan=reviewed_plan,
    )


async def to_proven(
    ports: Ports, service: str, hosts: Mapping[str, HostSpec] | None, to: str, reason: str
) -> RolloutRequested:
    """A rollback of a service: to the revision whose digest begins with `to`, or to the last proven one before the
    newest. Raises NotFound when there is none, UsageInvalid when `to` names several."""
    history = proven(await ports.events.read(f"service-{service}"))
    wanted = _chosen([event.revision for event in history], to)
    if wanted is None:
        raise NoneProven(service, to, len(history))
    if hosts is None:
        hosts = await _hosts_of(ports, next(e.rollout for e in reversed(history) if e.revision.digest == wanted.digest))
    return RolloutRequested(
        rollout=new_id(),
        service=service,
        purpose="rollback",
        revision=wanted,
        hosts=dict(hosts),
        actor=ports.holder,
        reason=reason,
    )


def _chosen(revisions: list[Revision], to: str) -> Revision | None:
    if to:
        found = {r.digest: r for r in revisions if r.digest.startswith(to)}
        if len(found) > 1:
            raise UsageInvalid(
                f"{len(found)} proven revisions begin with `{to}`: {', '.join(digest[:16] for digest in found)}",
                hint="give more digits",
            )
        return next(iter(found.values()), None)
    return last_proven_before(revisions)


def last_proven_before(revisions: Sequence[Revision]) -> Revision | None:
    """Where a rollback goes that names nothing: the last of `revisions`, oldest first, that is not the newest."""
    newest = revisions[-1].digest if revisions else ""
    return next((r for r in reversed(revisions) if r.digest != newest), None)


async def _hosts_of(ports: Ports, rollout: str) -> Mapping[str, HostSpec]:
    requested = (await History(ports, rollout).load()).requested
    if requested is None:
        raise NotFound("rollout", rollout)
    return requested.hosts
