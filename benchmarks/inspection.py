"""Inspection of a large journal beside grep: the row of the table; `inspect_journal.py` has the whole of it.

python -m benchmarks inspection [--size 1000] [--pairs 3]
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import record
from benchmarks.inspect_journal import FIXED, GOAL_MB, GOAL_RATIO, Run, run
from benchmarks.journal import write_journal
from benchmarks.options import count, is_trial, needs
from benchmarks.peers import install, installed
from benchmarks.record import Row, sample

Round = tuple[Run, Run, Run]
TOOLS = ("grep", "inspect", "ripgrep")


def measure(form: str, size_mb: int, pairs: int, folder: Path) -> tuple[Row, list[Round]]:
    """The row, and the rounds: grep's run, ours and ripgrep's."""
    path = folder / f"journal.{form}"
    write_journal(path, size_mb * 1_000_000, form)
    grep = ("grep", "-c", "-F", FIXED, str(path))
    inspect = (sys.executable, "-m", "deployments.inspect", "--json", str(path))
    ripgrep = (str(installed("ripgrep") / "rg"), "-c", "-F", FIXED, str(path))
    for words in (inspect, grep, ripgrep):  # into the page cache
        run(words)
    taken = [(run(grep), run(inspect), run(ripgrep)) for _ in range(pairs)]
    path.unlink()
    ratio = sample([ours.wall / theirs.wall for theirs, ours, _ in taken])
    seconds = [statistics.median(one.wall for one in tool) for tool in zip(*taken, strict=True)]
    peak = max(ours.peak_mb for _, ours, _ in taken)
    row = Row(
        f"inspection of a journal of {size_mb} MB ({form})",
        f"≤ {GOAL_RATIO:g} × `grep -c` of one fixed string, < {GOAL_MB} MB",
        f"{seconds[1]:.2f} s, {ratio.text('×', 1)}, {peak:.0f} MB each process",
        floor=f"grep {seconds[0]:.2f} s",
        peers={"ripgrep": f"{seconds[2]:.2f} s"},
        met=ratio.median <= GOAL_RATIO and peak < GOAL_MB,
    )
    return row, taken


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="inspection")
    parser.add_argument("--size", type=count, default=1000, metavar="MB")
    parser.add_argument("--pairs", type=count, default=3)
    asked = parser.parse_args(words)
    needs("grep")
    install("ripgrep")
    on = record.machine()
    with tempfile.TemporaryDirectory() as folder:
        found = {form: measure(form, asked.size, asked.pairs, Path(folder)) for form in ("short", "json")}
    made = [row for row, _ in found.values()]
    kept = {form: [_seconds(one) for one in rounds] for form, (_, rounds) in found.items()}
    record.write("inspection", on, made, kept, rounds=asked.pairs, trial=is_trial(parser, asked))
    return made


def _seconds(taken: Round) -> dict[str, dict[str, float]]:
    return {
        name: {"wall": one.wall, "cpu": one.cpu, "peak_mb": one.peak_mb} for name, one in zip(TOOLS, taken, strict=True)
    }
