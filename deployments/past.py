"""Commands about the past: the list of rollouts, replay, and the store that holds them."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from deployments.page import show_timeline
from deployments.run import print_json
from flows.history import History, full_id, stream_of
from flows.ports import Ports
from flows.replay import Difference, Replayed, rejudge, replay_all
from flows.settings import Settings
from flows.wiring import wired
from state.errors import NotFound, UsageInvalid
from state.narrative import narrate
from state.store import migrate
from state.store.connect import Stores
from state.store.listing import After, rollout_page
from state.store.projections import catch_up, rows
from state.store.read_models import PROJECTIONS
from state.store.tables import rollouts
from state.store.verification import Verification, verify_history


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rollouts to list: the newest `limit` (0: all) of a service (empty: of all), older than another one's id or
    its beginning (empty: the newest of all)."""

    service: str = ""
    limit: int = 0
    before: str = ""


async def history(console: Console, wanted: Wanted, *, as_json: bool, verify: bool) -> int:
    """The rollouts, newest last; with `verify` every digest is checked first, and a fault is exit 1."""
    async with wired(Settings()) as (ports, stores):
        checked = await verify_history(ports.events) if verify else None
        found, more = ((), False) if checked and checked.faults else await _listed(ports, stores, wanted)
    if more:
        print(f"older ones are left out: --before {found[0]['rollout']}, or --limit 0 for all", file=sys.stderr)
    if as_json:
        plain = [{name: _plain(value) for name, value in row.items()} for row in found]
        print_json({**_checked_json(checked), "rollouts": plain} if checked else plain)
    else:
        _show_history(console, checked, found)
    return 1 if checked and checked.faults else 0


async def _listed(ports: Ports, stores: Stores, wanted: Wanted) -> tuple[Sequence[Mapping[str, Any]], bool]:
    """The page, oldest first, and whether there are older ones."""
    await catch_up(stores.engine, PROJECTIONS)
    after = await _place(ports, stores, wanted.before) if wanted.before else None
    at_most = wanted.limit + 1 if wanted.limit else None
    found = await rollout_page(stores.engine, at_most, after, service=wanted.service or None)
    if wanted.service and not found and not after:
        raise NotFound("service", wanted.service, hint="`interlock history` lists all")
    page = found[: wanted.limit or None]
    return page[::-1], len(page) < len(found)


async def _place(ports: Ports, stores: Stores, before: str) -> After:
    (row,) = await rows(stores.engine, rollouts, stream=stream_of(await full_id(ports, before)))
    return After(row["requested_at"], row["stream"])


def _checked_json(checked: Verification) -> dict[str, Any]:
    return {"streams": checked.streams, "events": checked.events, "faults": [str(fault) for fault in checked.faults]}


def _show_history(console: Console, checked: Verification | None, found: Sequence[Mapping[str, Any]]) -> None:
    for fault in checked.faults if checked else ():
        _show_fault(console, str(fault))
    if checked and checked.faults:
        return
    if checked:
        console.print(f"{checked.events} events in {checked.streams} streams, every digest whole")
    for row in found:
        console.print(_row(row))
    if not found:
        console.print("no rollout yet")


def _show_fault(console: Console, sentence: str) -> None:
    console.print(Text.assemble(("✗ ", "red"), sentence), soft_wrap=True)


def _row(row: Mapping[str, Any]) -> Text:
    good = row["exit_code"] == 0
    what = f"{row['purpose']} {row['rollout']} → {row['revision'][:12]}"
    head = f"{row['requested_at']:%Y-%m-%d %H:%M:%S}  {row['service']}  {what}  "
    ending = Text(row["state"], style="green" if good else "yellow" if row["exit_code"] != 4 else "bold red")
    dark = f"; dark for {row['dark_s']:.1f} s" if row["dark_s"] is not None else ""
    line = Text(head).append_text(ending).append(f"\n    {row['summary'] or row['error'] or row['reason']}{dark}")
    if row["quarantined"]:
        line.append(f"\n    in quarantine until `interlock gpu clear {row['rollout']} ADDRESS`: {row['quarantined']}")
    return line


async def replay(console: Console, rollout: str, *, everything: bool, as_json: bool) -> int:
    """One rollout narrated and judged anew, or all: digests, projections, judgements. Exit 1 if anything differs."""
    if bool(rollout) == everything:
        raise UsageInvalid("Name one rollout, or give --all", hint="`interlock history` lists them")
    async with wired(Settings()) as (ports, stores):
        if everything:
            return _report(console, await replay_all(ports, stores), as_json)
        found = History(ports, await full_id(ports, rollout))
        await found.load()
        if not as_json:
            show_timeline(console, narrate(await found.recorded()))
        count = 0
        changed: list[Difference] = []
        async for one, differing in rejudge(ports, found.rollout_id):
            count, changed = count + one, [*changed, *differing]
    return _report(console, Replayed(1, found.version, (), (), count, tuple(changed)), as_json)


def _report(console: Console, replayed: Replayed, as_json: bool) -> int:
    if as_json:
        print_json({**asdict(replayed), "equal": replayed.equal})
        return 0 if replayed.equal else 1
    for sentence in (*replayed.faults, *replayed.rebuilt):
        _show_fault(console, sentence)
    for d in replayed.differences:
        _show_fault(console, f"{d.rollout}: {d.claim} was {d.then}, today {d.now}: {d.reason}")
    if replayed.faults:
        return 1
    console.print(
        f"{replayed.events} events in {replayed.streams} streams: digests whole; projections "
        f"{'rebuilt, they differed' if replayed.rebuilt else 'rebuild equal'}; {replayed.rejudged} judgements "
        f"{'differ' if replayed.differences else 'judge equal today'}"
    )
    return 0 if replayed.equal else 1


async def db_upgrade(*, as_json: bool) -> int:
    settings = Settings()
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageInvalid(
            f"Cannot make the data directory {settings.data_dir}: {error.strerror}", hint="set INTERLOCK_DATA_DIR"
        ) from error
    schema = await migrate.upgrade(settings.store_url)
    if as_json:
        print_json({"schema": schema})
    else:
        print(f"the event store is at schema {schema}")
    return 0


async def db_check(*, as_json: bool) -> int:
    """Exit 1 if the schema is not this release's."""
    found = await migrate.check(Settings().store_url)
    if as_json:
        print_json({"differences": [str(difference) for difference in found]})
    else:
        for difference in found:
            print(difference)
        print("the schema differs" if found else "the schema is this release's")
    return 1 if found else 0


def _plain(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value
