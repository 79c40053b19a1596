"""What a unit's processes are to the practice machine, whoever plays them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import httpx

from tasks.hosts.port import Completed

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine

Emit = Callable[[bytes], None]
EmitAs = Callable[[int, bytes], None]
"""Takes one line without its newline and the PID that wrote it."""


class Program(Protocol):
    """One main process in memory, with the children it may have.

    It takes PIDs from `machine.new_pid()`, runs inside the event loop on asyncio time only, and goes on holding its
    ports and children after `run` returned if that is what the real program would do (a leftover).
    """

    @property
    def pid(self) -> int: ...

    async def run(self, emit: Emit) -> int:
        """Run to the end; the exit status, or minus the number of the signal that ended it."""
        ...

    def signal(self, number: int) -> None:
        """A signal for the main process."""
        ...

    def listening(self) -> set[int]: ...

    def children(self) -> Mapping[int, Sequence[str]]:
        """Living descendants: PID to argv."""
        ...

    async def handle(self, request: httpx.Request) -> httpx.Response: ...


@runtime_checkable
class SignalsChildren(Protocol):
    """A program whose children can be signalled one by one; children of others only die by SIGKILL."""

    def signal_child(self, pid: int, number: int) -> None: ...


@runtime_checkable
class WritesAs(Protocol):
    """A program whose children write lines under their own PIDs: `run_as` is used instead of `run`."""

    async def run_as(self, emit: EmitAs) -> int: ...


Factory = Callable[[Sequence[str], Mapping[str, str], "PracticeMachine"], Program]


class SpawnFailed(Exception):  # named by consequence, as all errors here are
    """The forked child did not become the program: it ended at `step`, one of ends.STEPS, for a reason in words."""

    def __init__(self, path: str, reason: str, step: str = "EXEC") -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason, self.step = path, reason, step


class ProgramEnded(ValueError):  # named by consequence, as all errors here are
    """A program that was to go on has ended at once; `completed` is what it said."""

    def __init__(self, completed: Completed) -> None:
        super().__init__(completed.stderr.decode("utf-8", "replace").strip())
        self.completed = completed


class Group(Protocol):
    """A started main process and everything alive in its control group."""

    @property
    def pid(self) -> int: ...

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    async def wait(self, emit: EmitAs) -> int:
        """Hand over what the group prints until the main process ends; its status as in `Program.run`."""
        ...

    def members(self) -> Mapping[int, Sequence[str]]:
        """Living processes, the main one included: PID to argv."""
        ...

    def signal(self, pid: int, number: int) -> None: ...

    def listening(self) -> Mapping[int, int]:
        """Ports the group listens on, with the PID that holds each."""
        ...

    async def handle(self, request: httpx.Request) -> httpx.Response: ...


class Runner(Protocol):
    """What runs programs that are not the machine's own: an ExecStart, or a program of a session."""

    def finds(self, path: str) -> bool:
        """Whether there is such a program, below the machine's root or where else its programs come from."""
        ...

    async def spawn(self, path: str, argv: Sequence[str], env: Mapping[str, str], *, cwd: str) -> Group:
        """Start a unit's process; its control group is found by INVOCATION_ID in `env`. Raises SpawnFailed."""
        ...

    async def run(self, path: str, argv: Sequence[str], env: Mapping[str, str], stdin: bytes) -> Completed:
        """Run a program of a session to its end. Raises SpawnFailed."""
        ...

    async def aclose(self) -> None:
        """End every process that was started here, and wait for its end."""
        ...
