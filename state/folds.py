"""Rollouts as far as they were folded before: a stream that is folded again decodes and folds only its new events."""

from collections.abc import Sequence
from dataclasses import dataclass

from state.events import decode
from state.rollout import Rollout, fold
from state.store.port import RecordedEvent

MOST = 64
"""Rollouts that are remembered; the one that was folded longest ago is forgotten first. One takes some 100 kB."""


@dataclass(frozen=True, slots=True)
class _Folded:
    version: int
    digest: str
    rollout: Rollout


class Folds:
    """What this proves: a remembered rollout is the fold of the events up to its version, where the event of that
    version has the same digest, since that covers all before it. It proves nothing about what is stored: whoever reads
    the events has checked their digests, or has not.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Folded] = {}

    def of(self, recorded: Sequence[RecordedEvent]) -> Rollout:
        """The fold of a stream from its first event on; raises HistoryCorrupt as `decode`."""
        if not recorded:
            return Rollout()
        last = recorded[-1]
        known = self._known.pop(last.stream, None)
        if known and (known.version > len(recorded) or recorded[known.version - 1].digest != known.digest):
            known = None
        new = recorded[known.version :] if known else recorded
        rollout = fold(map(decode, new), known.rollout if known else None)
        self._known[last.stream] = _Folded(last.version, last.digest, rollout)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return rollout
