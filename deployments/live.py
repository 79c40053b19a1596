"""Watching a rollout live: a line for each thing that is done, and a moving one for what is under way."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.status import Status

from deployments.page import show_hold, show_line, show_plan, show_verdicts
from flows.ports import Watch
from state.events import ActionStarted, HoldOpened, Judged, PlanMade, decode
from state.narrative import Line as NarrativeLine
from state.narrative import tell, title_of
from state.rollout import Rollout
from state.store.port import RecordedEvent


class LivePage:
    """Prints to `console` what the watch tells it."""

    def __init__(self, console: Console, status: Status | None) -> None:
        self._console = console
        self._status = status
        self._begun: datetime | None = None
        self._action = ""

    def watch(self) -> Watch:
        return Watch(recorded=self._recorded, progress=self._progress, said=self._said)

    def _recorded(self, rollout: Rollout, recorded: RecordedEvent) -> None:
        self._begun = self._begun or recorded.recorded_at
        event = decode(recorded)
        if isinstance(event, ActionStarted):
            self._action = title_of(event.action)
            self._move(self._action)
            if event.action == "hold" and rollout.hold and rollout.requested:
                self._move(f"hold: asks until {rollout.hold.deadline}; `interlock answer {rollout.requested.rollout}`")
        if told := tell(event):
            mark, title, text = told
            after = (recorded.recorded_at - self._begun).total_seconds()
            show_line(
                self._console, NarrativeLine(at=recorded.recorded_at, after_s=after, mark=mark, title=title, text=text)
            )
        if isinstance(event, PlanMade):
            show_plan(self._console, event.plan, event.digest)
        if isinstance(event, Judged):
            side = "new revision" if event.side == "new" else "old revision, put back"
            show_verdicts(self._console, event.verdicts, f"Claims: {side}")
        if isinstance(event, HoldOpened) and rollout.requested:
            show_hold(self._console, event, rollout.requested.rollout)

    def _said(self, sentence: str) -> None:
        self._console.print(sentence, style="yellow", highlight=False, soft_wrap=True)

    def _progress(self, stage: str, seconds: float) -> None:
        self._move(f"{self._action}: {stage} ({seconds:.1f} s)")
        if self._status is None or not self._console.is_terminal:
            self._console.print(f"            … {stage} after {seconds:.1f} s", style="dim", highlight=False)

    def _move(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)


@contextmanager
def live(console: Console) -> Iterator[Watch]:
    """A watch that shows everything on `console`, with a moving line where it is a terminal."""
    if not console.is_terminal:
        yield LivePage(console, None).watch()
        return
    with console.status("starting") as status:
        yield LivePage(console, status).watch()
