"""What the commands do: each a function from words to an exit code, printing a page or one JSON object.

What shows pages is loaded where a page is shown, and Prefect where it is used.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deployments import collection
from deployments.asking import asking_on_stderr
from deployments.manifest_file import Source
from deployments.serve.hand_over import Asked, handed_over, served_here
from flows import conclude, requests
from flows.history import History, full_id
from flows.hold import asking
from flows.looking import kept_out_of, look
from flows.ports import Ports, opened
from flows.retrying import retrying
from flows.session import cancel, go_on, requested_history, unfinished
from flows.settings import Settings
from flows.wiring import wired
from state.action import Action
from state.errors import PreflightRefused, Refused, StoreUnavailable, UsageInvalid
from state.events import Purpose, RolloutRequested
from state.manifest.model import Manifest
from state.narrative import narrate
from state.next_action import next_action
from state.rollout import Rollout
from state.traffic_time import remarks

if TYPE_CHECKING:
    from rich.console import Console

    from flows.prefect_home import PrefectHome


async def plan(console: "Console", manifest: Manifest, *, as_json: bool, claims: bool) -> int:
    """Look and plan, changing nothing. Raises PreflightRefused, the plan being shown, for a device in quarantine."""
    async with wired(Settings()) as (ports, _):
        requested = requests.from_manifest(ports, manifest, "rollout", "plan")
        async with opened(ports, requested.hosts) as hosts:
            made, _observed = await look(hosts, requested.revision, ports)
            kept_out = await kept_out_of(hosts, requested.revision, made)
    if as_json:
        told = {"refusals": kept_out, "remarks": remarks(made)}
        print_json({"digest": made.digest, "plan": made.as_json(), **told})
        return Refused.exit_code if kept_out else 0
    from deployments.page import show_claims, show_plan

    show_plan(console, made, made.digest)
    if claims:
        show_claims(console, made.claims)
    if kept_out:
        raise PreflightRefused(kept_out)
    if not made.unchanged:
        console.print(
            f"to do exactly this: interlock apply --plan {made.digest[:12]} MANIFEST", style="dim", highlight=False
        )
    return 0


async def run_manifest(
    console: "Console",
    source: Source,
    purpose: Purpose,
    *,
    reason: str,
    reviewed: str | None,
    bare: bool,
    as_json: bool,
) -> int:
    """`apply` and `verify`: a rollout from a manifest. Raises UsageInvalid for an empty digest of a reviewed plan."""
    if reviewed == "":
        raise UsageInvalid("An empty text names no plan", hint="give the digest that `interlock plan` prints")

    async def request(ports: Ports) -> RolloutRequested:
        return requests.from_manifest(ports, source.manifest, purpose, reason, reviewed)

    body = {"manifest": source.text, "reason": reason}
    asked = Asked("/verify", body) if purpose == "verify" else Asked("/rollouts", {**body, "plan": reviewed})
    return await _run(console, request, asked, bare=bare, as_json=as_json)


async def roll_back(console: "Console", service: str, *, to: str, reason: str, bare: bool, as_json: bool) -> int:
    async def request(ports: Ports) -> RolloutRequested:
        return await requests.to_proven(ports, service, None, to, reason)

    asked = Asked(f"/services/{quote(service, safe='')}/rollback", {"to": to, "reason": reason})
    return await _run(console, request, asked, bare=bare, as_json=as_json)


async def show(console: "Console", rollout: str, *, as_json: bool) -> int:
    """One rollout told whole: timeline, claims, end."""
    async with wired(Settings()) as (ports, _):
        history = History(ports, await full_id(ports, rollout))
        folded, recorded = await history.load(), await history.recorded()
    if as_json:
        print_json({"rollout": history.rollout_id, "events": [_event_json(e) for e in recorded]})
        return 0
    from deployments.page import show_end, show_hold, show_timeline, show_verdicts

    show_timeline(console, narrate(recorded))
    for key, judged in folded.judged.items():
        show_verdicts(console, judged.verdicts, f"Claims ({key.replace(':', ', round ')})")
    if hold := asking(folded):
        show_hold(console, hold, history.rollout_id)
    if folded.concluded:
        show_end(console, folded.concluded, history.rollout_id)
    return 0


async def _run(
    console: "Console",
    request: Callable[[Ports], Awaitable[RolloutRequested]],
    asked: Asked,
    *,
    bare: bool,
    as_json: bool,
) -> int:
    """By the server of this data directory if it runs, else here."""
    served = None if bare else await served_here(Settings())
    if served is not None:
        async with watching(console, as_json) as ports:
            ended = await handed_over(served, asked, ports)
    else:
        async with watching(console, as_json) as ports, prefect_beside(bare) as home:
            ended = await to_its_end(ports, await request(ports), home)
    return report(console, [ended], as_json=as_json)


async def to_its_end(ports: Ports, requested: RolloutRequested, home: "PrefectHome | None") -> Rollout:
    """Drive a new rollout, with Prefect if there is one. An interruption is turned into a safe end, which is returned:
    `Rollout.cancelled` tells. A store that is lost once the end is recorded changes nothing about that end."""
    history = await requested_history(ports, requested)
    try:
        return await (go_on(history, retrying) if home is None else _with_prefect(history, requested, home))
    except asyncio.CancelledError:
        return await cancel(history)
    except StoreUnavailable as error:
        if history.rollout.concluded is None:
            raise
        print(f"the lease could not be given back, and runs out by itself: {error}", file=sys.stderr)
        return history.rollout


async def _with_prefect(history: History, requested: RolloutRequested, home: "PrefectHome") -> Rollout:
    """Plan and check while Prefect comes up, and go on inside a flow run before the host is changed.

    If Prefect does not come up, the rollout goes on without it: the record is the same.
    """
    await go_on(history, retrying, until=_changes_a_host)
    ahead = next_action(history.rollout)
    if ahead is None or not _changes_a_host(ahead):
        return await go_on(history, retrying)
    if not await home.answers():
        print(f"Prefect does not answer at {home.api_url}; going on without it", file=sys.stderr)
        return await go_on(history, retrying)
    with collection.held():
        from flows.rollout import shown  # imports Prefect, which takes seconds: not before it is needed
    await shown(history, requested)
    return await go_on(history, retrying) if unfinished(history.rollout) else history.rollout


@asynccontextmanager
async def prefect_beside(bare: bool) -> "AsyncIterator[PrefectHome | None]":
    """A Prefect server that is coming up beside the work; none for a bare run."""
    if bare:
        yield None
        return
    from flows.prefect_home import PrefectHome

    home = PrefectHome(Settings().data_dir / "prefect")
    try:
        await home.start()
        yield home
    finally:
        await home.stop()


def _changes_a_host(action: Action) -> bool:
    return action.kind in ("step", "verify")


@asynccontextmanager
async def watching(console: "Console", as_json: bool) -> AsyncIterator[Ports]:
    """Ports whose events are shown live; of those whose end is told in JSON, only a question to a person."""
    if as_json:
        async with wired(Settings(), asking_on_stderr()) as (ports, _):
            yield ports
        return
    from deployments.live import live

    with live(console) as watch:
        async with wired(Settings(), watch) as (ports, _):
            yield ports


def report(console: "Console", ended: list[Rollout], *, as_json: bool, as_list: bool = False) -> int:
    """How the rollouts ended; the highest of their exit codes. A refusal is told on standard error."""
    codes = [rollout.concluded.exit_code if rollout.concluded else 1 for rollout in ended]
    if as_json:
        print_json([_rollout_json(rollout) for rollout in ended] if as_list else _rollout_json(ended[0]))
    for rollout in ended:
        trouble = conclude.failure(rollout)
        if rollout.concluded and rollout.concluded.outcome == "refused" and trouble:
            print_error(trouble.message, trouble.hint)
        elif rollout.concluded and rollout.requested and not as_json:
            from deployments.page import show_end

            show_end(console, rollout.concluded, rollout.requested.rollout)
        elif rollout.concluded is None and rollout.requested:
            _tell_unended(rollout, rollout.requested.rollout)
    return max(codes, default=0)


def _tell_unended(rollout: Rollout, name: str) -> None:
    """What ends a rollout failed for good: the session is over, and the next one goes on."""
    why = [error.message for error in rollout.failures.values()]
    print_error(f"Rollout {name} has not ended: {''.join(why[-1:])}", f"`interlock recover {name}` goes on with it")


def print_error(sentence: str, hint: str) -> None:
    """One sentence and what to do next, on standard error."""
    print(f"error: {sentence}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def _rollout_json(rollout: Rollout) -> dict[str, Any]:
    requested, concluded, trouble = rollout.requested, rollout.concluded, conclude.failure(rollout)
    return {
        "rollout": requested.rollout if requested else None,
        "service": requested.service if requested else None,
        "purpose": requested.purpose if requested else None,
        "revision": requested.revision.digest if requested else None,
        "outcome": concluded.outcome if concluded else None,
        "summary": concluded.summary if concluded else None,
        "error": trouble.as_json() if trouble else None,
        "exit_code": concluded.exit_code if concluded else 1,
        "dark_s": concluded.dark_s if concluded else None,
        "verdicts": [verdict.as_json() for verdict in rollout.verdicts],
    }


def _event_json(recorded: Any) -> dict[str, Any]:
    return {
        "position": recorded.position,
        "version": recorded.version,
        "type": recorded.type,
        "recorded_at": recorded.recorded_at.isoformat(),
        "data": recorded.data,
        "digest": recorded.digest,
    }


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
