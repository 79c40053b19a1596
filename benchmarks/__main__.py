"""Run benchmarks, keep what they find, and write the table of docs/benchmarks.md.

python -m benchmarks [NAME] [OPTION ...]      without a name: all, one after the other
"""

import importlib
import sys
from collections.abc import Sequence

from benchmarks import page
from benchmarks.record import Row

SUITE = {
    "job": "job",
    "overhead": "overhead",
    "first-look": "first_look",
    "dead-start": "dead_start",
    "unchanged": "unchanged",
    "many-hosts": "many_hosts",
    "inspection": "inspection",
    "store": "store",
}
"""Name -> module with `main(words)`, which keeps its result and returns its rows."""

BESIDE = {"ratios": "ratios"}
"""What is run by its name alone: it keeps nothing."""


def run(name: str, words: Sequence[str]) -> list[Row]:
    rows: list[Row] = importlib.import_module(f"benchmarks.{(SUITE | BESIDE)[name]}").main(words)
    for row in rows:
        verdict = {True: "met", False: "NOT met", None: ""}[row.met]
        peers = "".join(f"\n    {tool}: {figure}" for tool, figure in row.peers.items())
        print(f"{row.what}\n    goal {row.goal}: {row.measured} {verdict}{peers}")
    if rows:
        page.rewrite()
    return rows


def main() -> None:
    name, words = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name and name not in SUITE | BESIDE:
        raise SystemExit(f"no benchmark `{name}`; there are {', '.join(SUITE | BESIDE)}")
    for one in [name] if name else SUITE:
        run(one, words)


if __name__ == "__main__":
    main()
