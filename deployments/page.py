"""Pages for people: plan, claims with their evidence, end, history. Rich tables; no colour off a terminal."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from state.claims import PLANES, Claim, Verdict
from state.events import HoldOpened, RolloutConcluded
from state.judging import refuting
from state.narrative import Line, Mark
from state.plan import Plan
from state.traffic_time import remarks

MARKS: dict[Mark, tuple[str, str]] = {"done": ("✓", "green"), "failed": ("✗", "red"), "note": ("·", "cyan")}
OUTCOMES = {"held": ("✓ held", "green"), "refuted": ("✗ refuted", "bold red"), "inconclusive": ("? open", "yellow")}


def show_plan(console: Console, plan: Plan, digest: str) -> None:
    """What will happen, and why it is safe."""
    console.print(
        f"[bold]Plan[/] for [bold]{escape(plan.service)}[/] → revision {plan.revision[:12]}   (plan {digest[:12]})"
    )
    if plan.unchanged:
        console.print(f"  nothing to do: {escape(plan.unchanged)}")
        return
    for number, sentence in enumerate(plan.changes, 1):
        console.print(Padding(Text(f"{number}. {sentence}"), (0, 0, 0, 2)))
    known = (
        f"about {plan.dark_s:.0f} s, as in {plan.dark_basis}"
        if plan.dark_s is not None
        else "not known yet for this service"
    )
    console.print(f"  without an answer meanwhile: {escape(known)}", highlight=False)
    previous = "the old revision is put back and proven by its own claims" if plan.previous_good else (
        "files and drivers are put back; nothing runs now that could be proven again"
    )  # fmt: skip
    console.print(f"  if a claim is refuted: {previous}", highlight=False)
    console.print(f"  claims: {len(plan.claims)} ({_by_plane(plan.claims)})", highlight=False)
    for remark in remarks(plan):
        console.print(Padding(Text(f"note: {remark}", style="yellow"), (0, 0, 0, 2)))
    for one in plan.undecidable:
        instead = f" ({one.instead})" if one.instead else ""
        console.print(Padding(Text(f"not decidable here: {one.claim}: {one.why}{instead}", style="dim"), (0, 0, 0, 2)))


def show_claims(console: Console, claims: Sequence[Claim]) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="Claims to be proven", title_justify="left")
    for column in ("plane", "claim", "statement", "read from", "needs", "refuted by"):
        table.add_column(column, overflow="fold")
    for claim in claims:
        sample = f"{claim.minimum_sample}" + (f" at {claim.confidence:.0%}" if claim.confidence is not None else "")
        table.add_row(claim.plane, claim.name, Text(claim.statement), claim.source, sample, refuting(claim))
    console.print(table)


def show_verdicts(console: Console, verdicts: Sequence[Verdict], title: str, *, whole: bool = False) -> None:
    """The claims table: outcome, statement, and the evidence in words, plane by plane; `whole` adds what would refute
    each, and the likely causes of what is not held."""
    table = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False, expand=True
    )
    table.add_column("plane", no_wrap=True, width=12)
    table.add_column("verdict", no_wrap=True, width=9)
    table.add_column("claim", overflow="fold", ratio=4)
    table.add_column("evidence", overflow="fold", ratio=5)
    shown = ""
    for verdict in sorted(verdicts, key=lambda v: PLANES.index(v.plane)):
        word, style = OUTCOMES[verdict.outcome]
        evidence = Text(_clipped(verdict.reason, 200))
        if verdict.remedy:
            evidence.append(f"\n→ {verdict.remedy}", style="italic")
        for number, cause in enumerate(verdict.causes if whole else (), 1):
            evidence.append(f"\n  {number}. {cause.cause}; to tell: {cause.check}", style="dim")
        if whole and verdict.refuting:
            evidence.append(f"\nrefuted by {verdict.refuting}", style="dim")
        plane, shown = "" if verdict.plane == shown else verdict.plane, verdict.plane
        table.add_row(plane, Text(word, style=style), Text(verdict.statement), evidence)
    console.print(table)


def show_line(console: Console, line: Line) -> None:
    """One line of the timeline; what is long goes on under its own beginning."""
    sign, style = MARKS[line.mark]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9, justify="right", no_wrap=True)
    grid.add_column(width=1)
    grid.add_column(width=TITLE_COLUMNS, overflow="fold")
    grid.add_column(overflow="fold")
    grid.add_row(
        Text(f"{line.after_s:.1f} s", style="dim"),
        Text(sign, style=style),
        Text(line.title, style="bold"),
        Text(_clipped(line.text, 400)),
    )
    console.print(grid)


TITLE_COLUMNS = 19


def show_timeline(console: Console, lines: Iterable[Line]) -> None:
    for line in lines:
        show_line(console, line)


def show_hold(console: Console, hold: HoldOpened, rollout: str) -> None:
    """The question, what is open and what is known of it, how it is answered, and what follows if nobody does."""
    console.print(Text.assemble(("ASKS", "bold yellow"), f"  {hold.question}"))
    for verdict in hold.open:
        known = Text.assemble(("? ", "yellow"), f"{verdict.statement} ({verdict.claim}): {_clipped(verdict.reason)}")
        console.print(Padding(known, (0, 0, 0, 2)))
        if verdict.refuting:
            console.print(Padding(Text(f"would be refuted by: {_clipped(verdict.refuting)}"), (0, 0, 0, 4)))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=9)
    grid.add_column(overflow="fold")
    grid.add_row("  answer", f"interlock answer {rollout} promote --reason TEXT")
    grid.add_row("", f"interlock answer {rollout} rollback --reason TEXT")
    grid.add_row("  who", Text(hold.may_answer))
    grid.add_row("  until", f"{hold.deadline}; with no answer by then: {hold.default}")
    console.print(grid)


def show_end(console: Console, concluded: RolloutConcluded, rollout: str) -> None:
    style = "green" if concluded.exit_code == 0 else "bold red" if concluded.exit_code == 4 else "yellow"
    text = Text.assemble((concluded.outcome.upper(), style), f"  {concluded.summary}")
    console.print(text)
    if concluded.next_argvs:
        console.print("Next, by hand:")
        for argv in concluded.next_argvs:
            console.print(f"  {argv}", highlight=False, markup=False)
    console.print(f"rollout {rollout}: `interlock show {rollout}` tells it whole", style="dim", highlight=False)


def _by_plane(claims: Sequence[Claim]) -> str:
    counts = {plane: sum(c.plane == plane for c in claims) for plane in PLANES}
    return ", ".join(f"{plane} {count}" for plane, count in counts.items() if count)


def _clipped(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
