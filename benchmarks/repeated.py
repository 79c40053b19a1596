"""The command of a benchmark that measures rounds, and keeps each run of them."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks import record
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
    parser.add_argument("--runs", type=int, default=rounds)
    asked = parser.parse_args(words)
    on = record.machine()
    found = asyncio.run(measure(asked.runs))
    made = rows(found)
    record.write(name, on, made, {"runs": [asdict(run) for run in found]})
    return made
