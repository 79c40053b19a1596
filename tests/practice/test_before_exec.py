"""What comes before a program runs: its slice, the account, the working directory, where it is found."""

import pytest

from tasks.practice.host import PracticeMachine
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

UNIT = "[Unit]\nDescription=App\n[Service]\nExecStart=/opt/app/run\n"
ENDED = "app.service: Failed with result 'exit-code'."


def session(more: str) -> Session:
    run = Session(PracticeMachine(factory=acting()))
    run.install("app.service", UNIT + more)
    return run


async def all_said(run: Session) -> list[str]:
    return (await run("journalctl", "-o", "cat", "UNIT=app.service")).text.splitlines()


@pytest.mark.parametrize(
    ("more", "status", "step", "complaint"),
    [
        pytest.param("User=llm\n", "217", "USER", "Failed to determine user credentials", id="no-such-user"),
        pytest.param("User=4242\n", "217", "USER", "Failed to determine user credentials", id="a-number-of-nobody"),
        pytest.param("Group=llm\n", "216", "GROUP", "Failed to determine group credentials", id="no-such-group"),
        pytest.param("User=llm\nGroup=llm\n", "217", "USER", "Failed to determine user credentials", id="user-first"),
    ],
)
@in_virtual_time
async def test_an_unknown_account_ends_the_child_and_the_unit_does_not_tell_why(
    more: str, status: str, step: str, complaint: str
) -> None:
    """journald takes the child for PID 1's scope, so that `journalctl --unit` leaves its words out."""
    run = session(more)
    assert (await run("systemctl", "start", "app.service")).status == 0
    exited = f"app.service: Main process exited, code=exited, status={status}/{step}"
    assert await run.said("app.service") == ["Started app.service - App.", exited, ENDED]
    assert (await all_said(run))[1:3] == [
        f"app.service: {complaint}: No such process",
        f"app.service: Failed at step {step} spawning /opt/app/run: No such process",
    ]
    assert (await run.shown("app.service", "ExecMainStatus"))["ExecMainStatus"] == status


@in_virtual_time
async def test_a_working_directory_that_is_not_there_is_200_chdir() -> None:
    run = session("WorkingDirectory=/srv/llm\n")
    assert (await run("systemctl", "start", "app.service")).status == 0
    assert await run.said("app.service") == [
        "Started app.service - App.",
        "app.service: Changing to the requested working directory failed: No such file or directory",
        "app.service: Failed at step CHDIR spawning /opt/app/run: No such file or directory",
        "app.service: Main process exited, code=exited, status=200/CHDIR",
        ENDED,
    ]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("User=sglang\nGroup=systemd-journal\n", id="accounts-that-are-there"),
        pytest.param("WorkingDirectory=-/srv/llm\n", id="a-working-directory-that-need-not-be-there"),
        pytest.param("WorkingDirectory=/opt/app\n", id="a-working-directory-that-is-there"),
    ],
)
@in_virtual_time
async def test_a_child_that_gets_as_far_as_exec(more: str) -> None:
    run = session(more)
    assert (await run("systemctl", "start", "app.service")).status == 0
    assert (await run.shown("app.service", "SubState"))["SubState"] == "running"


@in_virtual_time
async def test_a_command_before_the_program_ends_alike() -> None:
    run = session("User=llm\nExecStartPre=/bin/true\n")
    assert (await run("systemctl", "start", "app.service")).status == 1
    assert await run.said("app.service") == [
        "Starting app.service - App...",
        "app.service: Control process exited, code=exited, status=217/USER",
        ENDED,
        "Failed to start app.service - App.",
    ]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        pytest.param("/usr/local/bin/tool", "/usr/local/bin/tool", id="on-the-path"),
        pytest.param("/usr/bin/tool", "/usr/bin/tool", id="at-its-end"),
        pytest.param("/opt/bin/tool", None, id="elsewhere"),
    ],
)
@in_virtual_time
async def test_a_program_is_found_by_its_name(place: str, path: str | None) -> None:
    run = session("")
    run.machine.files.put(place, "#!", mode=0o755)
    run.machine.files.put("/etc/systemd/system/app.service", UNIT.replace("/opt/app/run", "tool"))
    verified = await run("systemd-analyze", "verify", "/etc/systemd/system/app.service")
    assert verified.ok == (path is not None)
    await run("systemctl", "start", "app.service")
    by_hand = await run("systemd-run", "--unit=by-hand", "--", "tool", "a")
    assert by_hand.ok == (path is not None)
    if path is None:
        assert (await run.shown("app.service", "ExecMainStatus"))["ExecMainStatus"] == "203"
        assert by_hand.stderr == b"Failed to find executable tool: No such file or directory\n"
    else:
        assert (await run.shown("app.service", "SubState"))["SubState"] == "running"
        assert (await run.shown("by-hand.service", "Description"))["Description"] == f"{path} a"


@pytest.mark.parametrize(
    ("name", "more", "slice_", "group"),
    [
        pytest.param("a.service", "", "system.slice", "/system.slice/a.service", id="a-service"),
        pytest.param(
            "a-b@1-2.service", "", r"system-a\x2db.slice", r"/system.slice/system-a\x2db.slice/a-b@1-2.service",
            id="an-instance",
        ),
        pytest.param("a.service", "Slice=x-y.slice\n", "x-y.slice", "/x.slice/x-y.slice/a.service", id="chosen"),
        pytest.param("a.service", "Slice=-.slice\n", "-.slice", "/a.service", id="the-root"),
        pytest.param("a.service", "Slice=x\n", "system.slice", "/system.slice/a.service", id="no-slice-by-its-name"),
    ],
)  # fmt: skip
@in_virtual_time
async def test_the_slice_of_a_unit(name: str, more: str, slice_: str, group: str) -> None:
    run = session("")
    run.machine.files.put(f"/etc/systemd/system/{name}", UNIT + more)
    await run("systemctl", "start", name)
    assert await run.shown(name, "Slice", "ControlGroup") == {"Slice": slice_, "ControlGroup": group}
    await run("systemctl", "stop", name)
    assert await run.shown(name, "Slice", "ControlGroup") == {"Slice": slice_, "ControlGroup": ""}
