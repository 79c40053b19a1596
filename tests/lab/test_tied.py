"""Hosts tied to the process that booted them: however it ends, nothing of them stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.lab import container, lab
from tasks.lab.record import LabHost, recorded
from tests.lab.leavings import guards, in_time, members, still_there, traces, watched

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[2]
BOOTS = """
import asyncio, sys
from tasks.lab import lab
from tasks.lab.layer import Furnishing
(host,) = asyncio.run(lab.up([Furnishing()], tied=True))
print(host.name, flush=True)
sys.stdin.read()
"""


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], LabHost]]:
    """Another process that has booted a host tied to it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen((sys.executable, "-c", BOOTS), env=environment, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, lab.find(child.stdout.readline().strip())
        finally:
            child.kill()


def test_a_host_is_gone_whole_once_the_process_it_is_tied_to_is_killed() -> None:
    """systemd-nspawn alone dies of its parent's death; the container's own PID 1 would live on."""
    with owner() as (child, host):
        inside = members(host)
        assert {host.pid, *guards(host)} < inside
        with watched(inside) as ended:
            child.kill()
            assert in_time(lambda: still_there(ended, inside)) == []
        assert in_time(lambda: traces(host)) == []
    assert host.number not in [known.number for known in recorded()]


def test_what_a_killed_guard_could_not_clear_is_cleared_by_the_next_boot() -> None:
    with owner() as (child, host):
        (keeper,) = guards(host)
        os.kill(keeper, signal.SIGKILL)
        child.kill()
        assert in_time(lambda: [host] if container.alive(host) else []) == []
        inside = members(host)
        assert inside  # its own systemd and what it started
        with watched(inside) as ended:
            lab.reap()
            assert still_there(ended, inside) == []
        assert traces(host) == []


def test_a_host_taken_down_by_another_process_is_gone_when_that_is_said() -> None:
    with owner() as (child, host):
        inside = members(host)
        with watched(inside) as ended:
            assert lab.down([host.name]) == [host]
            assert still_there(ended, inside) == []
        assert traces(host) == []
        assert child.poll() is None


def test_the_command_says_that_a_host_has_ended_once_none_of_its_processes_is_listed() -> None:
    words = (sys.executable, "-c", "from deployments.cli import main; main()", "lab")
    count = len(lab.running()) + 1
    before = {host.number for host in recorded()}
    subprocess.run((*words, "up", "--count", str(count)), cwd=ROOT, capture_output=True, check=True, timeout=120)
    (host,) = [known for known in lab.running() if known.number not in before]
    inside = members(host)
    with subprocess.Popen((*words, "down", host.name), cwd=ROOT, stdout=subprocess.PIPE, text=True) as down:
        assert down.stdout is not None
        said = down.stdout.readline()
        listed = [pid for pid in inside if Path(f"/proc/{pid}").exists()]
    assert (said, listed, traces(host)) == (f"ended {host.name}\n", [], [])
