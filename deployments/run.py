"""What the commands do: each a function from words to an exit code, printing a page or one JSON object."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from deployments.live import live
from deployments.page import show_claims, show_end, show_plan, show_timeline, show_verdicts
from flows import requests
from flows.history import History
from flows.perform import look
from flows.ports import Ports, opened
from flows.prefect_home import PrefectHome
from flows.retrying import retrying
from flows.session import begin, go_on, requested_history, resume, unfinished
from flows.settings import Settings
from flows.wiring import wired
from state.action import Action
from state.errors import UsageInvalid
from state.events import Purpose, RolloutRequested
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from state.narrative import narrate
from state.next_action import next_action
from state.rollout import Rollout


def read_manifest(path: Path) -> Manifest:
    """Raises UsageInvalid for a file that cannot be read, ManifestInvalid with all its mistakes."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageInvalid(
            f"{path} is no UTF-8 text: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise UsageInvalid(f"Cannot read {path}: {error.strerror}", hint="name a manifest file") from error
    return load_manifest(text, str(path))


async def plan(console: Console, manifest: Manifest, *, as_json: bool, claims: bool) -> int:
    """Look and plan, changing nothing."""
    async with wired(Settings()) as (ports, _):
        requested = requests.from_manifest(ports, manifest, "rollout", "plan")
        async with opened(ports, requested.hosts) as hosts:
            made, _observed = await look(hosts, requested.revision, ports)
    if as_json:
        print_json({"digest": made.digest, "plan": made.as_json()})
        return 0
    show_plan(console, made, made.digest)
    if claims:
        show_claims(console, made.claims)
    if not made.unchanged:
        console.print(
            f"to do exactly this: interlock apply --plan {made.digest[:12]} MANIFEST", style="dim", highlight=False
        )
    return 0


async def run_manifest(
    console: Console,
    manifest: Manifest,
    purpose: Purpose,
    *,
    reason: str,
    reviewed: str | None,
    bare: bool,
    as_json: bool,
) -> int:
    """`apply` and `verify`: a rollout from a manifest."""

    async def request(ports: Ports) -> RolloutRequested:
        return requests.from_manifest(ports, manifest, purpose, reason, reviewed)

    return await _run(console, request, bare=bare, as_json=as_json)


async def roll_back(console: Console, service: str, *, to: str, reason: str, bare: bool, as_json: bool) -> int:
    async def request(ports: Ports) -> RolloutRequested:
        return await requests.to_proven(ports, service, None, to, reason)

    return await _run(console, request, bare=bare, as_json=as_json)


async def recover(console: Console, rollout: str, *, as_json: bool) -> int:
    """Go on with one rollout, or with every unfinished one whose lease is over."""
    async with watching(console, as_json) as ports:
        ids = [rollout] if rollout else await _unfinished(ports)
        ended = [await resume(ports, name) for name in ids]
    return report(console, ended, as_json=as_json)


async def show(console: Console, rollout: str, *, as_json: bool) -> int:
    """One rollout told whole: timeline, claims, end."""
    async with wired(Settings()) as (ports, _):
        history = History(ports, await _full_id(ports, rollout))
        folded, recorded = await history.load(), await history.recorded()
    if as_json:
        print_json({"rollout": history.rollout_id, "events": [_event_json(e) for e in recorded]})
        return 0
    show_timeline(console, narrate(recorded))
    for key, judged in folded.judged.items():
        show_verdicts(console, judged.verdicts, f"Claims ({key.replace(':', ', round ')})")
    if folded.concluded:
        show_end(console, folded.concluded, history.rollout_id)
    return 0


async def _run(
    console: Console, request: Callable[[Ports], Awaitable[RolloutRequested]], *, bare: bool, as_json: bool
) -> int:
    async with watching(console, as_json) as ports, prefect_beside(bare) as home:
        requested = await request(ports)
        ended = await (begin(ports, requested) if home is None else with_prefect(console, ports, requested, home))
    return report(console, [ended], as_json=as_json)


async def with_prefect(console: Console, ports: Ports, requested: RolloutRequested, home: PrefectHome) -> Rollout:
    """Plan and check while Prefect comes up, and go on inside a flow run before the host is changed.

    If Prefect does not come up, the rollout goes on without it: the record is the same.
    """
    history = await requested_history(ports, requested)
    await go_on(history, retrying, until=_changes_a_host)
    ahead = next_action(history.rollout)
    if ahead is None or not _changes_a_host(ahead):
        return await go_on(history, retrying)
    if not await home.answers():
        console.print(f"Prefect does not answer at {home.api_url}; going on without it", style="yellow")
        return await go_on(history, retrying)
    from flows.rollout import shown  # imports Prefect, which takes seconds: not before it is needed

    await shown(history, requested)
    return await go_on(history, retrying) if unfinished(history.rollout) else history.rollout


@asynccontextmanager
async def prefect_beside(bare: bool) -> AsyncIterator[PrefectHome | None]:
    """A Prefect server that is coming up beside the work; none for a bare run."""
    if bare:
        yield None
        return
    home = PrefectHome(Settings().data_dir / "prefect")
    await home.start()
    try:
        yield home
    finally:
        await home.stop()


def _changes_a_host(action: Action) -> bool:
    return action.kind in ("step", "verify")


@asynccontextmanager
async def watching(console: Console, as_json: bool) -> AsyncIterator[Ports]:
    """Ports whose events are shown live, unless the answer is to be JSON. SIGTERM cancels as Ctrl-C does: safely."""
    running = asyncio.current_task()
    if running is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    if as_json:
        async with wired(Settings()) as (ports, _):
            yield ports
        return
    with live(console) as watch:
        async with wired(Settings(), watch) as (ports, _):
            yield ports


def report(console: Console, ended: list[Rollout], *, as_json: bool) -> int:
    """How the rollouts ended; the highest of their exit codes."""
    codes = [rollout.concluded.exit_code if rollout.concluded else 1 for rollout in ended]
    if as_json:
        print_json([_rollout_json(rollout) for rollout in ended] if len(ended) != 1 else _rollout_json(ended[0]))
    else:
        for rollout in ended:
            if rollout.concluded and rollout.requested:
                show_end(console, rollout.concluded, rollout.requested.rollout)
        if not ended:
            console.print("nothing to recover: every rollout has ended")
    return max(codes, default=0)


def _rollout_json(rollout: Rollout) -> dict[str, Any]:
    requested, concluded = rollout.requested, rollout.concluded
    return {
        "rollout": requested.rollout if requested else None,
        "service": requested.service if requested else None,
        "purpose": requested.purpose if requested else None,
        "revision": requested.revision.digest if requested else None,
        "outcome": concluded.outcome if concluded else None,
        "summary": concluded.summary if concluded else None,
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


async def _unfinished(ports: Ports) -> list[str]:
    found = []
    for stream in await ports.events.streams("rollout-"):
        history = History(ports, stream.removeprefix("rollout-"))
        if unfinished(await history.load()):
            found.append(history.rollout_id)
    return found


async def _full_id(ports: Ports, start: str) -> str:
    """The one rollout whose id begins with `start`; `start` itself where there is none or more than one."""
    matching = [s.removeprefix("rollout-") for s in await ports.events.streams(f"rollout-{start}")]
    return matching[0] if len(matching) == 1 else start


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
