"""Whose lines and whose argv count: the processes of one start, told from wrappers, forks and leftovers."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.evidence import Evidence
from tasks.hosts.port import Argv, Completed
from tasks.processes import Process, earlier, members, older, topmost
from tasks.service import default_group

ENGINE = ("python", "-m", "sglang.launch_server")
BASH = ("/bin/bash", "-c", "python -m sglang.launch_server; exit $?")


def is_engine(words: Sequence[str]) -> bool:
    return tuple(words) == ENGINE


TREES = [
    pytest.param([Process(10, ENGINE, 1, 100)], 10, id="alone"),
    pytest.param([Process(10, BASH, 1, 100), Process(11, ENGINE, 10, 101)], 11, id="below-a-wrapper"),
    pytest.param(
        [Process(12, ENGINE, 11, 103), Process(10, BASH, 1, 1), Process(11, ENGINE, 10, 101)], 11, id="forked"
    ),
    pytest.param([Process(7, ENGINE, 1, 50), Process(11, ENGINE, 10, 101)], 11, id="of-two-the-later"),
    pytest.param([Process(10, BASH, 1, 100)], None, id="nowhere"),
    pytest.param([], None, id="no-process"),
]


@pytest.mark.parametrize(("processes", "pid"), TREES)
def test_the_engine_is_the_topmost_process_of_its_argv(processes: list[Process], pid: int | None) -> None:
    found = topmost(processes, is_engine)
    assert (found.pid if found else None) == pid


LEFT = [
    pytest.param([Process(9, (), 1, 99, ""), Process(10, (), 1, 100, "new")], {9}, id="began-before-the-main-process"),
    pytest.param([Process(9, (), 1, 100, "old"), Process(10, (), 1, 100, "new")], {9}, id="in-the-same-tick"),
    pytest.param(
        [Process(10, (), 1, 100, "new"), Process(11, (), 10, 100, "new")], set(), id="a-child-in-the-same-tick"
    ),
    pytest.param(
        [Process(10, (), 1, 100, "new"), Process(11, (), 1, 130, "")], set(), id="a-child-that-cleared-its-own"
    ),
    pytest.param([Process(10, (), 1, 100, "odd")], set(), id="the-main-process-itself"),
    pytest.param([Process(11, (), 1, 130, "new")], set(), id="no-main-process"),
]


@pytest.mark.parametrize(("processes", "old"), LEFT)
def test_older_processes_are_told_by_their_beginning_and_their_invocation(
    processes: list[Process], old: set[int]
) -> None:
    assert older(processes, 10, "new") == old


@dataclass
class ProcFiles:
    """A host that has `cat` and these files: as GNU's it goes on after one that is not there, and exits with 1."""

    files: dict[str, bytes]
    name: str = "serving"
    asked: list[Argv] = field(default_factory=list)

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        self.asked += argvs
        return tuple(self._cat(argv.words[2:]) for argv in argvs)

    def _cat(self, paths: Sequence[str]) -> Completed:
        return Completed(int(any(p not in self.files for p in paths)), b"".join(self.files.get(p, b"") for p in paths))

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(f"nothing of a unit's processes is followed, but {argv.words} was")

    def transport(self) -> httpx.AsyncBaseTransport:
        raise AssertionError("a unit's processes are not asked for over HTTP")

    async def aclose(self) -> None: ...


@st.composite
def proc_files(draw: st.DrawFn) -> dict[str, bytes]:
    """Some processes of a control group: which began when, with which environment, the last byte of which may be lost
    to a title that was written over it; some are gone by the time they are asked about."""
    pids = draw(st.lists(st.integers(8, 14), unique=True, max_size=5))
    files = {"/sys/fs/cgroup/g/cgroup.procs": b"".join(b"%d\n" % pid for pid in pids)}
    for pid in draw(st.sets(st.sampled_from(pids))) if pids else ():
        began = draw(st.integers(99, 101))
        invocation = draw(st.sampled_from([b"", b"INVOCATION_ID=new\0", b"INVOCATION_ID=old\0"]))
        variables = draw(st.permutations([b"LANG=C\0", invocation, b"X=1\0"]))
        files[f"/proc/{pid}/cmdline"] = b"engine\0"
        files[f"/proc/{pid}/stat"] = b"%d (a (b) c) S 1 %s%d 0\n" % (pid, b"0 " * 17, began)
        files[f"/proc/{pid}/environ"] = b"".join(variables)[: draw(st.sampled_from([None, -1]))]
    return files


