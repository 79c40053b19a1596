"""Stopping and starting the service, each proved by what is read back rather than by an exit status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tenacity import stop_after_attempt, wait_fixed

from state.engines.engine import HttpQuestion
from state.errors import DeadlineExceeded, StepFailed
from state.observation import ObservedUnit
from state.steps import ServiceStep, StartService, StopService
from tasks.again import ask_again
from tasks.argv import cmdline, control_group, journal_end, listeners, process_stat, process_stats, show
from tasks.boots import boot_question, same_boot
from tasks.endpoint import Endpoint
from tasks.hosts.port import Argv, Completed, Host
from tasks.observe import unit_from
from tasks.properties import cursor_of, listeners_of, pids_of, words_of
from tasks.script import may, must
from tasks.sequence import READ_TIMEOUT_S, Fence, forget_units, run_unit


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that is still there; `own` tells the service's from a stranger, `text` what it is and holds, `state`
    the kernel's letter for what it does (proc(5))."""

    own: bool
    text: str
    state: str = ""


ANSWER_TIMEOUT_S = 5.0
"""For a port that is closed the answer comes at once."""

UNINTERRUPTIBLE = "D"
"""The state of a process that waits in the kernel, where no signal reaches it."""

SETTLING_LOOKS = 100
"""A tenth of a second apart: the kernel takes a killed process away at once, unless it is stuck."""

STOP_MARGIN_S = 15.0
"""systemd sends SIGKILL after the unit's own stop timeout; the job ends shortly after that."""


@dataclass(frozen=True, slots=True)
class Noted:
    """PIDs that the service had, and the end of its host's journal then: after a boot they may be anybody's."""

    pids: frozenset[int] = frozenset()
    cursor: str = ""

    def of_this_boot(self, boot: Completed) -> frozenset[int]:
        return self.pids if same_boot(self.cursor, boot) else frozenset()


NOBODY = Noted()


async def stop(host: Host, step: StopService, fence: Fence, key: str, *, known: Noted = NOBODY) -> dict[str, object]:
    """Stop the unit and prove it: no process in its cgroup, none of its processes alive, nobody on the port.

    `known` are processes that the service had earlier; after an interrupted attempt systemd no longer tells them.
    Raises StepFailed that names each leftover with what it holds; with policy `kill` the service's own get SIGKILL
    first.
    """
    unit, old = await _running(host, step.unit, known)
    told = await _stop_unit(host, step, fence, key, unit.control_group, old)
    left = await _leftovers(host, step, unit.control_group, old, told)
    if step.leftovers == "kill":
        left = await _end_own(host, step, unit.control_group, fence, key, old)
    named = [one.text for one in left.values()] or await _answering(host, step)
    if named:
        raise StepFailed(
            "stop-service",
            f"{step.unit} stopped, but it left {'; '.join(named)}",
            hint=_remedy(host, step, left),
        )
    return {"stopped_pids": sorted(old)}


async def start(
    host: Host, step: StartService, fence: Fence, key: str, *, before: str, clear: Noted | None = None
) -> dict[str, object]:
    """Start the unit and record which invocation and process it is, and where the journal stood before.

    `before` is the invocation that ran at the baseline: finding that one means that it had never been stopped, finding
    another that an interrupted attempt had already started it. The cursor is empty where the start is older than this.
    `clear` (given when the old state is put back) are PIDs that the service had: what is left of them and in its cgroup
    gets SIGKILL first, since nothing could start beside it. A stop that is still under way is ended in the same way.
    Raises StepFailed if the unit does not come to run at all.
    """
    if clear is not None:
        await _cleared(host, step, fence, key, clear)
    lines = [may("systemctl", "reset-failed", "--", step.unit), must("systemctl", "start", "--", step.unit)]
    first = [show(step.unit), journal_end()]
    was, end, shown = await run_unit(host, fence, key, lines, timeout_s=_bound(step), before=first, of=step.unit)
    runs, now = _runs(unit_from(step.unit, was.text)), unit_from(step.unit, shown.text)
    if not now.invocation:
        raise StepFailed(
            "start-service", f"{step.unit} did not start on {host.name}: it is {now.active_state}, {now.result}"
        )
    return {
        "invocation": now.invocation,
        "main_pid": now.main_pid,
        "restarts": now.restarts,
        "cursor": "" if runs else cursor_of(end.text),
        "kept_running": runs and now.invocation == before,
    }


def _runs(unit: ObservedUnit) -> bool:
    return unit.active and unit.active_state != "deactivating"


async def _cleared(host: Host, step: StartService, fence: Fence, key: str, clear: Noted) -> None:
    boot, shown = await host.run_all([boot_question(), show(step.unit)], timeout_s=READ_TIMEOUT_S)
    unit = unit_from(step.unit, shown.text)
    if not _runs(unit):
        await _end_own(host, step, unit.control_group, fence, key, clear.of_this_boot(boot))


async def _running(host: Host, name: str, known: Noted) -> tuple[ObservedUnit, frozenset[int]]:
    """The unit, and its processes with those that were known: one round trip for a unit in its usual cgroup."""
    usual = default_group(name)
    asked = [boot_question(), show(name), control_group(usual)]
    boot, shown, members = await host.run_all(asked, timeout_s=READ_TIMEOUT_S)
    unit, old = unit_from(name, shown.text), known.of_this_boot(boot)
    if unit.control_group != usual:
        return unit, old | await processes(host, unit.control_group, unit.main_pid)
    return unit, old | set(pids_of(members.text)) | ({unit.main_pid} - {0})


