"""Commands about the past: the list of rollouts, replay, and the store that holds them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from deployments.page import show_timeline
from deployments.run import print_json
from flows.history import History
from flows.replay import Difference, Replayed, rejudge, replay_all
from flows.settings import Settings
from flows.wiring import wired
from state.errors import NotFound, UsageInvalid
from state.narrative import narrate
from state.store import migrate
from state.store.projections import catch_up, rows
from state.store.read_models import PROJECTIONS
from state.store.tables import rollouts
from state.store.verification import verify_history


async def history(console: Console, service: str, *, as_json: bool, verify: bool) -> int:
    """The rollouts, newest last; with `verify` every digest is checked first."""
    async with wired(Settings()) as (ports, stores):
        if verify:
            checked = await verify_history(ports.events)
            for fault in checked.faults:
                console.print(f"[red]✗[/] {fault}", highlight=False)
            if checked.faults:
                return 1
            if not as_json:
                console.print(f"{checked.events} events in {checked.streams} streams, every digest whole")
        await catch_up(stores.engine, PROJECTIONS)
        found = await rows(stores.engine, rollouts, **({"service": service} if service else {}))
    found = tuple(sorted(found, key=lambda row: row["requested_at"]))
    if service and not found:
        raise NotFound("service", service, hint="`interlock history` lists all")
    if as_json:
        print_json([{name: _plain(value) for name, value in row.items()} for row in found])
        return 0
    for row in found:
        console.print(_row(row))
    if not found:
        console.print("no rollout yet")
    return 0


def _row(row: Mapping[str, Any]) -> Text:
    good = row["exit_code"] == 0
    what = f"{row['purpose']} {row['rollout']} → {row['revision'][:12]}"
    head = f"{row['requested_at']:%Y-%m-%d %H:%M:%S}  {row['service']}  {what}  "
    ending = Text(row["state"], style="green" if good else "yellow" if row["exit_code"] != 4 else "bold red")
    dark = f"; dark for {row['dark_s']:.1f} s" if row["dark_s"] is not None else ""
    return Text(head).append_text(ending).append(f"\n    {row['summary'] or row['error'] or row['reason']}{dark}")


async def replay(console: Console, rollout: str, *, everything: bool, as_json: bool) -> int:
    """One rollout narrated and judged anew, or all: digests, projections, judgements. Exit 1 if anything differs."""
    if bool(rollout) == everything:
        raise UsageInvalid("Name one rollout, or give --all", hint="`interlock history` lists them")
    async with wired(Settings()) as (ports, stores):
        if everything:
            return _report(console, await replay_all(ports, stores), as_json)
        found = History(ports, rollout)
        await found.load()
        if not as_json:
            show_timeline(console, narrate(await found.recorded()))
        count = 0
        changed: list[Difference] = []
        async for one, differing in rejudge(ports, rollout):
            count, changed = count + one, [*changed, *differing]
    return _report(console, Replayed(1, found.version, (), (), count, tuple(changed)), as_json)


def _report(console: Console, replayed: Replayed, as_json: bool) -> int:
    if as_json:
        print_json({**asdict(replayed), "equal": replayed.equal})
        return 0 if replayed.equal else 1
    for sentence in (*replayed.faults, *replayed.rebuilt):
        console.print(f"[red]✗[/] {sentence}", highlight=False)
    for d in replayed.differences:
        console.print(f"[red]✗[/] {d.rollout}: {d.claim} was {d.then}, today {d.now}: {d.reason}", highlight=False)
    if replayed.faults:
        return 1
    console.print(
        f"{replayed.events} events in {replayed.streams} streams: digests whole; projections "
        f"{'rebuilt, they differed' if replayed.rebuilt else 'rebuild equal'}; {replayed.rejudged} judgements "
        f"{'differ' if replayed.differences else 'judge equal today'}"
    )
    return 0 if replayed.equal else 1


async def db_upgrade() -> int:
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    print(f"the event store is at schema {await migrate.upgrade(settings.store_url)}")
    return 0


async def db_check() -> int:
    found = await migrate.check(Settings().store_url)
    for difference in found:
        print(difference)
    print("the schema differs" if found else "the schema is this release's")
    return 1 if found else 0


def _plain(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value
