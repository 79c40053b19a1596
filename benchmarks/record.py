"""What a benchmark found: one row of `docs/benchmarks.md` each, kept as JSON with the machine and the date."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One claim of the architecture's table of budgets, and what was measured for it.

    `measured`, `floor` and each of `peers` are texts for people, figures with their units; `met` is None for a row that
    has no goal of its own. `note` says the reason where a goal is not met, and under which conditions it was measured.
    """

    what: str
    goal: str
    measured: str
    floor: str = ""
    peers: Mapping[str, str] = field(default_factory=dict)
    met: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Repeated measurements of one figure."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles, or the extremes of fewer than four values."""
        if len(self.values) < 4:
            return min(self.values), max(self.values)
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    def text(self, unit: str = "s", digits: int = 2) -> str:
        low, high = self.spread
        return f"{self.median:.{digits}f} {unit} ({low:.{digits}f}–{high:.{digits}f})"


def sample(values: Sequence[float]) -> Sample:
    """Raises ValueError for none."""
    if not values:
        raise ValueError("a figure needs a measurement")
    return Sample(tuple(values))


def machine() -> str:
    """Processors, architecture, interpreter and load of this machine, as a table says it."""
    busy = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} × {_processor()}, {platform.machine()}, "
        f"Python {platform.python_version()}, load {busy:.1f} before"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "processor")


class NotKept(Exception):
    """The folder of results cannot be written, or one of them not be read; the sentence names which."""


def writable() -> None:
    """Raises NotKept, before anything is measured, where no result could be kept."""
    RESULTS.mkdir(exist_ok=True)
    if not os.access(RESULTS, os.W_OK):
        raise NotKept(f"{RESULTS} cannot be written, and results are kept there")


def write(
    name: str, began_on: str, rows: Sequence[Row], runs: Mapping[str, Any], *, rounds: int, trial: bool = False
) -> None:
    """Keep the rows and the single runs of benchmark `name`; `began_on` is `machine()` from before it began. A trial,
    which measured less than the whole, is not kept: it would stand in the place of one that did."""
    if trial:
        print(f"a trial: the table keeps the whole `make bench BENCH={name}`", file=sys.stderr)
        return
    kept = {
        "benchmark": name,
        "machine": began_on,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "rounds": rounds,
        "rows": [asdict(row) for row in rows],
        "runs": runs,
    }
    text = json.dumps(kept, ensure_ascii=False, indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def results() -> list[Mapping[str, Any]]:
    """Every kept result, by name. Raises NotKept that names one that is no JSON."""
    return [_read(path) for path in sorted(RESULTS.glob("*.json"))]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotKept(f"{path} is no JSON ({error}): measure it again, or remove it") from error
    return found