async def _stop_unit(
    host: Host, step: StopService, fence: Fence, key: str, group: str, known: frozenset[int]
) -> Sequence[Completed]:
    """Let systemd stop it; what `_left` asks. A process that is stuck in the kernel keeps systemd waiting: then it is
    named."""
    lines = [must("systemctl", "stop", "--", step.unit)]
    try:
        return await run_unit(host, fence, key, lines, timeout_s=_bound(step), then=_left(step, group, known))
    except DeadlineExceeded as late:
        left = await _leftovers(host, step, group, known)
        if not any(one.own and one.state == UNINTERRUPTIBLE for one in left.values()):
            raise
        told = "; ".join(one.text for one in left.values())
        raise StepFailed("stop-service", f"{step.unit} does not end: {told}", hint=_remedy(host, step, left)) from late


async def processes(host: Host, group: str, main_pid: int) -> frozenset[int]:
    """The PIDs in a unit's cgroup, its main one among them; empty for a unit without processes."""
    if not group:
        return frozenset({main_pid} - {0})
    (read,) = await host.run_all([control_group(group)], timeout_s=READ_TIMEOUT_S)
    return frozenset(pids_of(read.text)) | ({main_pid} - {0})


async def _answering(host: Host, step: ServiceStep) -> list[str]:
    """What answers although no process of the host listens: a container's port that the kernel itself forwards."""
    async with Endpoint(host, f"http://127.0.0.1:{step.port}") as endpoint:
        answer = await endpoint.ask(HttpQuestion("GET", "/health"), timeout_s=ANSWER_TIMEOUT_S)
    said = f"something that answers on port {step.port} (HTTP {answer.status}) and is no process that listens there"
    return [said] if answer.status else []


def _remedy(host: Host, step: ServiceStep, left: Mapping[int, Leftover]) -> str:
    """Nothing ends a process that is stuck in the kernel, and SIGKILL has been sent: by systemd, and here by `kill`."""
    if any(one.own and (one.state == UNINTERRUPTIBLE or step.leftovers == "kill") for one in left.values()):
        return f"it is stuck in the kernel and outlives SIGKILL: only a reboot of {host.name} ends it"
    return "end it by hand, or set `unit.stop.leftovers: kill`; find out why it does not end with its service"


def _bound(step: ServiceStep) -> float:
    return step.drain_s + step.timeout_s + STOP_MARGIN_S


def _left(step: ServiceStep, group: str, known: frozenset[int]) -> list[Argv]:
    """Who listens, who is in the cgroup, and what each process that was known before does."""
    group = group or default_group(step.unit)  # systemd forgets an inactive unit's cgroup, the kernel may not
    return [listeners(step.port), control_group(group), *([process_stats(sorted(known))] if known else [])]


async def _leftovers(
    host: Host, step: ServiceStep, group: str, known: frozenset[int], told: Sequence[Completed] = ()
) -> dict[int, Leftover]:
    """By PID: members of the cgroup, holders of the port, and processes known from before that are still alive. `told`
    are answers to `_left` that are there already."""
    answered = told or await host.run_all(_left(step, group, known), timeout_s=READ_TIMEOUT_S)
    listening, members, *stats = answered
    there = {line.split(" ")[0] for stat in stats for line in stat.text.splitlines()}
    gone = {pid for pid in known if str(pid) not in there}
    holding = {pid for _, pid in listeners_of(listening.text)}
    own = known | set(pids_of(members.text))
    candidates = sorted((own | holding) - gone)
    asked = [question for pid in candidates for question in (cmdline(pid), process_stat(pid))]
    answers = await host.run_all(asked, timeout_s=READ_TIMEOUT_S) if asked else ()
    found = {}
    for pid, read, stat in zip(candidates, answers[::2], answers[1::2], strict=True):
        words, state = " ".join(words_of(read.stdout))[:120], stat.text.rpartition(")")[2].strip()[:1]
        if words or pid in holding:
            holds = f"port {step.port}" if pid in holding else "memory"
            holds += f" and is in state {UNINTERRUPTIBLE}" if state == UNINTERRUPTIBLE else ""
            found[pid] = Leftover(pid in own, f"PID {pid} ({words or 'unknown'}), which holds {holds}", state)
    return found


async def _end_own(
    host: Host, step: ServiceStep, group: str, fence: Fence, key: str, known: frozenset[int]
) -> dict[int, Leftover]:
    """SIGKILL what is left of the service itself, never a stranger on its port; what is left after that."""
    left = await _leftovers(host, step, group, known)
    mine = [pid for pid, leftover in left.items() if leftover.own]
    if not mine:
        return left
    await run_unit(host, fence, f"{key}:kill", [may("kill", "-KILL", *map(str, mine))], timeout_s=READ_TIMEOUT_S)
    await forget_units(host, fence, [fence.unit(f"{key}:kill")])  # joined by a later attempt, it would not kill again
    return await _settled(host, step, group, known)


async def _settled(host: Host, step: ServiceStep, group: str, own: frozenset[int]) -> dict[int, Leftover]:
    """What is left once the kernel has taken the killed ones away; a process in state D may outlive SIGKILL."""
    look = partial(_leftovers, host, step, group, own)
    return await ask_again(look, bool, wait=wait_fixed(0.1), stop=stop_after_attempt(SETTLING_LOOKS))


def default_group(unit: str) -> str:
    """Where systemd puts a service without Slice=: instances of a template share a slice (systemd.special(7)), whose
    name holds the template's, with a dash written as `\\x2d` (systemd.unit(5), "String Escaping")."""
    prefix, at, _ = unit.partition("@")
    shared = "system-" + prefix.replace("-", r"\x2d") + ".slice/" if at else ""
    return f"/system.slice/{shared}{unit}"
