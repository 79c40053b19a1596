"""Leases on hosts and services, and the revisions that were proven, as folds of their own streams."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from pydantic import ValidationError

from state.errors import HistoryCorrupt, LeaseHeld
from state.events import Event
from state.model import Value, misfit
from state.revision import Revision
from state.store.port import NewEvent, RecordedEvent


class SubjectLeased(Event):
    """`until` is an ISO time with zone; the event's version in its stream is the fencing number."""

    wire: ClassVar[str] = "subject-leased"
    rollout: str
    holder: str
    reason: str
    until: str


class SubjectReleased(Event):
    wire: ClassVar[str] = "subject-released"
    rollout: str


class RevisionProven(Event):
    """A revision was promoted: its claims held while it ran. A rollback goes to the last of these, or a named one."""

    wire: ClassVar[str] = "revision-proven"
    rollout: str
    revision: Revision


_TYPES: dict[str, type[Event]] = {cls.wire: cls for cls in (SubjectLeased, SubjectReleased, RevisionProven)}


class Lease(Value):
    """Who holds a subject; `number` is the fencing number of the newest lease, 0 if there never was one."""

    rollout: str = ""
    holder: str = ""
    reason: str = ""
    until: str = ""
    number: int = 0
    version: int = 0

    def refuse_others(self, subject: str, rollout: str, now: datetime) -> None:
        """Raises LeaseHeld if another rollout holds the subject.

        Also when its time is over: then it must be recovered.
        """
        if not self.rollout or self.rollout == rollout:
            return
        over = datetime.fromisoformat(self.until) <= now
        reason = f"rollout {self.rollout}: {self.reason}" + ("; its time is over and it has not ended" if over else "")
        raise LeaseHeld(subject, self.holder, reason, self.until)


def lease_of(history: Sequence[RecordedEvent]) -> Lease:
    """The fold of a subject's stream."""
    lease = Lease()
    for recorded in history:
        event = decode(recorded)
        if isinstance(event, SubjectLeased):
            fields = {"rollout": event.rollout, "holder": event.holder, "reason": event.reason, "until": event.until}
            number = lease.number if lease.rollout == event.rollout and lease.number else recorded.version
            lease = Lease(**fields, number=number, version=recorded.version)
        elif isinstance(event, SubjectReleased) and event.rollout == lease.rollout:
            lease = Lease(number=lease.number, version=recorded.version)
        else:
            lease = lease.model_copy(update={"version": recorded.version})
    return lease


def whole(tail: Sequence[RecordedEvent], *, numbered: bool = True) -> bool:
    """Whether the end of a subject's stream gives the same lease as the whole stream.

    Without `numbered` the fencing number may be another: who holds it since when is not asked for.
    """
    if not tail or tail[0].version == 1:
        return True
    holder: str | None = None
    for event in map(decode, tail):
        if isinstance(event, SubjectLeased):
            if not numbered or holder not in (None, event.rollout):
                return True
            holder = event.rollout
        elif isinstance(event, SubjectReleased) and event.rollout == holder:
            holder = ""
    return False


def proven(history: Sequence[RecordedEvent]) -> tuple[RevisionProven, ...]:
    """The proven revisions of a service's stream, oldest first."""
    return tuple(event for event in map(decode, history) if isinstance(event, RevisionProven))


def tells(tail: Sequence[RecordedEvent], event: NewEvent) -> bool:
    """Whether the end of a stream tells as much as the whole of it about whether `event` is due there."""
    if event.type == SubjectReleased.wire:
        return whole(tail, numbered=False)
    return not tail or tail[0].version == 1 or not due(tail, event)


def due(history: Sequence[RecordedEvent], event: NewEvent) -> bool:
    """Whether an event is still to be said in its stream: a release while the rollout holds the lease, that a revision
    was proven once for its rollout. Raises ValueError for any other event."""
    rollout = event.data["rollout"]
    if event.type == SubjectReleased.wire:
        return bool(lease_of(history).rollout == rollout)
    if event.type == RevisionProven.wire:
        return all(one.rollout != rollout for one in proven(history))
    raise ValueError(f"nothing says whether {event.type} is due")


def decode(recorded: RecordedEvent) -> Event:
    """The typed event of a lease or service stream; raises HistoryCorrupt for any other."""
    cls = _TYPES.get(recorded.type)
    name = f"{recorded.type}/{recorded.schema_version}"
    if cls is None or recorded.schema_version > cls.schema_version:
        raise HistoryCorrupt(recorded.stream, recorded.version, f"its type `{name}` does not belong into this stream")
    try:
        return cls.model_validate(dict(recorded.data))
    except ValidationError as error:
        raise HistoryCorrupt(
            recorded.stream, recorded.version, f"its data do not fit `{name}`: {misfit(error)}"
        ) from error
