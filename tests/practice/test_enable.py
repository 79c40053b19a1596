"""Units that are linked to a target, and with `--now` started or stopped as well, in systemd 252's words."""

import asyncio

import pytest

from tasks.practice.host import PracticeMachine
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

UNIT = """[Unit]
Description=App
[Service]
ExecStart=/opt/app/run --port 1
[Install]
WantedBy=multi-user.target
"""
LINK = "/etc/systemd/system/multi-user.target.wants/app.service"
MADE = f"Created symlink {LINK} -> /etc/systemd/system/app.service.\n"


@pytest.mark.parametrize(
    ("words", "told", "state"),
    [
        pytest.param(("enable",), MADE, "inactive", id="enable-starts-nothing"),
        pytest.param(("enable", "--now"), MADE, "active", id="enable-now-starts-as-well"),
        pytest.param(("--quiet", "enable", "--now"), "", "active", id="and-without-a-word-where-it-is-quiet"),
        pytest.param(("enable", "--now", "--no-block"), MADE, "active", id="and-without-waiting"),
    ],
)
@in_virtual_time
async def test_enable(words: tuple[str, ...], told: str, state: str) -> None:
    run = Session(PracticeMachine(factory=acting()))
    run.install("app.service", UNIT)
    done = await run("systemctl", *words, "app.service")
    assert (done.status, done.stderr.decode()) == (0, told)
    await asyncio.sleep(0.1)
    assert await run.shown("app.service", "ActiveState") == {"ActiveState": state}
    assert (await run("systemctl", "is-enabled", "app.service")).text == "enabled\n"


@pytest.mark.parametrize(
    ("words", "state"),
    [
        pytest.param(("disable",), "active", id="disable-stops-nothing"),
        pytest.param(("disable", "--now"), "inactive", id="disable-now-stops-as-well"),
    ],
)
@in_virtual_time
async def test_disable(words: tuple[str, ...], state: str) -> None:
    run = Session(PracticeMachine(factory=acting()))
    run.install("app.service", UNIT)
    run.want("app.service")
    await run("systemctl", "start", "app.service")
    done = await run("systemctl", *words, "app.service")
    assert (done.status, done.stderr.decode()) == (0, f'Removed "{LINK}".\n')
    assert await run.shown("app.service", "ActiveState") == {"ActiveState": state}
    assert (await run("systemctl", "is-enabled", "app.service")).text == "disabled\n"


@in_virtual_time
async def test_a_unit_whose_start_is_refused_is_enabled_all_the_same() -> None:
    run = Session(PracticeMachine(factory=acting(lives_s=0.0, status=1)))
    run.install("app.service", UNIT.replace("[Service]\n", "[Service]\nExecStartPre=/bin/false\n"))
    done = await run("systemctl", "enable", "--now", "app.service")
    assert (done.status, done.stderr.decode().splitlines()[:2]) == (
        1,
        [
            MADE.rstrip(),
            "Job for app.service failed because the control process exited with error code.",
        ],
    )
    assert (await run("systemctl", "is-enabled", "app.service")).text == "enabled\n"


@pytest.mark.parametrize("verb", ["enable", "disable"])
@in_virtual_time
async def test_what_is_not_there_is_neither_linked_nor_started(verb: str) -> None:
    run = Session(PracticeMachine(factory=acting()))
    done = await run("systemctl", verb, "--now", "no.service")
    told = f"Failed to {verb} unit: Unit file no.service does not exist.\n"
    assert (done.status, done.stderr.decode()) == (1, told)
