"""How an argv becomes root's on a host, and how sudo's refusal is told from the program's own failure."""

import re
from collections.abc import Sequence
from typing import Literal

from state.errors import ArgvFailed, PrivilegeRefused
from tasks.hosts.port import Argv, Completed

Become = Literal["sudo"] | None

# sudo 1.9 and sudo-rs 0.2 under LC_ALL=C. sudo itself exits 1 for all of them; a program that sudo ran may exit 1 too,
# so the sentence decides, never the prefix alone.
_REFUSALS = re.compile(
    r"sudo(?:-rs)?: (?P<said>.*(?:password is required|authentication (?:is )?required|terminal is required"
    r"|must have a tty|no tty present|no new privileges|not allowed|may not run|must be owned by uid 0"
    r"|Account validation failure|[Aa]uthentication failed|no valid sudoers sources).*)"
    r"|(?P<sorry>Sorry, user \S+ (?:is not allowed to execute|may not run sudo).*)"
    r"|(?P<absent>\S+ is not in the sudoers file.*)"
)
_WARNINGS = ("sudo: unable to resolve host ", "sudo: setrlimit(")
_NO_SUDO = re.compile(r"(?:.*: )?sudo: (?:command )?not found|env: .sudo.: No such file or directory")
_CHANGES = ("systemd-run", "/bin/sh")
_NO_PROGRAM = re.compile(r"sudo(?:-rs)?: .+: command not found")


def elevate(argv: Argv, become: Become) -> tuple[str, ...]:
    """The words as the host runs them: `sudo -n -- …` in front where root is asked for and `become` says sudo.

    ValueError for an argv without words or with a NUL, which no program can be given.
    """
    if not argv.words or not argv.words[0]:
        raise ValueError("An argv needs the name of a program as its first word")
    if bad := next((word for word in argv.words if "\0" in word), None):
        raise ValueError(f"No program can be given a word with a NUL in it: {bad!r}")
    return ("sudo", "-n", "--", *argv.words) if argv.root and become == "sudo" else argv.words


def one_root(argvs: Sequence[Argv]) -> bool:
    """Whether one sudo does for the whole batch: all of it is root's, and some of it changes the host, for which sudo
    must allow as much as a shell. Reading alone is left to the programs that read. Each sudo takes a host 6 ms."""
    return all(argv.root for argv in argvs) and any(argv.words[0] in _CHANGES for argv in argvs)


def refuse_if_sudo_said_no(host: str, user: str, completed: Completed) -> None:
    """PrivilegeRefused if `completed`, of an argv run by sudo, is sudo's own refusal. A program's failure passes."""
    said = _first_line(completed.stderr)
    if completed.status == 127 and _NO_SUDO.fullmatch(said):
        raise PrivilegeRefused(host, user, "sudo is not installed")
    if completed.status == 1 and not completed.stdout and (refusal := _REFUSALS.fullmatch(said)):
        raise PrivilegeRefused(host, user, refusal["said"] or said)


def answered(host: str, user: str, argv: Argv, become: Become, completed: Completed) -> Completed:
    """`completed` as the port promises it: sudo's refusal raised, 127 where sudo (status 1) found no such program."""
    if not argv.root or become != "sudo":
        return completed
    refuse_if_sudo_said_no(host, user, completed)
    if completed.status == 1 and not completed.stdout and _NO_PROGRAM.fullmatch(_first_line(completed.stderr)):
        return Completed(127, completed.stdout, completed.stderr)
    return completed


def checked(host: str, argv: Argv, completed: Completed) -> Completed:
    """`completed` itself when its status is 0; ArgvFailed with the program's stderr otherwise."""
    if not completed.ok:
        raise ArgvFailed(host, argv.words, completed.status, completed.stderr.decode("utf-8", "replace"))
    return completed


def _first_line(stderr: bytes) -> str:
    """The first line that is more than a warning which sudo gives before it runs the program all the same."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    return next((line for line in lines if line and not line.startswith(_WARNINGS)), "")
