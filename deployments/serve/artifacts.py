"""What Prefect shows of a rollout beside its task runs: artifacts, and events that automations may wait for.

A projection, useful and lossy: nothing here is asked for a decision, and nothing that fails here fails a rollout.
Importing this imports Prefect.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.events import emit_event
from prefect.exceptions import PrefectException

from deployments.report.markdown import markdown
from deployments.report.words import OUTCOMES, figure
from deployments.serve.notes import Note, Notes, Progress
from state.events import (
    Event,
    HoldAnswered,
    HoldOpened,
    Judged,
    PlanMade,
    ReadinessReached,
    RolloutConcluded,
    RolloutRequested,
    decode,
)
from state.inspection.report import STAGES
from state.plan import Plan
from state.rollout_report import report_of
from state.store.port import RecordedEvent

TAG = "interlock"
"""Of every flow run and deployment of ours."""

STEPS = (*STAGES, "generating")
"""Of a start, in their order; the last one is our own request."""

Recorded = Callable[[], Awaitable[tuple[RecordedEvent, ...]]]


class Shown:
    """Shows what a rollout's notes say, in the flow run whose context it is made in."""

    def __init__(self, notes: Notes, recorded: Recorded, evidence_url: str) -> None:
        """`recorded` reads the rollout's whole stream, `evidence_url` is what the digest of evidence is appended to."""
        self._notes, self._recorded, self._evidence_url = notes, recorded, evidence_url
        self._key = re.sub(r"[^a-z0-9]+", "-", notes.service.lower()).strip("-")
        self._waiting: UUID | None = None

    async def for_ever(self) -> None:
        """Until it is cancelled; `Notes.told` waits until everything before is shown."""
        while True:
            note = await self._notes.next()
            try:
                with suppress(PrefectException, httpx.HTTPError, RuntimeError):
                    await self._show(note)
            finally:
                self._notes.done()

    async def _show(self, note: Note) -> None:
        if isinstance(note, Progress):
            await self._progress(note)
            return
        event = decode(note)
        self._emit(event, note.recorded_at)
        match event:
            case PlanMade():
                page = plan_page(event.plan, event.digest)
                await acreate_markdown_artifact(key=f"plan-{self._key}", markdown=page, description="What is done")
            case HoldOpened():
                page = hold_page(event, self._notes.rollout)
                await acreate_markdown_artifact(key=f"question-{self._key}", markdown=page, description=event.question)
            case Judged():
                side = "new revision" if event.side == "new" else "old revision, put back"
                described = f"Claims about the {side}: {event.outcome}"
                await acreate_table_artifact(key=f"claims-{self._key}", table=rows(event), description=described)
            case ReadinessReached():
                await self._is_ready()
            case RolloutConcluded():
                await self._report(event)

    async def _report(self, ended: RolloutConcluded) -> None:
        recorded = await self._recorded()
        page = markdown(report_of(recorded))
        links = "".join(f"- [{name}]({self._evidence_url}{digest})\n" for name, digest in evidence(recorded))
        if links:
            page += f"\n## Raw evidence\n\nRead with a token of scope `read`:\n\n{links}"
        await acreate_markdown_artifact(key=f"report-{self._key}", markdown=page, description=ended.summary)

    async def _progress(self, note: Progress) -> None:
        """A wait is not measured by seconds, which nobody knows before, but by the stages of a start."""
        if note.stage not in STEPS:
            return
        done, described = 100.0 * STEPS.index(note.stage) / len(STEPS), f"{note.stage} after {note.seconds:.1f} s"
        if self._waiting is None:
            self._waiting = await acreate_progress_artifact(done, key=f"readiness-{self._key}", description=described)
        else:
            await aupdate_progress_artifact(self._waiting, progress=done, description=described)

    async def _is_ready(self) -> None:
        """The next wait, for the old revision, has a progress of its own."""
        if self._waiting is not None:
            await aupdate_progress_artifact(self._waiting, progress=100.0, description="it answers")
        self._waiting = None

    def _emit(self, event: Event, at: datetime) -> None:
        for word, payload in words_of(event):
            emit_event(
                event=f"interlock.rollout.{word}",
                occurred=at,
                resource={
                    "prefect.resource.id": f"interlock.rollout.{self._notes.rollout}",
                    "prefect.resource.name": f"{self._notes.service} {self._notes.rollout}",
                    "interlock.service": self._notes.service,
                },
                payload={"rollout": self._notes.rollout, "service": self._notes.service, **payload},
            )


