"""Reading rollouts: pages of them, one whole, its report, and raw evidence."""

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from deployments.api.reading import after_cursor, cursor_of
from deployments.api.routing import api_of, guarded, needs, problems
from deployments.api.told import Question, RolloutLine, RolloutPage, RolloutWhole, VerdictLine
from deployments.api.wanted import DigestPath, Limit, RolloutPath
from flows.history import History
from flows.hold import asking
from state.claims import Verdict
from state.errors import NotFound
from state.events import HoldOpened, Purpose
from state.rollout import Rollout
from state.rollout_report import report_of
from state.store.listing import rollout_page
from state.store.projections import rows
from state.store.tables import rollouts as table

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The report is one file without scripts; its styles are in it."""

router = guarded("/rollouts", "rollouts")
evidence_router = guarded("/evidence", "evidence")

Filter = Annotated[str | None, Query(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
Cursor = Annotated[str | None, Query(max_length=400, pattern=r"^[A-Za-z0-9_-]+$", description="`next` of a page.")]


@router.get("", response_model=RolloutPage, responses=problems(), openapi_extra=needs("read"))
async def list_rollouts(
    request: Request,
    service: Filter = None,
    state: Filter = None,
    purpose: Purpose | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> RolloutPage:
    """Rollouts, newest first. A page's `next` stays good while others are begun."""
    after = after_cursor(cursor) if cursor else None
    await request.app.state.read_models.caught_up()
    equal = {"service": service, "state": state, "purpose": purpose}
    found = await rollout_page(api_of(request).stores.engine, limit + 1, after, **equal)
    lines = [RolloutLine.model_validate(dict(row)) for row in found[:limit]]
    return RolloutPage(rollouts=lines, next=cursor_of(found[limit - 1]) if len(found) > limit else None)


@router.get("/{rollout}", response_model=RolloutWhole, responses=problems(), openapi_extra=needs("read"))
async def read_rollout(request: Request, rollout: RolloutPath) -> RolloutWhole:
    """One rollout: how it stands, its verdicts, what it asks."""
    api = api_of(request)
    history = History(api.ports, rollout)
    folded = await history.load()
    newest = await api.ports.events.read(history.stream, history.version - 1)
    await request.app.state.read_models.caught_up()
    found = await rows(api.stores.engine, table, stream=history.stream)
    if not found:
        raise NotFound("rollout", rollout)
    return RolloutWhole(
        line=RolloutLine.model_validate(dict(found[0])),
        question=_question(asking(folded)),
        verdicts=[_verdict(verdict) for verdict in folded.verdicts],
        next_argvs=list(folded.concluded.next_argvs) if folded.concluded else [],
        evidence=_evidence(folded),
        version=history.version,
        position=newest[-1].position,
    )


@router.get(
    "/{rollout}/report",
    response_class=JSONResponse,
    responses={
        **problems(),
        200: {
            "description": "The report, as JSON or as one HTML page that fetches nothing.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "text/html": {"schema": {"type": "string"}},
            },
        },
    },
    openapi_extra=needs("read"),
)
async def read_report(request: Request, rollout: RolloutPath, form: Literal["json", "html"] = "json") -> Response:
    """What a person would ask of a rollout the morning after."""
    report = report_of(await History(api_of(request).ports, rollout).recorded())
    if form == "json":
        return JSONResponse(report.as_json())
    from deployments.report.html import html  # brings the templates in, which nobody else here needs

    return HTMLResponse(html(report), headers={"Content-Security-Policy": PAGE_POLICY})


@evidence_router.get(
    "/{digest}",
    response_class=Response,
    responses={
        **problems(),
        200: {
            "description": "The bytes as they were kept, secrets left out before.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
    },
    openapi_extra=needs("read"),
)
async def read_evidence(request: Request, digest: DigestPath) -> Response:
    """Raw evidence, to be saved: a browser never shows it, since it may hold what a host's log held."""
    data = await api_of(request).ports.evidence.get(digest)
    headers = {"Content-Disposition": f'attachment; filename="{digest}"', "ETag": f'"{digest}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _question(hold: HoldOpened | None) -> Question | None:
    if hold is None:
        return None
    return Question(
        question=hold.question, open=[v.claim for v in hold.open], deadline=hold.deadline, default=hold.default
    )


def _verdict(verdict: Verdict) -> VerdictLine:
    fields: dict[str, Any] = verdict.model_dump(include=set(VerdictLine.model_fields))
    return VerdictLine.model_validate({**fields, "claim": verdict.claim})


def _evidence(rollout: Rollout) -> dict[str, str]:
    """Names of what was gathered last, with digests."""
    gathered = tuple(rollout.gathered.values())
    return {name: item.digest for name, item in gathered[-1].items()} if gathered else {}
