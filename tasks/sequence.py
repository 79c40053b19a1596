"""Running a sequence of argv as root on a host, fenced, directly or as a named transient unit to be joined again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import JSONDecodeError, loads

from state.errors import ArgvFailed, DeadlineExceeded, FencedOut, HostReverted
from tasks.argv import FENCE, REVERTED, cat_as_root, journal, show
from tasks.hosts.port import Argv, Completed, Host
from tasks.hosts.privilege import checked
from tasks.properties import properties
from tasks.script import Line, may, must, render_sequence

READ_TIMEOUT_S = 30.0

DESCRIPTION = "A change by interlock"
"""Of each transient unit. Without one systemd shows the whole script wherever it lists units, newlines and all."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What a change to a host must carry: the rollout it belongs to, and the number that the host was given."""

    rollout: str
    number: int
    again: str = ""

    def line(self) -> Line:
        return must("grep", "-qxF", "--", str(self.number), FENCE)

    def unit(self, key: str) -> str:
        """The transient unit's name, the same for every attempt of an action, so that it is joined, never run twice."""
        again = f"-again-{self.again}" if self.again else ""
        return f"interlock-{self.rollout}-{key.replace(':', '-')}{again}.service"


async def run_sequence(
    host: Host,
    fence: Fence,
    lines: Sequence[Line],
    *,
    timeout_s: float = READ_TIMEOUT_S,
    then: Sequence[Argv] = (),
) -> tuple[Completed, ...]:
    """Run the lines in one exec; for guard work that is short and harmless when cut off. The answers to `then`, which
    is asked after them in the same round trip, as root.

    Raises FencedOut or HostReverted before anything is done, ArgvFailed for the first line that failed.
    """
    argv = sequence(fence, lines)
    done, *answers = await host.run_all([argv, *_as_root(then)], timeout_s=timeout_s)
    if not done.ok:
        await refuse_if_fenced(host, fence)
    checked(host.name, argv, done)
    return tuple(answers)


def sequence(fence: Fence, lines: Sequence[Line]) -> Argv:
    """The lines as root's, behind the fence."""
    return Argv(("/bin/sh", "-c", render_sequence([fence.line(), *lines])), root=True)


async def run_unit(
    host: Host,
    fence: Fence,
    key: str,
    lines: Sequence[Line],
    *,
    timeout_s: float,
    before: Sequence[Argv] = (),
    then: Sequence[Argv] = (),
    of: str = "",
) -> tuple[Completed, ...]:
    """Run the lines as a transient oneshot unit named after the action, and wait for its end. The answers to `before`,
    which is asked first, and to `then`, which is asked after that end, and last what systemd shows of the unit `of`
    then: all in the same round trip, and all as root.

    The unit keeps its result after its end (RemainAfterExit), so an action that is tried again finds it: still running,
    it is joined; done, it is not run a second time; failed, it is run anew. Raises FencedOut, HostReverted, ArgvFailed,
    DeadlineExceeded.
    """
    unit = fence.unit(key)
    start = _start(unit, render_sequence([fence.line(), *lines]), timeout_s)
    bound = timeout_s + READ_TIMEOUT_S
    afterwards = [*then, show(unit, *([of] if of else []))]
    told = await host.run_all(_as_root([*before, start, *afterwards]), timeout_s=bound)
    seen, started, answers = told[: len(before)], told[len(before)], told[len(before) + 1 :]
    if not started.ok and b"already" in started.stderr:
        await _join(host, unit, start, answers[-1], bound)
        answers = await host.run_all(afterwards, timeout_s=READ_TIMEOUT_S)  # alone, sudo need not allow each as root
    shown, *others = _apart(answers[-1])
    await _judge_unit(host, fence, unit, shown, timeout_s)
    return (*seen, *answers[:-1], *others)


def _as_root(argvs: Sequence[Argv]) -> list[Argv]:
    return [replace(argv, root=True) for argv in argvs]


def _apart(shown: Completed) -> list[Completed]:
    """What systemd shows of each unit that it was asked for."""
    return [replace(shown, stdout=block) for block in shown.stdout.split(b"\n\n")]


async def forget_units(host: Host, fence: Fence, units: Sequence[str]) -> None:
    """Let systemd forget the transient units whose results are recorded by now; those it does not know are fine.

    A host that carries another number keeps them: they may be those of an orchestrator that went on with the rollout.
    """
    if units:
        lines = [may("systemctl", verb, "--", *units) for verb in ("stop", "reset-failed")]
        await host.run_all([sequence(fence, lines)], timeout_s=READ_TIMEOUT_S)


async def refuse_if_fenced(host: Host, fence: Fence) -> None:
    """Raises FencedOut if the host carries another number than ours, HostReverted if its own timer has acted."""
    found = await carried(host)
    if found == REVERTED:
        raise HostReverted(host.name)
    if found != str(fence.number):
        raise FencedOut(host.name, fence.number, found)


async def carried(host: Host) -> str:
    """The mark that the host carries, a fencing number or REVERTED; empty where it has none.

    Raises ArgvFailed for one that cannot be read: that it is somebody else's, or none, is not known then.
    """
    asked = cat_as_root(FENCE)
    (read,) = await host.run_all([asked], timeout_s=READ_TIMEOUT_S)
    if not read.ok and b"No such file or directory" not in read.stderr:
        checked(host.name, asked, read)
    return read.text.strip()


def _start(unit: str, script: str, timeout_s: float) -> Argv:
    words = (
        "systemd-run",
        "--quiet",
        f"--unit={unit}",
        f"--description={DESCRIPTION}",
        "--property=Type=oneshot",
        "--property=RemainAfterExit=yes",
        f"--property=TimeoutStartSec={timeout_s:.15g}",
        "--",
        "/bin/sh",
        "-c",
        script,
    )
    return Argv(words, root=True)


async def _join(host: Host, unit: str, start: Argv, shown: Completed, bound: float) -> None:
    state = properties(_apart(shown)[0].text).get("ActiveState", "")
    if state == "failed":
        forget = Argv(("systemctl", "reset-failed", "--", unit), root=True)
        await host.run_all([forget, start], timeout_s=bound)
    elif state == "activating":
        join = Argv(("systemctl", "start", "--", unit), root=True)
        await host.run_all([join], timeout_s=bound)


async def _judge_unit(host: Host, fence: Fence, unit: str, shown: Completed, timeout_s: float) -> None:
    facts = properties(shown.text)
    if facts.get("ActiveState") == "active":
        return
    await refuse_if_fenced(host, fence)
    if facts.get("Result") == "timeout":
        raise DeadlineExceeded(f"{unit} on {host.name}", timeout_s, hint=f"see `journalctl -u {unit}` on {host.name}")
    (log,) = await host.run_all([journal(unit)], timeout_s=READ_TIMEOUT_S)
    status = int(facts.get("ExecMainStatus") or 1)
    raise ArgvFailed(
        host.name, (unit,), status, _last_message(log.text) or f"it ended as {facts.get('Result', 'unknown')}"
    )


def _last_message(text: str) -> str:
    """The line in which the sequence says which argv failed, or the last but systemd's own."""
    messages = []
    for line in text.splitlines():
        try:
            record = loads(line)
        except JSONDecodeError:
            continue
        if isinstance(record, dict) and record.get("_PID") != "1" and isinstance(record.get("MESSAGE"), str):
            messages.append(record["MESSAGE"])
    return "; ".join(messages[-2:])
