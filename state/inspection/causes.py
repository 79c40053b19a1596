"""Failures and notices of a boot: one entry a cause, repeats merged, consequences left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from state.inspection.report import Entry

CONSEQUENCES = frozenset({"killed", "exited", "peer-lost", "nccl-init", "warm-up-failed", "scheduler-exception"})
"""What is not listed after an earlier cause in the same boot: it only follows from it."""
BARE = frozenset({"killed", "exited"})
"""What stands only where nothing else explains the end."""
NO_EXPLANATION = frozenset({"start-limit-hit"})
"""Causes that do not say why a process ended."""


@dataclass(slots=True)
class Entries:
    """Entries by code, in order of first appearance."""

    by_code: dict[str, Entry] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, text: str, line: int) -> None:
        """A line that says the same twice counts once."""
        known = self.by_code.get(code)
        if known is None:
            self.by_code[code] = Entry(code, text, line, 1)
        elif self.last.get(code) != line:
            self.by_code[code] = merged(known)
        self.last[code] = line

    def repeat(self, code: str, count: int) -> None:
        self.by_code[code] = replace(self.by_code[code], count=self.by_code[code].count + count)

    def __contains__(self, code: str) -> bool:
        return code in self.by_code

    def listed(self) -> tuple[Entry, ...]:
        return tuple(sorted(self.by_code.values(), key=lambda entry: entry.line))


def merged(entry: Entry) -> Entry:
    return Entry(entry.code, entry.text, entry.line, entry.count + 1)


@dataclass(slots=True)
class Causes(Entries):
    """The failures of one boot."""

    def add(self, code: str, text: str, line: int) -> None:
        if code in self.by_code:
            Entries.add(self, code, text, line)
            return
        if code in CONSEQUENCES and self._explained(line):
            return
        Entries.add(self, code, text, line)
        if code not in BARE and code not in NO_EXPLANATION:
            for bare in BARE:
                self.by_code.pop(bare, None)

    def _explained(self, line: int) -> bool:
        """Whether a cause is known already; an end without one explains nothing that was said before it."""
        return any(
            known not in NO_EXPLANATION and not (known in BARE and entry.line > line)
            for known, entry in self.by_code.items()
        )

    @property
    def any(self) -> bool:
        return bool(self.by_code)


def with_more(entries: Sequence[Entry], more: Sequence[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted((*entries, *more), key=lambda entry: entry.line))
