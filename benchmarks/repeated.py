"""The command of a benchmark that measures rounds, and keeps each run of them."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks import record
from benchmarks.options import count, is_trial
from benchmarks.record import Row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Run = TypeVar("Run", bound="DataclassInstance")


def repeated(
    name: str,
    words: Sequence[str],
    rounds: int,
    measure: Callable[[int], Coroutine[Any, Any, list[Run]]],
    rows: Callable[[Sequence[Run]], list[Row]],
) -> list[Row]:
    """`python -m benchmarks NAME [--runs N]`: measure N rounds, `rounds` unless it says; keep the runs and the rows."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--runs", type=count, default=rounds)
    asked = parser.parse_args(words)
    on = record.machine()
    found = asyncio.run(measure(asked.runs))
    made = rows(found)
    kept = {"runs": [asdict(run) for run in found]}
    record.write(name, on, made, kept, rounds=asked.runs, trial=is_trial(parser, asked))
    return made