def words_of(event: Event) -> list[tuple[str, dict[str, Any]]]:
    """The events for automations that one of ours stands for, with their payloads; none for most."""
    match event:
        case RolloutRequested() if event.purpose != "verify":
            asked = {"purpose": event.purpose, "revision": event.revision.digest, "reason": event.reason}
            return [("started", {**asked, "actor": event.actor})]
        case Judged() if event.outcome == "refuted":
            refuted = [v.claim for v in event.verdicts if v.outcome == "refuted"]
            return [("refuted", {"claims": refuted, "side": event.side})]
        case HoldOpened():
            return [("holding", {"question": event.question, "until": event.deadline})]
        case HoldAnswered():
            return [("answered", {"answer": event.answer, "by": event.actor})]
        case RolloutConcluded():
            return [(event.outcome, {"summary": event.summary, "exit_code": event.exit_code, "dark_s": event.dark_s})]
    return []


def plan_page(plan: Plan, digest: str) -> str:
    lines = [f"# {plan.service} → revision `{plan.revision[:12]}`", "", f"Plan `{digest[:12]}`.", ""]
    if plan.unchanged:
        return "\n".join([*lines, f"Nothing to do: {plan.unchanged}"])
    lines += [f"{number}. {_plain(sentence)}" for number, sentence in enumerate(plan.changes, 1)]
    dark = f"about {plan.dark_s:.0f} s, as in {plan.dark_basis}" if plan.dark_s is not None else "not known yet"
    lines += ["", f"Without an answer meanwhile: {dark}.", "", "| plane | claim | to be proven |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {c.plane} | {c.name} | {_plain(c.statement)} |" for c in plan.claims)])


def hold_page(hold: HoldOpened, rollout: str) -> str:
    """The question, and the three ways in which it is answered."""
    lines = [f"# {_plain(hold.question)}", ""]
    lines += [f"- **{v.claim}**: {_plain(v.statement)}: {_plain(v.reason)}" for v in hold.open]
    lines += ["", f"Until {hold.deadline}; without an answer by then: **{hold.default}**.", ""]
    lines += ["- here: run the deployment **answer** (its form has this rollout filled in)"]
    lines += [f"- `interlock answer {rollout} promote --reason TEXT` (or `rollback`)"]
    lines += [f"- `POST /api/v1/rollouts/{rollout}/answer` of the HTTP API"]
    return "\n".join(lines)


def rows(judged: Judged) -> list[dict[str, Any]]:
    return [
        {
            "plane": verdict.plane,
            "verdict": OUTCOMES[verdict.outcome],
            "claim": verdict.statement,
            "evidence": verdict.reason,
            "figure": figure(verdict.estimate),
            "remedy": verdict.remedy,
        }
        for verdict in judged.verdicts
    ]


def evidence(recorded: Iterable[RecordedEvent]) -> list[tuple[str, str]]:
    """Names and digests of the raw evidence that these events refer to, each digest once."""
    found: dict[str, str] = {}
    for one in recorded:
        for name, item in dict(one.data.get("items") or {}).items():
            found.setdefault(item["digest"], name)
    return [(name, digest) for digest, name in found.items()]


def _plain(text: str) -> str:
    """On one line, in which nothing is markup: it may have come from a host."""
    kept = " ".join(text.split())
    for sign in "\\`*_[]<>|":
        kept = kept.replace(sign, f"\\{sign}")
    return kept
