"""The simulated machine answers as real systemd does: the same words said to both, the answers line by line."""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.lab import lab
from tasks.lab.layer import Furnishing
from tasks.lab.record import LabHost
from tests.lab.likeness import PATH, SHOWN, UNIT, Scene, cleared, real, simulated, transcript, unit

pytestmark = pytest.mark.lab
SAID = f"journalctl --no-pager --output=cat --unit={UNIT}"
BEGUN = (f"systemctl start {UNIT}", "said:a warning", f"{SHOWN}{UNIT}")
ENDED = (f"systemctl stop {UNIT}", f"{SHOWN}{UNIT}")
DROP_IN = f"/etc/systemd/system/{UNIT}.d/more.conf"
FILE = f"/etc/systemd/system/{UNIT}"
ONESHOT = "systemd-run --quiet --unit=app --description=Step --property=Type=oneshot --property=RemainAfterExit=yes"
STEP = f"{SHOWN}app.service"
FAILED_EARLY = (
    f"systemctl start {UNIT}",
    "until:ActiveState=failed",
    f"{SHOWN}{UNIT}",
    SAID,
    f"journalctl --no-pager --output=cat UNIT={UNIT}",
)
"""The child's words about a user or a group are not among those that journalctl tells of the unit."""
LATER = "systemctl show --property=LoadState,ActiveState,SubState,Result -- "

