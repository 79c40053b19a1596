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
from benchmarks.inspect_journal import FIXED, GOAL_MB, GOAL_RATIO, run
from benchmarks.journal import write_journal
from benchmarks.record import Row, sample


def measure(form: str, size_mb: int, pairs: int, folder: Path) -> Row:
    path = folder / f"journal.{form}"
    write_journal(path, size_mb * 1_000_000, form)
    grep = ("grep", "-c", "-F", FIXED, str(path))
    inspect = (sys.executable, "-m", "deployments.inspect", "--json", str(path))
    for words in (inspect, grep):  # into the page cache
        run(words)
    taken = [(run(grep), run(inspect)) for _ in range(pairs)]
    path.unlink()
    ratio = sample([ours.wall / theirs.wall for theirs, ours in taken])
    peak = max(ours.peak_mb for _, ours in taken)
    return Row(
        f"inspection of a journal of {size_mb} MB ({form})",
        f"≤ {GOAL_RATIO:g} × `grep -c` of one fixed string, < {GOAL_MB} MB",
        f"{statistics.median(ours.wall for _, ours in taken):.2f} s, {ratio.text('×', 1)}, {peak:.0f} MB each process",
        floor=f"grep {statistics.median(theirs.wall for theirs, _ in taken):.2f} s",
        met=ratio.median <= GOAL_RATIO and peak < GOAL_MB,
    )


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="inspection")
    parser.add_argument("--size", type=int, default=1000, metavar="MB")
    parser.add_argument("--pairs", type=int, default=3)
    asked = parser.parse_args(words)
    on = record.machine()
    with tempfile.TemporaryDirectory() as folder:
        made = [measure(form, asked.size, asked.pairs, Path(folder)) for form in ("short", "json")]
    record.write("inspection", on, made, {})
    return made
