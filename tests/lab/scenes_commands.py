"""Scenes of systemctl, systemd-run and systemd-analyze: names, slices, transient units, verification."""

import pytest

from tests.lab.likeness import BEGUN, ENDED, FILE, PATH, SHOWN, UNIT, Scene, unit

ONESHOT = "systemd-run --quiet --unit=app --description=Step --property=Type=oneshot --property=RemainAfterExit=yes"
STEP = f"{SHOWN}app.service"
SLICE = "systemctl show --property=Slice,ControlGroup -- "
WHAT = "systemctl show --property=Description,ActiveState,SubState,ExecMainStatus -- "
READS = tuple(
    f"journalctl --no-pager --output=cat {option}=CURSOR{match}"
    for option in ("--cursor", "--after-cursor")
    for match in ("", f" --unit={UNIT}", f" --unit={UNIT} _PID=1")
)
LATER = "systemctl show --property=LoadState,ActiveState,SubState,Result -- "

COMMANDS = [
    pytest.param(
        Scene(
            (
                f"systemd-run --quiet --unit=app --property=KillMode=process -- {PATH} --child",
                "said:a warning",
                *ENDED,
                f"systemctl kill --signal=KILL {UNIT}",
                "until:LoadState=not-found",
                f"{SHOWN}{UNIT}",
            ),
            {},
        ),
        id="a-transient-unit-whose-child-stays",
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
    *(
        pytest.param(
            Scene((f"systemctl start {name}", f"{SLICE}{name}", f"systemctl stop {name}", f"{SLICE}{name}"), files),
            id=f"the-slice-of-{words}",
        )
        for words, name, files in (
            ("a-service", UNIT, unit()),
            ("an-instance", "app@1.service", {"/etc/systemd/system/app@.service": f"[Service]\nExecStart={PATH} %i\n"}),
            (
                "an-instance-with-dashes",
                "my-app@a-b.service",
                {"/etc/systemd/system/my-app@.service": f"[Service]\nExecStart={PATH} %i\n"},
            ),
            ("its-own-choice", UNIT, unit("", "Slice=own.slice\n")),
            ("slices-within-slices", UNIT, unit("", "Slice=own-of-app.slice\n")),
            ("no-slice-by-its-name", UNIT, unit("", "Slice=own\n")),
            ("the-root", UNIT, unit("", "Slice=-.slice\n")),
        )
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
    *(
        pytest.param(
            Scene((f"systemd-run --unit=app --property=RemainAfterExit=yes -- {words}", f"{WHAT}{UNIT}"), {}),
            id=f"systemd-run-of-{name}",
        )
        for name, words in (
            ("a-name", "sleep 100"),
            ("a-path", "/usr/bin/sleep 100"),
            ("a-program-of-interlocks", "true"),
            ("no-name", "no-such-program"),
            ("no-path", "/no/such"),
        )
    ),
    pytest.param(
        Scene(
            (f"systemctl start {UNIT}", f"{WHAT}{UNIT}", f"systemd-analyze verify {FILE}"),
            {FILE: "[Service]\nExecStart=sleep 100\n"},
        ),
        id="a-program-by-its-name",
    ),
    pytest.param(
        Scene(
            (f"systemctl start {UNIT}", "until:ActiveState=failed", f"{WHAT}{UNIT}", f"systemd-analyze verify {FILE}"),
            {FILE: "[Service]\nExecStart=no-such-program 100\n"},
        ),
        id="no-program-by-its-name",
    ),
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
    *(
        pytest.param(Scene((*BEGUN, *before, "cursor", f"systemctl stop {UNIT}", *READS), unit()), id=name)
        for name, before in {
            "after-a-cursor-at-the-units-own-record": (),
            "after-a-cursor-at-anothers": ("systemd-run --quiet --unit=other --wait -- true",),
        }.items()
    ),
    pytest.param(Scene((*BEGUN, "cursor", *READS), unit()), id="after-a-cursor-with-nothing-since"),
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
