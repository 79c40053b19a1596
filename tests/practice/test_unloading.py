"""What systemd remembers of a unit that is down: all where something refers to it, nothing where nothing does."""

import pytest

from tasks.practice.host import PracticeMachine
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

UNIT = "[Unit]\nDescription=App\n[Service]\nExecStart=/opt/app/run\n"
PAST = ("InvocationID", "ExecMainStatus")


def session(text: str = UNIT, *, wanted: bool = False, **how: object) -> Session:
    run = Session(PracticeMachine(factory=acting(**how)))
    run.install("app.service", text)
    if wanted:
        run.want("app.service")
    return run


async def past(run: Session) -> bool:
    return (await run.shown("app.service", *PAST))["InvocationID"] != ""


@pytest.mark.parametrize(
    ("run", "remembered"),
    [
        pytest.param(lambda: session(), False, id="a-unit-that-nothing-wants"),
        pytest.param(lambda: session(wanted=True), True, id="one-that-a-target-wants"),
        pytest.param(lambda: session(UNIT + "KillMode=process\n", keeps=[["worker"]]), True, id="one-with-a-leftover"),
        pytest.param(lambda: session(UNIT + "RemainAfterExit=yes\n", lives_s=0), False, id="one-that-had-exited"),
    ],
)
@in_virtual_time
async def test_a_stopped_unit(run: object, remembered: bool) -> None:
    made = run()  # type: ignore[operator]  # a session of the table
    await made("systemctl", "start", "app.service")
    assert await past(made)
    assert (await made("systemctl", "stop", "app.service")).status == 0
    assert await past(made) == remembered


@in_virtual_time
async def test_a_failed_unit_stays_until_it_is_reset() -> None:
    run = session(lives_s=0, status=3)
    await run("systemctl", "start", "app.service")
    await run.until(lambda: "app.service: Failed with result 'exit-code'." in _said(run))
    assert (await run.shown("app.service", *PAST))["ExecMainStatus"] == "3"
    assert (await run("systemctl", "reset-failed", "app.service")).status == 0
    assert not await past(run)
    again = await run("systemctl", "reset-failed", "app.service")
    assert (again.status, again.stderr) == (
        1,
        b"Failed to reset failed state of unit app.service: Unit app.service not loaded.\n",
    )


@in_virtual_time
async def test_a_leftovers_end_is_the_end_of_its_unit() -> None:
    run = session(UNIT + "KillMode=process\n", keeps=[["worker"]])
    await run("systemctl", "start", "app.service")
    await run("systemctl", "stop", "app.service")
    assert await past(run)
    assert (await run("systemctl", "kill", "--signal=KILL", "app.service")).status == 0
    assert not await past(run)


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "not-wanted"])
@in_virtual_time
async def test_starts_by_hand_are_counted_while_the_unit_is_loaded(wanted: bool) -> None:
    run = session(wanted=wanted)
    statuses = []
    for _ in range(6):
        statuses.append((await run("systemctl", "start", "app.service")).status)
        await run("systemctl", "stop", "app.service")
    assert statuses == [0, 0, 0, 0, 0, 1 if wanted else 0]


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "not-wanted"])
@in_virtual_time
async def test_a_file_changed_while_the_unit_is_down(wanted: bool) -> None:
    """Only what is loaded can be out of date."""
    run = session(wanted=wanted)
    await run("systemctl", "start", "app.service")
    await run("systemctl", "stop", "app.service")
    run.machine.files.put("/etc/systemd/system/app.service", UNIT.replace("App", "Other"))
    shown = await run.shown("app.service", "Description", "NeedDaemonReload")
    expected = {"Description": "App", "NeedDaemonReload": "yes"}
    assert shown == (expected if wanted else {"Description": "Other", "NeedDaemonReload": "no"})


@in_virtual_time
async def test_a_link_counts_from_the_next_reload_and_enable_reloads() -> None:
    run = session(UNIT + "[Install]\nWantedBy=multi-user.target\n")
    await run("systemctl", "start", "app.service")
    await run("systemctl", "--quiet", "enable", "app.service")
    await run("systemctl", "stop", "app.service")
    assert await past(run)
    run.machine.files.remove("/etc/systemd/system/multi-user.target.wants/app.service")
    assert await past(run)
    await run("systemctl", "daemon-reload")
    assert not await past(run)


def _said(run: Session) -> list[str]:
    return [record.text("MESSAGE") for record in run.machine.journal.records]
