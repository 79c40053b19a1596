"""What can be made to go wrong on a practice machine."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tasks.hosts.port import Completed

Predicate = Callable[[Sequence[str]], bool]


class ConnectionCut(ConnectionError):  # named by consequence, as all errors here are
    """The session ended under an execution; what a connection makes HostUnreachable of."""


@dataclass(slots=True)
class _Rule:
    """Acts on the argvs it picks. `times` counts down; None is for ever."""

    picks: Predicate
    act: str
    answer: Completed | None = None
    times: int | None = 1


@dataclass(slots=True)
class Faults:
    """Injected faults; with none the machine is well.

    Executions are counted argv by argv: what sudo, a script or `timeout` runs counts, they themselves do not.
    `unkillable` PIDs survive every signal, as a process in state D does. `oom_kills` counts what the kernel's OOM
    killer took, by the PID of a process in the same control group.
    """

    sudo_refused: bool = False
    unreachable: bool = False
    unkillable: set[int] = field(default_factory=set)
    oom_kills: dict[int, int] = field(default_factory=dict)
    executions: int = 0
    seen: list[tuple[str, ...]] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _cut: "asyncio.Future[None] | None" = None

    def fail(self, picks: Predicate, answer: Completed | None = None, *, times: int | None = 1) -> None:
        """Argvs that `picks` holds of end with `answer` (status 1) and have no effect."""
        self._rules.append(_Rule(picks, "fail", answer or Completed(1, b"", b"injected fault\n"), times))

    def fail_nth(self, n: int, answer: Completed | None = None) -> None:
        """The n-th argv from now, counted from 1."""
        self.fail(self._nth(n), answer)

    def cut_before(self, picks: Predicate) -> None:
        """The session is lost and the argv has no effect."""
        self._rules.append(_Rule(picks, "cut-before"))

    def cut_after(self, picks: Predicate) -> None:
        """The argv has its effect, then the session is lost."""
        self._rules.append(_Rule(picks, "cut-after"))

    def cut_nth(self, n: int, *, after: bool = False) -> None:
        (self.cut_after if after else self.cut_before)(self._nth(n))

    def hang(self, picks: Predicate, *, times: int | None = 1) -> None:
        """Argvs that never end and have no effect."""
        self._rules.append(_Rule(picks, "hang", times=times))

    def cut(self) -> None:
        """Every session is lost now, and none can be had until `restore`."""
        self.unreachable = True
        self.drop()

    def drop(self) -> None:
        """Every session is lost now; a new one can be had at once."""
        if self._cut is not None:
            self._cut.set_result(None)
        self._cut = None

    def restore(self) -> None:
        self.unreachable = False

    def clear(self) -> None:
        """Well again, whatever was injected (the counters stay)."""
        self.sudo_refused = self.unreachable = False
        self.unkillable.clear()
        self.oom_kills.clear()
        self._rules.clear()

    @property
    def cutting(self) -> "asyncio.Future[None]":
        """Done when the sessions of now are lost. It is theirs together: nobody may cancel it."""
        if self._cut is None:
            self._cut = asyncio.get_running_loop().create_future()
        return self._cut

    async def around(self, words: Sequence[str], run: Callable[[], Awaitable[Completed]]) -> Completed:
        """Run one argv under the rules. Raises ConnectionCut."""
        self.note(words)
        rule = self._rule(words)
        if rule is None:
            return await run()
        if rule.act == "hang":
            await asyncio.Event().wait()
        if rule.act == "cut-after":
            await run()
        if rule.act.startswith("cut"):
            raise ConnectionCut("connection reset by peer")
        return rule.answer or Completed(1)

    def note(self, words: Sequence[str]) -> None:
        """Count an argv."""
        self.executions += 1
        self.seen.append(tuple(words))

    def _nth(self, n: int) -> Predicate:
        goal = self.executions + n
        return lambda _words: self.executions == goal

    def _rule(self, words: Sequence[str]) -> _Rule | None:
        rule = next((rule for rule in self._rules if rule.picks(words)), None)
        if rule is not None and rule.times is not None:
            rule.times -= 1
            if rule.times == 0:
                self._rules.remove(rule)
        return rule
