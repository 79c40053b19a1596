"""The processes of a unit: which of them is the engine, and which were there before its main process."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tasks.argv import cmdline, control_group, environ, environs, process_stat, process_stats
from tasks.hosts.port import Completed, Host
from tasks.properties import pids_of, variables_of, words_of
from tasks.sequence import READ_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Process:
    """A living process; `started` counts clock ticks since the host's boot (proc(5), `/proc/PID/stat`). `invocation` is
    the INVOCATION_ID in its environment, empty where it has none or may not be read."""

    pid: int
    argv: tuple[str, ...]
    parent: int
    started: int
    invocation: str = ""


async def members(host: Host, group: str) -> tuple[Process, ...]:
    """What lives in a control group; none for the empty name of a unit that has no group."""
    if not group:
        return ()
    (read,) = await host.run_all([control_group(group)], timeout_s=READ_TIMEOUT_S)
    pids = pids_of(read.text)
    asked = [question for pid in pids for question in (cmdline(pid), process_stat(pid), environ(pid))]
    answers = await host.run_all(asked, timeout_s=READ_TIMEOUT_S) if asked else ()
    return tuple(
        Process(pid, words_of(words.stdout), *_parent_and_start(stat.text), _invocation(variables.stdout))
        for pid, words, stat, variables in zip(pids, answers[::3], answers[1::3], answers[2::3], strict=True)
        if words.ok and stat.ok
    )


async def earlier(
    host: Host, group: str, main_pid: int, invocation: str, living: Completed | None = None
) -> frozenset[int]:
    """What `older` tells of the members of a control group, in two round trips and with two programs for all of them:
    only where an environment tells of another invocation is each process asked for itself. `living` is the group's
    `cgroup.procs` where it has been read."""
    if not group:
        return frozenset()
    if living is None:
        (living,) = await host.run_all([control_group(group)], timeout_s=READ_TIMEOUT_S)
    if not (pids := pids_of(living.text)):
        return frozenset()
    stats, variables = await host.run_all([process_stats(pids), environs(pids)], timeout_s=READ_TIMEOUT_S)
    if set(_INVOCATIONS.findall(variables.stdout)) - {invocation.encode()}:
        return older(await members(host, group), main_pid, invocation)
    began = {line.partition(" ")[0]: _parent_and_start(line)[1] for line in stats.text.split("\n") if line}
    main = began.get(str(main_pid), 0)
    return frozenset(pid for pid in pids if began.get(str(pid), main) < main)


def older(processes: Sequence[Process], main_pid: int, invocation: str) -> frozenset[int]:
    """PIDs of those that an earlier start left in the unit's control group: they began before the main process, or
    their environment tells of another invocation. Ticks alone are too coarse (10 ms): systemd may start a unit anew
    within the one in which the old processes forked for the last time (seen)."""
    main = next((p for p in processes if p.pid == main_pid), None)
    return frozenset(
        p.pid
        for p in processes
        if (main and p.started < main.started) or (p.invocation and p.invocation != invocation and p is not main)
    )


def topmost(processes: Sequence[Process], is_engine: Callable[[Sequence[str]], bool]) -> Process | None:
    """The engine among the processes of a start. Forked children show the argv of their parent, so it is the one whose
    parent is none itself; of several the one that began last."""
    found = {p.pid: p for p in processes if is_engine(p.argv)}
    return max((p for p in found.values() if p.parent not in found), key=lambda p: p.started, default=None)


_INVOCATIONS = re.compile(rb"INVOCATION_ID=(\w*)")
"""Wherever it stands: a process that wrote its title over its environment may have cut that at any byte."""


def _invocation(variables: bytes) -> str:
    return variables_of(variables).get("INVOCATION_ID", "")


def _parent_and_start(stat: str) -> tuple[int, int]:
    """Fields 4 and 22; the name in field 2 may hold spaces and brackets, so counting begins behind its last one."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 else (0, 0)
