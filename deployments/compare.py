"""`interlock compare`: the claims of two rollouts side by side."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deployments.run import print_json
from flows.history import History, full_id
from flows.ports import Ports
from flows.settings import Settings
from flows.wiring import wired
from state.claims import Outcome
from state.comparison import CONFIDENCE, Compared, Figure, compare, differences
from state.errors import NotFound
from state.rollout import Rollout
from state.store.connect import Stores
from state.store.figures import kept_before
from state.store.projections import catch_up
from state.store.read_models import PROJECTIONS

STYLES = {"held": "green", "refuted": "bold red", "inconclusive": "yellow"}


async def compare_rollouts(console: Console, first: str, second: str, *, as_json: bool) -> int:
    """Exit 1 if a claim that the first held is refuted by the second. Without `second`, `first` is held against the
    newest rollout before it that measured the same: service, model, load and context length."""
    async with wired(Settings()) as (ports, stores):
        newer = await _rollout(ports, second or first)
        older = await _rollout(ports, first if second else await _kept(stores, newer))
    rows, notes = compare(older, newer), list(differences(older, newer))
    worse = any(row.worse for row in rows)
    if as_json:
        print_json({"rollouts": [_id(older), _id(newer)], "differences": notes, "worse": worse,
                    "confidence": CONFIDENCE, "claims": [_json(row) for row in rows]})  # fmt: skip
    else:
        _show(console, older, newer, rows, notes)
    return 1 if worse else 0


async def _rollout(ports: Ports, name: str) -> Rollout:
    """Raises NotFound for one that does not exist, or that judged nothing."""
    found = await History(ports, await full_id(ports, name)).load()
    if not any(judged.side == "new" for judged in found.judged.values()):
        raise NotFound("judgement of rollout", _id(found), hint="nothing was proven: see `interlock show`")
    return found


async def _kept(stores: Stores, newer: Rollout) -> str:
    await catch_up(stores.engine, PROJECTIONS)
    stream = await kept_before(stores.engine, f"rollout-{_id(newer)}")
    if stream is None:
        raise NotFound("earlier figure like one of", _id(newer), hint="name both rollouts: `interlock history`")
    return stream.removeprefix("rollout-")


def _id(rollout: Rollout) -> str:
    return rollout.requested.rollout if rollout.requested else ""


def _show(console: Console, older: Rollout, newer: Rollout, rows: Sequence[Compared], notes: Sequence[str]) -> None:
    ending = [r.concluded.outcome if r.concluded else "unfinished" for r in (older, newer)]
    console.print(f"{_id(older)} ({ending[0]}) → {_id(newer)} ({ending[1]})")
    for note in notes:
        console.print(Text(f"  {note}"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("claim", "first", "second", f"change ({CONFIDENCE:.0%} interval)"):
        table.add_column(name, overflow="fold")
    for row in rows:
        first, second = (_cell(o, f) for o, f in zip((row.first, row.second), row.figures, strict=True))
        table.add_row(f"{row.claim}, {row.unit}" if row.unit else row.claim, first, second, _change(row))
    console.print(table)


def _cell(outcome: Outcome | None, figure: Figure | None) -> Text:
    if outcome is None:
        return Text("not claimed", style="dim")
    shown = Text(outcome, style=STYLES[outcome])
    if figure is None:
        return shown
    interval = f" [{figure.low:.4g}, {figure.high:.4g}]" if figure.low is not None else ""
    return shown.append(f" {figure.value:.4g}{interval} of {figure.sample}", style="default")


def _change(row: Compared) -> str:
    if row.change is None:
        return row.why
    return f"{row.change.middle:+.1%} [{row.change.low:+.1%}, {row.change.high:+.1%}]"


def _json(row: Compared) -> dict[str, Any]:
    sides = zip((row.first, row.second), row.figures, strict=True)
    return {
        "claim": row.claim,
        "plane": row.plane,
        "unit": row.unit,
        "rollouts": [
            {"outcome": outcome, **({"value": f.value, "low": f.low, "high": f.high, "sample": f.sample} if f else {})}
            for outcome, f in sides
        ],
        "change": row.change._asdict() if row.change else None,
        "why": row.why,
        "worse": row.worse,
    }
