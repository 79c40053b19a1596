"""The table of failures: what befalls each step, and how the rollout ends. Made by running each cell.

python -m tests.simulation.table writes docs/reference/failures.md anew.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.simulation.faults import LONG_S, MILD_S, Fault
from tests.simulation.simulate import Run, run

PAGE = Path(__file__).parents[2] / "docs/reference/failures.md"
SEED = 4
"""A run without a soak, and with a timer that is longer than the lease: what is killed is recovered before it acts."""

STEPS = {
    "do:0:stage-files": "stage files",
    "do:1:arm-timer": "arm the GPU host's timer",
    "do:2:arm-timer": "arm the service host's timer",
    "do:3:stop-service": "stop the service",
    "do:4:rebind-gpus": "rebind GPUs",
    "do:5:install-files": "install files",
    "do:6:start-service": "start the service",
    "conclude:promoted": "promote",
}

EVENTS = {
    "fails": ("change-fails", 0.0),
    "times out": ("hangs", 0.0),
    "connection dies before the effect": ("cut-before-trip", 0.0),
    "connection dies after the effect": ("cut-after-trip", 0.0),
    "orchestrator killed before the append": ("killed-before-append", 0.0),
    "orchestrator killed between append and effect": ("killed-before-trip", 0.0),
    "orchestrator killed after the effect": ("killed-after-trip", 0.0),
    "service host reboots": ("rebooted", 0.0),
    "disk full": ("disk-full", LONG_S),
    "cancelled": ("cancelled-at-trip", 1.0),
    "event store away for seconds": ("store-away", MILD_S),
    "event store away until after the end": ("store-away", LONG_S),
}

HEAD = """# What follows from a failure

What may befall each step of a rollout while it is under way, and how the rollout ends. Every cell is a run of the
product on practice hosts, in virtual time, with that one failure (`tests/simulation/`); after each the
[invariants](../guides/simulation.md) were checked. `python -m tests.simulation.table` writes this page, and a test
fails when a run ends otherwise than it says.

The rollout stops the service, moves a GPU and replaces the unit's file. A killed orchestrator's rollout is taken up by
`recover` once its lease is over, before the hosts' timers act. An event store that goes away does so at the step's
intent; what happens then is [spooled](store.md#while-the-store-is-away), and in the history in the end. Before any step
the rollout is refused, and `recover` goes on with it once the store is back.

"""

FOOT = """
* **promoted**: the new revision runs, and was proven.
* **rolled-back**: the old revision runs, and was proven.
* **aborted**: the service was not touched.
* **stranded**: neither could be proven. The lease is kept, exit status 4, and the ending names the next commands. Once
  what was wrong is mended, `interlock recover ROLLOUT` goes on: in each of these runs that brought the old revision
  back.
"""


def cell(action: str, event: str) -> Run:
    kind, amount = EVENTS[event]
    return run(SEED, [Fault(kind, 1, amount, action)])


def page(ends: dict[tuple[str, str], str]) -> str:
    return HEAD + "\n".join(_rows(ends)) + "\n" + FOOT


def _rows(ends: dict[tuple[str, str], str]) -> Sequence[str]:
    head = ["while the rollout is to", *STEPS.values()]
    rows = [[event, *(ends[action, event] for action in STEPS)] for event in EVENTS]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def main() -> None:
    ends = {(action, event): cell(action, event).outcomes[0] for action in STEPS for event in EVENTS}
    PAGE.write_text(page(ends))


if __name__ == "__main__":
    main()
