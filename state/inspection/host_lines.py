"""Lines that are not an engine's own: systemd's about a unit, the kernel's about memory, compose's about containers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from state.inspection.events import Ended, Event, Failed, Noticed, PidSeen
from state.inspection.incarnations import Incarnations
from state.inspection.services import is_service
from state.inspection.systemd import (
    HINTS,
    read_compose,
    read_job,
    read_kernel_oom,
    read_systemd,
    speaks_of_unit,
    starts_anew,
)
from state.inspection.transport import NO_PREFIX, Prefix, is_kernel


@dataclass(frozen=True, slots=True)
class Said:
    """What such a line said; `alike` means that lines which differ from it in numbers only say the same."""

    events: tuple[Event, ...] = ()
    alike: bool = False


@dataclass(frozen=True, slots=True)
class HostLines:
    """Hands what the host's own lines say over to the boots that they speak of."""

    incarnations: Incarnations

    def take(self, prefix: Prefix, text: bytes, number: int) -> Said | None:
        """What the line said, which is done; None for a line that is an engine's or nobody's."""
        if is_kernel(prefix):
            events = tuple(read_kernel_oom(text[:2000].decode("utf-8", "replace")))
            self._apply(prefix, events, number)
            return Said(events, alike=True)
        head = text[:300]
        by_ident = prefix.ident.startswith(("systemd", "("))
        if not by_ident and not any(hint in head for hint in HINTS) and b"exited with code" not in head:
            return None
        words = text[:4000].decode("utf-8", "replace")
        unit, job = speaks_of_unit(words), read_job(words)
        if by_ident or unit or (prefix.pid is None and job):
            about = prefix if prefix.unit else replace(prefix, unit=unit or (job[1] if job else None))
            return self._of_systemd(about, words, unit, number)
        return self._of_compose(words, number) if prefix is NO_PREFIX else None

    def _of_systemd(self, about: Prefix, words: str, unit: str | None, number: int) -> Said:
        events = tuple(read_systemd(words))
        self._apply(about, events, number)
        if is_service(about.unit or "") and starts_anew(words if unit is None else words[len(unit) + 2 :]):
            self.incarnations.started(about)
            return Said(events)
        return Said(events, alike=unit is None and not events)

    def _of_compose(self, words: str, number: int) -> Said | None:
        ended = read_compose(words)
        if ended is None:
            return None
        boot = self.incarnations.by_source.get(f"{ended[0]}/")
        if boot is not None:
            boot.apply(ended[1], number)
        return Said()

    def _apply(self, prefix: Prefix, events: Iterable[Event], number: int) -> None:
        for event in events:
            opens = (isinstance(event, Failed | Ended) and event.code is not None) or (
                isinstance(event, Noticed) and event.opens
            )
            boot = self.incarnations.of_systemd(prefix, create=opens)
            if boot is not None and isinstance(event, PidSeen):
                self.incarnations.by_pid.setdefault(event.pid, boot)
            elif boot is not None:
                boot.apply(event, number)
