"""Reading a stream of 1,000 events again with its digests checked, beside Temporal's replayer on as many events.

python -m benchmarks replays [--pairs 7]
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import record
from benchmarks.options import count, is_trial
from benchmarks.peers import installed
from benchmarks.record import Row, sample
from benchmarks.store import contender, run
from benchmarks.store_contenders import READS
from state.store.migrate import upgrade

PEER = Path(__file__).resolve().parent / "peer/replay_temporal.py"
EVENTS, GOAL = 1000, 20.0


def main(words: Sequence[str]) -> list[Row]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks replays")
    parser.add_argument("--pairs", type=count, default=7, help="rounds (default 7)")
    asked = parser.parse_args(words)
    began_on = record.machine()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'store.db'}"
        asyncio.run(upgrade(url))
        argv = (str(installed("temporal") / "python"), str(PEER), str(READS))
        taken = [
            {
                "temporal": run(argv),
                "read": contender("read-interlock", url, EVENTS),
                "fold": contender("read-and-fold-interlock", url, EVENTS),
            }
            for _ in range(asked.pairs)
        ]

    def times(way: str, clock: str) -> str:
        return sample([one["temporal"][clock] / one[way][clock] for one in taken]).text("×", 1)

    def rate(way: str) -> str:
        return sample([EVENTS * READS / one[way]["wall"] for one in taken]).text("events/s", 0)

    median = sample([one["temporal"]["wall"] / one["read"]["wall"] for one in taken]).median
    row = Row(
        f"re-reading a stream of {EVENTS} events, digests checked, SQLite",
        f"≥ {GOAL:g} × Temporal's replayer",
        f"{rate('read')}, {times('read', 'wall')}; folded too {rate('fold')}, {times('fold', 'wall')}",
        peers={"Temporal's replayer, as it comes": rate("temporal")},
        met=median >= GOAL,
        note=f"by processor time {times('read', 'cpu')}; each reading is a first one: all rows read, every digest "
        f"computed, nothing remembered. Temporal's replayer runs the workflow's own code beside it, which is nearer to "
        "folding than to reading alone.",
    )
    record.write("replays", began_on, [row], {"rounds": taken}, rounds=asked.pairs, trial=is_trial(parser, asked))
    return [row]
