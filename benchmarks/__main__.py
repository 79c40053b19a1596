"""Run benchmarks, keep what they find, and write the table of docs/benchmarks.md.

python -m benchmarks [NAME] [OPTION ...]      without a name: all, one after the other
"""

import importlib
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import page, record
from benchmarks.options import Missing
from benchmarks.peers import PeerMissing
from benchmarks.record import NotKept, Row
from benchmarks.stage import ContenderFailed
from state.errors import InterlockError

SUITE = {
    "job": "job",
    "overhead": "overhead",
    "first-look": "first_look",
    "dead-start": "dead_start",
    "unchanged": "unchanged",
    "many-hosts": "many_hosts",
    "inspection": "inspection",
    "store": "store",
    "replays": "replays",
    "large-store": "large_store",
}
"""Name -> module with `main(words)`, which keeps its result and returns its rows."""

BESIDE = {"ratios": "ratios"}
"""What is run by its name alone: it keeps nothing."""


def run(name: str, words: Sequence[str]) -> None:
    """Run one, print what it found, and renew the table. Raises SystemExit with a sentence where it cannot be run."""
    try:
        record.writable()
        rows: list[Row] = importlib.import_module(f"benchmarks.{(SUITE | BESIDE)[name]}").main(words)
    except (InterlockError, ContenderFailed, Missing, NotKept, PeerMissing) as error:
        raise SystemExit(f"{name} was not measured: {error}") from error
    for row in rows:
        verdict = {True: "met", False: "NOT met", None: ""}[row.met]
        peers = "".join(f"\n    {tool}: {figure}" for tool, figure in row.peers.items())
        print(f"{row.what}\n    goal {row.goal}: {row.measured} {verdict}{peers}")
    try:
        page.rewrite()
    except (NotKept, ValueError) as error:
        raise SystemExit(f"the table was not written: {error}") from error


def run_all() -> None:
    """Each in a process of its own: none inherits another's memory, and one that fails stops no other."""
    failed = [name for name in SUITE if subprocess.run((sys.executable, "-m", "benchmarks", name)).returncode]
    if failed:
        raise SystemExit(f"not measured: {', '.join(failed)}")


def main() -> None:
    name, words = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name.startswith("-"):
        raise SystemExit(f"say which benchmark `{name}` is for: {', '.join(SUITE | BESIDE)}")
    if not name:
        run_all()
    elif name in SUITE | BESIDE:
        run(name, words)
    else:
        raise SystemExit(f"no benchmark `{name}`; there are {', '.join(SUITE | BESIDE)}")


if __name__ == "__main__":
    main()
