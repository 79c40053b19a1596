"""Faults of a simulated rollout, drawn from a seed. Each is a value: a run is told, and shrunk, by its faults."""

import re
from dataclasses import dataclass
from random import Random
from typing import Literal

Where = Literal["trip", "append", "store", "start"]


@dataclass(frozen=True, order=True)
class Fault:
    """`kind` befalls the `at`-th round trip, append or call of the store (whoever makes it), or the whole run (`at`
    0); `amount` is its seconds, count or stage. With an `action` it befalls that one: its first change, or its intent's
    append."""

    kind: str
    at: int = 0
    amount: float = 0.0
    action: str = ""

    @classmethod
    def of(cls, text: str) -> "Fault":
        """The fault that was told so: `kind@at`, or `kind@at(amount)`."""
        told = re.fullmatch(r"([a-z-]+)@(\d+)(?:\((-?[\d.]+)\))?", text)
        if told is None:
            raise ValueError(f"no fault is told as {text!r}")
        return cls(told[1], int(told[2]), float(told[3] or 0))

    def __str__(self) -> str:
        return f"{self.kind}@{self.at}" + (f"({self.amount:g})" if self.amount else "")


MILD_S, LONG_S = 5.0, 900.0
SECONDS = (0.5, MILD_S, 45.0, 200.0, LONG_S)


@dataclass(frozen=True)
class Kind:
    """`where` its moments are counted; `mild` if a rollout must get over it without being stranded;
    `share` is how often it is drawn beside the others, less for what takes long."""

    where: Where
    mild: bool
    amounts: tuple[float, ...] = (0.0,)
    share: float = 1.0


KINDS: dict[str, Kind] = {
    # the orchestrator
    "killed-before-trip": Kind("trip", mild=True),
    "killed-after-trip": Kind("trip", mild=True),
    "killed-during-trip": Kind("trip", mild=True, amounts=(0.01, 0.3, 2.0)),
    "killed-before-append": Kind("append", mild=True),
    "killed-after-append": Kind("append", mild=True),
    "cancelled-at-trip": Kind("trip", mild=True, amounts=(1, 1, 5)),
    "cancelled-at-append": Kind("append", mild=True),
    "paused-at-trip": Kind("trip", mild=True, amounts=SECONDS),
    "paused-at-append": Kind("append", mild=True, amounts=SECONDS),
    "clock-jumps": Kind("append", mild=True, amounts=(-3600.0, -30.0, 30.0, 3600.0)),
    # others beside it
    "second-recovers": Kind("append", mild=True),
    "second-takes-over": Kind("append", mild=True),
    "two-take-over": Kind("append", mild=True),
    "rival-rollout": Kind("append", mild=True),
    # the connection
    "cut-before-trip": Kind("trip", mild=True),
    "cut-after-trip": Kind("trip", mild=True),
    "cut-during-trip": Kind("trip", mild=True, amounts=(0.0, 0.2, 1.0)),
    "answer-delayed": Kind("trip", mild=True, amounts=(1.0, 20.0)),
    "answer-lost": Kind("trip", mild=False),
    "network-away": Kind("trip", mild=False, amounts=SECONDS),
    # the host
    "rebooted": Kind("trip", mild=False),
    "gpu-host-rebooted": Kind("trip", mild=False),
    "disk-full": Kind("trip", mild=False, amounts=SECONDS),
    "permission-lost": Kind("trip", mild=False, amounts=SECONDS),
    "argv-fails": Kind("trip", mild=False, amounts=(1, 2, 3, 4, 5, 6, 8)),
    "change-fails": Kind("trip", mild=False),
    "hangs": Kind("trip", mild=False),
    "stuck-processes": Kind("trip", mild=False, share=0.03),
    # the store
    "store-lost-before": Kind("append", mild=True),
    "store-lost-after": Kind("append", mild=True),
    "store-away": Kind("append", mild=True, amounts=SECONDS),
    "store-away-late": Kind("store", mild=True, amounts=SECONDS, share=2.0),
    "store-slow": Kind("append", mild=True, amounts=(1.0, 8.0)),
    "store-call-fails": Kind("store", mild=True),
    "store-answer-lost": Kind("store", mild=True),
    "killed-before-call": Kind("store", mild=True, share=2.0),
    "killed-after-call": Kind("store", mild=True, share=2.0),
    "killed-within-line": Kind("append", mild=True),
    # the engine
    "new-crashes": Kind("start", mild=True, amounts=(0, 1, 2)),
    "new-dies": Kind("start", mild=True, amounts=(0.5, 2.0, 10.0)),
    "old-crashes": Kind("start", mild=False, amounts=(0, 1, 2)),
    "stops-slowly": Kind("start", mild=True, amounts=(10.0,)),
    "deaf": Kind("start", mild=True),
    # the proof
    "refuted": Kind("start", mild=True),
    "open": Kind("start", mild=True),
}

TRIPS, APPENDS, CALLS = 90, 60, 150
"""About as many as a rollout with its way back has."""

COUNTS = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4)


def draw(seed: int) -> tuple[Fault, ...]:
    """None to four faults; every tenth seed has none at all."""
    random = Random(seed)
    count = COUNTS[seed % len(COUNTS)]
    return tuple(_one(random) for _ in range(count))


def _one(random: Random) -> Fault:
    (name,) = random.choices(sorted(KINDS), [KINDS[name].share for name in sorted(KINDS)])
    kind = KINDS[name]
    last = {"trip": TRIPS, "append": APPENDS, "store": CALLS, "start": 0}[kind.where]
    return Fault(name, random.randint(1, last) if last else 0, random.choice(kind.amounts))


def mild(faults: tuple[Fault, ...]) -> bool:
    return all(KINDS[fault.kind].mild for fault in faults)
