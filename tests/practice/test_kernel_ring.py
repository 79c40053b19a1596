"""The kernel's ring buffer beside the journal."""

import pytest

from tasks.kernel_ring import RING, newest, since
from tasks.practice.host import PracticeMachine
from tasks.practice.simulated import SimulatedHost
from tests.practice.session import Session
from tests.practice.virtual_time import in_virtual_time


@pytest.mark.parametrize(
    ("ring", "last", "expected"),
    [
        pytest.param("a\nb\nc\n", "b", ["c"], id="what-came-after"),
        pytest.param("a\nb\n", "b", [], id="nothing-came"),
        pytest.param("c\nd\n", "b", ["c", "d"], id="overwritten-meanwhile"),
        pytest.param("a\n", "", ["a"], id="empty-before"),
        pytest.param("", "b", [], id="not-to-be-read"),
    ],
)
def test_lines_since_the_last_look(ring: str, last: str, expected: list[str]) -> None:
    assert since(ring, last) == expected


def test_the_newest_of_none_is_empty() -> None:
    assert newest("") == ""


@in_virtual_time
async def test_it_is_roots_and_holds_this_boots_lines() -> None:
    machine = PracticeMachine()
    machine.kernel("nvidia 0000:01:00.0: enabling device")
    refused = await Session(machine, "interlock")("dmesg")
    assert (refused.status, refused.stderr) == (1, b"dmesg: read kernel buffer failed: Operation not permitted\n")
    (read,) = await SimulatedHost(machine, "h", "interlock").run_all([RING], timeout_s=1)
    assert newest(read.text).endswith("] nvidia 0000:01:00.0: enabling device")
    await machine.reboot()
    assert (await Session(machine)("dmesg")).stdout == b""


@in_virtual_time
async def test_a_stalled_journald_writes_down_afterwards_what_was_said() -> None:
    machine = PracticeMachine()
    with machine.journal.stalled():
        machine.kernel("first")
        with machine.journal.stalled():
            machine.kernel("second")
        assert not machine.journal.records
        assert [line.rpartition("] ")[2] for line in machine.journal.ring] == ["first", "second"]
    assert [record.text("MESSAGE") for record in machine.journal.records] == ["first", "second"]
