"""The report as a page on a terminal: claims with what would refute them, and times beside each other as bars."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deployments.page import show_timeline, show_verdicts
from deployments.report.words import OUTCOMES, SIDES
from state.rollout_report import Level, Proof, Report

STYLES = {"held": "green", "refuted": "bold red", "inconclusive": "yellow"}
BARS = " ▁▂▃▄▅▆▇█"


def show_report(console: Console, report: Report) -> None:
    good = report.exit_code == 0
    style = "green" if good else "bold red" if report.exit_code == 4 else "yellow"
    console.print(Text.assemble((report.outcome.upper(), style), f"  {report.service}: {report.summary}"))
    asked = f"{report.purpose} {report.rollout} → revision {report.revision}, by {report.actor}: {report.reason}"
    console.print(Text(asked, style="dim"))
    for proof in report.proofs:
        _show_proof(console, proof)
    _show_times(console, report)
    for one in report.undecidable:
        console.print(Text(f"not decidable here: {one.claim}: {one.why}" + (f"; {one.instead}" if one.instead else "")))
    console.print(Text("\nTimeline", style="bold"))
    show_timeline(console, report.timeline)
    for argv in report.next_argvs:
        console.print(f"next, by hand: {argv}", highlight=False, markup=False)


def _show_proof(console: Console, proof: Proof) -> None:
    verdicts = [verdict for _, own in proof.planes for verdict in own]
    show_verdicts(console, verdicts, f"Claims about {SIDES[proof.side]}: {proof.outcome}", whole=True)
    for level in proof.levels:
        if len(level.samples) > 1:
            console.print(_samples(level))
    for note in proof.notes:
        console.print(Text(note, style="dim"))


def _samples(level: Level) -> Text:
    """Every sample in its order as a bar, those of before in front."""
    values = [*level.baseline, *level.samples]
    low, high = min(values), max(values)
    signs = [BARS[1 + round((len(BARS) - 2) * ((v - low) / (high - low) if high > low else 1.0))] for v in values]
    cut = len(level.baseline)
    before = f"before {''.join(signs[:cut])}  after " if cut else ""
    text = Text(f"  {level.claim:24} {before}{''.join(signs[cut:])}  {low:.4g} to {high:.4g} {level.unit}")
    return text.append(f"  {OUTCOMES[level.outcome]}", style=STYLES[level.outcome])


def _show_times(console: Console, report: Report) -> None:
    if report.outage:
        back = [("back: " if phase.side == "old" else "") + phase.name for phase in report.outage]
        seconds = [phase.seconds for phase in report.outage]
        _show_bars(console, "From the stop to the proof", back, seconds)


def _show_bars(console: Console, title: str, names: Sequence[str], seconds: Sequence[float]) -> None:
    longest = max(seconds, default=0.0) or 1.0
    table = Table.grid(padding=(0, 1))
    for name, value in zip(names, seconds, strict=True):
        table.add_row(Text(f"  {name}"), Text(f"{value:.2f} s", justify="right"), "█" * round(40 * value / longest))
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)
