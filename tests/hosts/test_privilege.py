"""Becoming root, and telling sudo's words from a program's."""

import pytest

from state.errors import ArgvFailed, PrivilegeRefused
from tasks.hosts.port import Argv, Completed
from tasks.hosts.privilege import Become, answered, checked, elevate, one_root, refuse_if_sudo_said_no


@pytest.mark.parametrize(
    ("argv", "become", "words"),
    [
        pytest.param(Argv(("id",), root=True), "sudo", ("sudo", "-n", "--", "id"), id="root-by-sudo"),
        pytest.param(Argv(("id",), root=True), None, ("id",), id="root-where-the-user-is-root"),
        pytest.param(Argv(("id", "-u")), "sudo", ("id", "-u"), id="no-root-asked-for"),
        pytest.param(Argv(("-x", ""), root=True), "sudo", ("sudo", "-n", "--", "-x", ""), id="words-are-kept"),
    ],
)
def test_elevate(argv: Argv, become: Become, words: tuple[str, ...]) -> None:
    assert elevate(argv, become) == words


@pytest.mark.parametrize(
    ("argvs", "one"),
    [
        pytest.param([("systemd-run", True), ("ss", True), ("cat", True)], True, id="a-change-and-what-is-asked-then"),
        pytest.param([("/bin/sh", True), ("cat", True)], True, id="a-script-too"),
        pytest.param([("ss", True), ("journalctl", True)], False, id="reading-needs-no-shell-of-roots"),
        pytest.param([("systemd-run", True), ("test", False)], False, id="what-the-user-asks-stays-the-users"),
    ],
)
def test_one_sudo_for_a_batch(argvs: list[tuple[str, bool]], one: bool) -> None:
    assert one_root([Argv((program,), root=root) for program, root in argvs]) is one


REFUSALS = [
    pytest.param(b"sudo: a password is required\n", "a password is required", id="password"),
    pytest.param(
        b"sudo: interactive authentication is required\n", "interactive authentication is required", id="sudo-rs"
    ),
    pytest.param(
        b"sudo: a terminal is required to read the password; use -t or an askpass helper\n",
        "a terminal is required to read the password; use -t or an askpass helper",
        id="terminal",
    ),
    pytest.param(
        b"sudo: sorry, you must have a tty to run sudo\n", "sorry, you must have a tty to run sudo", id="requiretty"
    ),
    pytest.param(
        b"Sorry, user il is not allowed to execute '/usr/bin/id' as root on gpu-1.\n",
        "Sorry, user il is not allowed to execute '/usr/bin/id' as root on gpu-1.",
        id="not-in-the-list",
    ),
    pytest.param(b"il is not in the sudoers file.\n", "il is not in the sudoers file.", id="not-in-sudoers"),
    pytest.param(
        b"sudo: unable to resolve host gpu-1: Name or service not known\nsudo: a password is required\n",
        "a password is required",
        id="a-warning-first",
    ),
    pytest.param(
        b'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.\n',
        'The "no new privileges" flag is set, which prevents sudo from running as root.',
        id="no-new-privileges",
    ),
]


@pytest.mark.parametrize(("stderr", "said"), REFUSALS)
def test_sudo_said_no(stderr: bytes, said: str) -> None:
    with pytest.raises(PrivilegeRefused) as refused:
        refuse_if_sudo_said_no("gpu-1", "il", Completed(1, b"", stderr))
    assert str(refused.value) == f"sudo refused il on gpu-1: {said}"


@pytest.mark.parametrize(
    "stderr",
    [
        b"sh: 4: sudo: not found\n",
        b"bash: line 1: sudo: command not found\n",
        b"env: 'sudo': No such file or directory\n",
    ],
)
def test_a_host_without_sudo(stderr: bytes) -> None:
    with pytest.raises(PrivilegeRefused, match="sudo is not installed"):
        refuse_if_sudo_said_no("gpu-1", "il", Completed(127, b"", stderr))


@pytest.mark.parametrize(
    "completed",
    [
        pytest.param(Completed(0, b"", b"sudo: a password is required\n"), id="it-succeeded"),
        pytest.param(Completed(2, b"", b"sudo: a password is required\n"), id="another-status"),
        pytest.param(Completed(1, b"some", b"sudo: a password is required\n"), id="the-program-had-begun"),
        pytest.param(Completed(1, b"", b"cat: sudo: a password is required: No such file\n"), id="within-a-line"),
        pytest.param(Completed(1, b"", b"reading\nsudo: a password is required\n"), id="not-its-first-words"),
        pytest.param(Completed(1, b"", b"sudo: unable to resolve host gpu-1: x\ngrep: no\n"), id="sudos-warning-alone"),
        pytest.param(Completed(1, b"", b"sudo: group not found in the engine's table\n"), id="sudos-prefix-alone"),
        pytest.param(Completed(1), id="silence"),
        pytest.param(Completed(127, b"", b"sh: 1: nvidia-smi: not found\n"), id="another-program-is-absent"),
    ],
)
def test_a_programs_failure_is_no_refusal(completed: Completed) -> None:
    assert answered("gpu-1", "il", Argv(("x",), root=True), "sudo", completed) == completed


def test_a_program_that_sudo_does_not_find_is_127() -> None:
    said = Completed(1, b"", b"sudo: nvidia-smi: command not found\n")
    assert answered("gpu-1", "il", Argv(("nvidia-smi",), root=True), "sudo", said).status == 127
    assert answered("gpu-1", "il", Argv(("nvidia-smi",)), "sudo", said).status == 1


def test_checked() -> None:
    argv = Argv(("systemctl", "start", "x.service"))
    assert checked("gpu-1", argv, Completed(0, b"out")) == Completed(0, b"out")
    with pytest.raises(ArgvFailed) as failed:
        checked("gpu-1", argv, Completed(5, b"", b"Unit x.service not found.\n"))
    assert str(failed.value) == "`systemctl` exited 5 on gpu-1: Unit x.service not found."
    assert (failed.value.argv, failed.value.status) == (argv.words, 5)
