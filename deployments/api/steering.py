"""Requests about a rollout that there is: answering its question, turning it back, going on with it, clearing a GPU."""

from dataclasses import replace

from fastapi import Request

from deployments.api.refusals import under_scoped
from deployments.api.routing import api_of, guarded, needs, problems, token_of
from deployments.api.schemas import Done
from deployments.api.wanted import AnswerWanted, ClearWanted, IdempotencyKey, RecoverWanted, RolloutPath
from flows import quarantine
from flows.history import History
from flows.hold import answer_hold
from flows.session import is_stranded
from state.errors import Refused

router = guarded("/rollouts/{rollout}", "rollouts under way")


@router.post(
    "/answer",
    response_model=Done,
    responses=problems(409),
    openapi_extra=needs("rollout", "rollback", keyed=True),
)
async def answer_question(
    request: Request, rollout: RolloutPath, wanted: AnswerWanted, _key: IdempotencyKey = None
) -> Done:
    """Answer a rollout that holds; the first answer counts. `promote` needs the scope `rollout`, `rollback` either."""
    token = token_of(request)
    if wanted.answer == "promote" and "rollout" not in token.scopes:
        raise under_scoped(token.name, ("rollout",))
    given = await answer_hold(api_of(request).ports, rollout, wanted.answer, token.name, wanted.reason)
    return Done(rollout=rollout, said=f"{given.actor} answered {given.answer}; its orchestrator goes on with that")


@router.post(
    "/cancel",
    status_code=202,
    response_model=Done,
    responses=problems(409),
    openapi_extra=needs("rollback", keyed=True),
)
async def cancel_rollout(request: Request, rollout: RolloutPath, _key: IdempotencyKey = None) -> Done:
    """Turn back a rollout that is under way: before the service stopped it is aborted, after that rolled back."""
    api = api_of(request)
    found = await History(api.ports, rollout).load()
    if found.concluded is not None:
        service = found.requested.service if found.requested else "SERVICE"
        hint = f"POST /api/v1/services/{service}/rollback takes the service back"
        raise Refused(f"Rollout {rollout} has ended, {found.concluded.outcome}", hint=hint)
    if not await api.starter.cancel(rollout, token_of(request).name):
        raise Refused(
            f"Rollout {rollout} is not driven by this server",
            hint="interrupt the program that drives it, or recover the rollout once its lease is over",
        )
    return Done(rollout=rollout, said="it turns back, and goes on to a safe end")


@router.post(
    "/recover",
    status_code=202,
    response_model=Done,
    responses=problems(409, 424),
    openapi_extra=needs("rollout", keyed=True),
)
async def recover_rollout(
    request: Request, rollout: RolloutPath, wanted: RecoverWanted | None = None, _key: IdempotencyKey = None
) -> Done:
    """Go on with a rollout whose orchestrator is gone."""
    take_over = wanted.take_over if wanted else False
    found = await History(api_of(request).ports, rollout).load()
    if found.ended and not is_stranded(found):
        raise Refused(f"Rollout {rollout} has ended; there is nothing to go on with")
    await api_of(request).starter.recover(rollout, take_over=take_over)
    return Done(rollout=rollout, said="this server goes on with it")


@router.post(
    "/gpus/clear",
    response_model=Done,
    responses=problems(409, 424),
    openapi_extra=needs("rollout", keyed=True),
)
async def clear_gpu(request: Request, rollout: RolloutPath, wanted: ClearWanted, _key: IdempotencyKey = None) -> Done:
    """Take a device out of the quarantine that the rollout put it in: somebody has seen that it is well again."""
    ports = replace(api_of(request).ports, holder=token_of(request).name)
    cleared = await quarantine.clear(ports, rollout, wanted.address.lower(), wanted.reason)
    return Done(rollout=rollout, said=f"{cleared.address} on {cleared.host} is quarantined no longer")