SCENES = [
    pytest.param(Scene((*BEGUN, *ENDED, SAID), unit()), id="a-start-and-a-stop"),
    pytest.param(
        Scene(
            (
                f"systemctl start {UNIT}",
                "until:ActiveState=failed",
                f"{SHOWN}{UNIT}",
                SAID,
                f"systemctl reset-failed -- {UNIT}",
                f"{SHOWN}{UNIT}",
            ),
            unit("--exit 3"),
        ),
        id="an-exit-status",
    ),
    pytest.param(Scene((*BEGUN, *ENDED, SAID), unit("", "ExecStartPre=/bin/true\n")), id="a-command-before"),
    pytest.param(
        Scene((f"systemctl start {UNIT}", "until:ActiveState=inactive", f"{SHOWN}{UNIT}", SAID), unit("--exit 0")),
        id="an-end-by-itself",
    ),
    pytest.param(
        Scene(
            (f"systemctl start {UNIT}", "until:ActiveState=failed", f"{SHOWN}{UNIT}", SAID, f"systemctl start {UNIT}"),
            unit("--exit 1", "Restart=always\nRestartSec=50ms\n", "StartLimitIntervalSec=60\nStartLimitBurst=3\n"),
        ),
        id="a-restart-loop-until-its-limit",
    ),
    pytest.param(Scene((*BEGUN, *ENDED, SAID), unit("--deaf", "TimeoutStopSec=1\n")), id="a-stop-that-takes-too-long"),
    pytest.param(Scene((*BEGUN, *ENDED, SAID, *BEGUN), unit("--child", "KillMode=process\n")), id="a-child-that-stays"),
    pytest.param(
        Scene((*BEGUN, *ENDED, SAID), unit("--child", "KillMode=mixed\nTimeoutStopSec=1\n")), id="a-mixed-stop"
    ),
    pytest.param(
        Scene(
            (f"systemctl start {UNIT}", "until:ActiveState=failed", f"{SHOWN}{UNIT}", SAID),
            {FILE: "[Service]\nExecStart=/no/such\n"},
            in_any_order=True,
        ),
        id="no-such-program",
    ),
    pytest.param(
        Scene(
            (f"systemctl start {UNIT}", f"{SHOWN}{UNIT}", SAID),
            {FILE: "[Service]\nType=exec\nExecStart=/no/such\n"},
            in_any_order=True,
        ),
        id="no-such-program-with-type-exec",
    ),
    *(
        pytest.param(Scene(FAILED_EARLY, unit("", more), in_any_order=True), id=name)
        for name, more in {
            "no-such-user": "User=nobody-such\n",
            "no-such-user-with-type-exec": "Type=exec\nUser=4242\n",
            "no-such-user-for-a-command-before": "ExecStartPre=/bin/true\nUser=nobody-such\n",
            "no-such-group": "Type=exec\nGroup=nobody-such\n",
            "no-such-working-directory": "WorkingDirectory=/no/such\n",
        }.items()
    ),
    pytest.param(
        Scene((f"systemctl start {UNIT}", f"{SHOWN}{UNIT}", SAID), unit("", "EnvironmentFile=/no/such\n")),
        id="no-such-environment-file",
    ),
    pytest.param(
        Scene(
            (
                *BEGUN,
                f"append:{FILE}|# more\n",
                f"{SHOWN}{UNIT}",
                f"systemctl restart {UNIT}",
                "systemctl daemon-reload",
                f"{SHOWN}{UNIT}",
                f"systemctl cat -- {UNIT}",
            ),
            unit(),
        ),
        id="a-file-changed-on-disk",
    ),
    pytest.param(
        Scene(
            (f"systemctl cat -- {UNIT}", f"{SHOWN}{UNIT}", f"systemctl start {UNIT}", f"systemctl is-active {UNIT}"),
            unit() | {DROP_IN: "[Service]\nEnvironment=A=1\n"},
        ),
        id="a-drop-in",
    ),
    pytest.param(
        Scene(
            (
                "systemctl start app@1.service",
                f"{SHOWN}app@1.service",
                "systemctl stop app@1.service",
                "systemctl start app@.service",
            ),
            {"/etc/systemd/system/app@.service": f"[Unit]\nDescription=App %i\n[Service]\nExecStart={PATH} %i\n"},
        ),
        id="a-template",
    ),
    pytest.param(
        Scene(
            (
                "systemctl is-enabled no.service",
                "systemctl start no.service",
                "systemctl stop no.service",
                "systemctl restart no.service",
                "systemctl cat -- no.service",
                f"{SHOWN}no.service",
                "systemctl is-active no.service",
                "systemctl reset-failed -- no.service",
            ),
            {},
        ),
        id="no-such-unit",
    ),
    pytest.param(
        Scene(
            (
                f"{ONESHOT} -- true",
                STEP,
                f"{ONESHOT} -- true",
                "systemctl start -- app.service",
                STEP,
                "systemctl stop -- app.service",
                STEP,
                "journalctl --no-pager -o cat -u app.service",
            ),
            {},
        ),
        id="a-oneshot",
    ),
    pytest.param(
        Scene(
            (
                f"{ONESHOT} -- false",
                STEP,
                f"{ONESHOT} -- true",
                "systemctl reset-failed -- app.service",
                STEP,
                f"{ONESHOT} -- true",
                "journalctl --no-pager -o cat -u app.service",
            ),
            {},
        ),
        id="a-oneshot-that-fails",
    ),
    pytest.param(Scene((f"{ONESHOT} -- /no/such", STEP), {}), id="a-oneshot-of-no-program"),
    pytest.param(
        Scene(
            (
                "systemd-run --unit=app --on-active=300s --timer-property=AccuracySec=1s -- /bin/true",
                f"{LATER}app.timer",
                f"{LATER}app.service",
                "systemctl restart -- app.timer",
                f"{LATER}app.timer",
                "systemd-run --unit=app --on-active=300s -- /bin/true",
                "systemctl stop -- app.timer",
                f"{LATER}app.timer",
                f"{LATER}app.service",
                "systemctl restart -- app.timer",
            ),
            {},
        ),
        id="a-timer",
    ),
    pytest.param(Scene((f"systemd-analyze verify {FILE}",), unit()), id="a-unit-that-verifies"),
    pytest.param(
        Scene((f"systemd-analyze verify {FILE}",), unit("", "ExecStartPre=/no/such\nKillMode=perhaps\nNonsense=1\n")),
        id="a-unit-that-does-not",
    ),
    pytest.param(
        Scene(("systemd-analyze verify /var/tmp/app.service",), {"/var/tmp/app.service": "[Service]\nType=simple\n"}),
        id="a-unit-without-a-program",
    ),
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[LabHost]]:
    """One host for all scenes of this module, booted by the first."""
    booted: list[LabHost] = []
    yield booted
    for host in booted:
        lab.down_one(host)


@pytest.mark.parametrize(("number", "scene"), [pytest.param(n, *p.values, id=p.id) for n, p in enumerate(SCENES)])
async def test_both_answer_alike(number: int, scene: Scene, tmp_path: Path, hosts: list[LabHost]) -> None:
    if not hosts:
        hosts += await lab.up([Furnishing(enabled=False)], tied=True)
    await cleared(hosts[0])
    theirs = await transcript(real(hosts[0], f"app{number}"), scene)
    async with simulated(tmp_path) as machine:
        ours = await transcript(machine, scene)
    differing = "\n".join(difflib.unified_diff(theirs, ours, "systemd", "simulated", lineterm="", n=2))
    assert not differing, differing
