"""How long `interlock inspect` takes for a large journal, beside `grep -c` of one fixed string on the same file.

    python benchmarks/inspect_journal.py [--size 1000] [--pairs 5] [--form short] [--form json]

Both run in turn on a file in the page cache, so that a busy machine slows both. Times are wall-clock and processor
seconds of the whole process, start-up and the second process included, which inspection uses where a processor is
idle. The peak is that of the larger process. Nothing is written outside a temporary folder.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.journal import FORMS, write_journal  # noqa: E402

FIXED = "accept len: 1.00"
GOAL_RATIO, GOAL_MB = 10.0, 200


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of one process, and its peak memory in MB."""

    wall: float
    cpu: float
    peak_mb: float
    output: bytes


def run(argv: Sequence[str]) -> Run:
    """Raises SystemExit for a program that fails."""
    with tempfile.NamedTemporaryFile("r") as report, tempfile.TemporaryFile() as out:
        words = (sys.executable, "-S", str(HERE / "launched.py"), report.name, *argv)
        done = subprocess.run(words, check=False, stdout=out, cwd=HERE.parent, env={**os.environ, "LC_ALL": "C"})
        if done.returncode not in (0, 1):
            raise SystemExit(f"{argv[0]} ended with {done.returncode}")
        out.seek(0)
        return Run(**json.load(report), output=out.read())


def measure(form: str, size_mb: int, pairs: int, folder: Path) -> bool:
    """Prints the figures for one form; whether they are within the goals."""
    path = folder / f"journal.{form}"
    lines = write_journal(path, size_mb * 1_000_000, form)
    grep = ("grep", "-c", "-F", FIXED, str(path))
    inspect = (sys.executable, "-m", "deployments.inspect", "--json", str(path))
    report = json.loads(run(inspect).output)
    run(grep)
    taken = [(run(grep), run(inspect)) for _ in range(pairs)]
    greps, inspects = [pair[0] for pair in taken], [pair[1] for pair in taken]
    cpu = statistics.median(i.cpu / g.cpu for g, i in taken)
    wall = statistics.median(i.wall / g.wall for g, i in taken)
    peak = max(one.peak_mb for one in inspects)
    print(
        f"| {form} | {size_mb} MB, {lines:,} lines | {_median(greps)} | {_median(inspects)} | {wall:.1f} | {cpu:.1f} "
        f"| {peak:.0f} MB | {_what(report)} |"
    )
    path.unlink()
    return wall <= GOAL_RATIO and peak <= GOAL_MB


def _median(runs: Sequence[Run]) -> str:
    wall, cpu = statistics.median(one.wall for one in runs), statistics.median(one.cpu for one in runs)
    return f"{wall:.2f} / {cpu:.2f} s"


def _what(report: dict[str, object]) -> str:
    boots = report["boots"]
    assert isinstance(boots, list)
    return f"{len(boots)} boots, {sum(boot['speculation']['samples'] for boot in boots):,} acceptance records"


def machine() -> str:
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, load {load}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1000, metavar="MB", help="of each file (default 1000)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--form", choices=FORMS, action="append", help="may be repeated (default: short and json)")
    given = parser.parse_args(argv)
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; wall / processor seconds, medians of {given.pairs} pairs\n")
    print("| form | file | `grep -c` | `inspect` | ratio, wall | ratio, processor | peak | report |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        kept = [measure(form, given.size, given.pairs, Path(folder)) for form in given.form or ("short", "json")]
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    raise SystemExit(main())
