"""A question to a person, for commands whose output is JSON: on standard error, and nothing else."""

from flows.ports import Watch
from state.events import HoldOpened, decode
from state.rollout import Rollout
from state.store.port import RecordedEvent


def asking_on_stderr() -> Watch:
    """A watch that only passes on a question to a person."""

    def recorded(rollout: Rollout, recorded: RecordedEvent) -> None:
        event = decode(recorded)
        if isinstance(event, HoldOpened) and rollout.requested:
            _show(event, rollout.requested.rollout)

    return Watch(recorded=recorded)


def _show(event: HoldOpened, rollout: str) -> None:
    from rich.console import Console  # few rollouts ask, and pages are slow to load

    from deployments.page import show_hold

    show_hold(Console(stderr=True, highlight=False), event, rollout)
