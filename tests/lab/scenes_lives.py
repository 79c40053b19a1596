"""Scenes of a service's life: starts, ends, failures before its program, what is remembered of it."""

import pytest

from tests.lab.likeness import BEGUN, ENDED, FILE, SAID, SHOWN, UNIT, Scene, unit

DROP_IN = f"/etc/systemd/system/{UNIT}.d/more.conf"
FORGOTTEN = (f"systemctl reset-failed {UNIT}", f"systemctl stop {UNIT}", f"{SHOWN}{UNIT}")
LIMIT = "StartLimitIntervalSec=60\nStartLimitBurst=2\n"
BY_HAND = (f"systemctl start {UNIT}", f"systemctl stop {UNIT}") * 3
ABOUT = f"journalctl --no-pager --output=cat UNIT={UNIT}"
"""What PID 1 and its forked children say of the unit. Of a child that is gone when journald looks, the journal does not
know whose it was: journalctl may leave it out when it is asked for the unit."""
FAILED_EARLY = (f"systemctl start {UNIT}", "until:ActiveState=failed", f"{SHOWN}{UNIT}", ABOUT)

LIVES = [
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
            (f"systemctl start {UNIT}", "until:ActiveState=failed", f"{SHOWN}{UNIT}", ABOUT),
            {FILE: "[Service]\nExecStart=/no/such\n"},
            in_any_order=True,
        ),
        id="no-such-program",
    ),
    pytest.param(
        Scene(
            (f"systemctl start {UNIT}", f"{SHOWN}{UNIT}", ABOUT),
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
        Scene((*BEGUN, *ENDED, *FORGOTTEN, SAID), unit(), wanted=False), id="a-unit-that-nothing-wants-is-unloaded"
    ),
    pytest.param(
        Scene((*BEGUN, *ENDED, *FORGOTTEN), unit("--child", "KillMode=process\n"), wanted=False),
        id="but-not-while-a-child-of-it-lives",
    ),
    pytest.param(
        Scene(
            (
                f"systemctl start {UNIT}",
                "until:ActiveState=failed",
                f"append:{FILE}|# more\n",
                f"{SHOWN}{UNIT}",
                f"systemctl reset-failed -- {UNIT}",
                f"{SHOWN}{UNIT}",
            ),
            unit("--exit 3"),
            wanted=False,
        ),
        id="but-not-while-it-has-failed",
    ),
    pytest.param(
        Scene(BY_HAND, unit("", "", LIMIT), wanted=False), id="a-unit-that-nothing-wants-has-no-limit-of-starts"
    ),
    pytest.param(Scene(BY_HAND, unit("", "", LIMIT)), id="a-wanted-one-has"),
    pytest.param(
        Scene(
            (
                *BEGUN,
                f"append:{FILE}|# more\n",
                f"{SHOWN}{UNIT}",
                f"systemctl --quiet enable {UNIT}",
                f"{SHOWN}{UNIT}",
                *ENDED,
                f"systemctl --quiet disable {UNIT}",
                f"{SHOWN}{UNIT}",
                *BEGUN[:2],
                *ENDED,
            ),
            {FILE: unit()[FILE] + "[Install]\nWantedBy=multi-user.target\n"},
            wanted=False,
        ),
        id="enabled-and-disabled-while-it-is-loaded",
    ),
    pytest.param(
        Scene(
            (
                f"systemctl enable --now {UNIT}",
                "said:a warning",
                f"{SHOWN}{UNIT}",
                f"systemctl is-enabled {UNIT}",
                f"systemctl disable --now {UNIT}",
                f"{SHOWN}{UNIT}",
                f"systemctl is-enabled {UNIT}",
                f"systemctl --quiet enable --now {UNIT}",
                f"systemctl --quiet disable --now {UNIT}",
                "systemctl enable --now no.service",
                "systemctl disable --now no.service",
            ),
            {FILE: unit()[FILE] + "[Install]\nWantedBy=multi-user.target\n"},
            wanted=False,
        ),
        id="enabled-and-started-disabled-and-stopped-in-one",
    ),
    pytest.param(
        Scene(
            (f"systemctl enable --now {UNIT}", f"systemctl is-enabled {UNIT}", f"{SHOWN}{UNIT}"),
            {FILE: unit("", "ExecStartPre=/bin/false\n")[FILE] + "[Install]\nWantedBy=multi-user.target\n"},
            wanted=False,
        ),
        id="enabled-though-its-start-fails",
    ),
]