@given(proc_files())
async def test_all_at_once_are_told_as_one_by_one(files: dict[str, bytes]) -> None:
    host = ProcFiles(files)
    assert await earlier(host, "/g", 10, "new") == older(await members(host, "/g"), 10, "new")


async def test_processes_of_one_start_are_asked_about_with_two_programs() -> None:
    stats = {f"/proc/{pid}/stat": b"%d (e) S 1 %s%d 0\n" % (pid, b"0 " * 17, pid) for pid in range(10, 20)}
    environs = {f"/proc/{pid}/environ": b"INVOCATION_ID=new\0" for pid in range(10, 20)}
    host = ProcFiles(
        {**stats, **environs, "/sys/fs/cgroup/g/cgroup.procs": b"\n".join(b"%d" % p for p in range(10, 20))}
    )
    assert await earlier(host, "/g", 10, "new") == frozenset()
    assert len(host.asked) == 3


@pytest.mark.parametrize(
    ("unit", "group"),
    [
        pytest.param("a.service", "/system.slice/a.service", id="plain"),
        pytest.param("a@1.service", "/system.slice/system-a.slice/a@1.service", id="instance"),
        pytest.param("a-b@1.service", r"/system.slice/system-a\x2db.slice/a-b@1.service", id="dash"),
    ],
)
def test_a_stopped_unit_s_control_group_is_known(unit: str, group: str) -> None:
    assert default_group(unit) == group


NEW, OLD = 200, 100


def record(pid: int, stream: str, text: str) -> bytes:
    """A line of the new start's invocation, whoever wrote it."""
    known = {"_PID": str(pid), "_SYSTEMD_INVOCATION_ID": "new", "MESSAGE": text}
    return json.dumps(known | ({"_STREAM_ID": stream} if stream else {})).encode()


def evidence(records: Sequence[bytes], *, living: Sequence[int] = (NEW,), old: Sequence[int] = ()) -> Evidence:
    context: dict[str, Any] = {"invocation": "new", "main_pid": NEW, "old_pids": list(old)}
    items = {"context": context, "processes": list(living)}
    return Evidence({name: json.dumps(v).encode() for name, v in items.items()} | {"journal": b"\n".join(records)})


def decoded(pid: int) -> str:
    return f"[2026-11-29 10:00:00 TP0] Decode batch, #running-req: {pid}, accept len: 1.00"


STREAMS = [
    pytest.param([OLD], [NEW, OLD], 2, id="alive-in-the-control-group"),
    pytest.param([], [NEW], 0, id="ended-meanwhile-and-known-by-its-connection"),
]


@pytest.mark.parametrize(("old", "living", "told"), STREAMS)
def test_an_older_process_s_lines_are_left_out(old: list[int], living: list[int], told: int) -> None:
    """A child of the older one, which nobody knows, wrote through the same connection."""
    lines = [record(NEW, "b", decoded(NEW)), record(OLD, "a", decoded(OLD)), record(OLD + 1, "a", decoded(OLD + 1))]
    found = evidence(lines, living=living, old=old)
    assert [pid for boot in found.log.boots for pid in boot.pids] == [NEW]
    assert found.stranger_records == told


@given(st.lists(st.tuples(st.sampled_from([NEW, NEW + 1, NEW + 2]), st.sampled_from(["", "b"]))))
def test_no_line_of_the_start_itself_is_left_out(writers: list[tuple[int, str]]) -> None:
    """Children that ended wrote through the same connection; what came another way has no `_STREAM_ID`."""
    lines = [record(pid, stream, decoded(pid)) for pid, stream in [(NEW, "b"), *writers]]
    found = evidence(lines)
    assert {pid for boot in found.log.boots for pid in boot.pids} == {NEW, *(pid for pid, _ in writers)}
    assert found.stranger_records == 0
