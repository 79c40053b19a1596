"""The machine's own programs against the originals of this computer: the same words, the same answer."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.argv import WRITE_VALUE
from tasks.practice.host import PracticeMachine
from tasks.practice.unitfile import format_span, parse_span
from tests.practice.session import Session
from tests.practice.virtual_time import in_virtual_time

_GNU = shutil.which("stat") and b"GNU" in subprocess.run(["stat", "--version"], capture_output=True, check=False).stdout
_SYSTEMD = shutil.which("systemd-analyze")

needs_gnu = pytest.mark.skipif(not _GNU, reason="needs GNU coreutils")
needs_systemd = pytest.mark.skipif(not _SYSTEMD, reason="needs systemd-analyze")

WORDS = [
    ("true",),
    ("false",),
    ("cat", "--", "D/a", "D/none", "D"),
    ("sha256sum", "--", "D/a", "D/none"),
    ("sha256sum", "--", "D"),
    ("stat", "--format=%a %s %n", "--", "D/a", "D/run", "D/none"),
    ("stat", "--format=%F", "--", "D", "D/a", "D/link", "D/empty"),
    ("ls", "--", "D"),
    ("ls", "-1", "--", "D/none"),
    ("ls", "-1", "--", "D/a"),
    ("readlink", "--", "D/link"),
    ("readlink", "--", "D/a"),
    ("readlink", "-f", "--", "D/link"),
    ("readlink", "-f", "--", "D/none"),
    ("readlink", "-f", "--", "D/none/none"),
    ("readlink", "-e", "--", "D/none"),
    ("readlink", "-e", "--", "D/dangling"),
    ("test", "-e", "D/a"),
    ("test", "-e", "D/dangling"),
    ("test", "-d", "D"),
    ("test", "-f", "D"),
    ("test", "-x", "D/run"),
    ("test", "-x", "D/a"),
    ("grep", "-qxF", "--", "alpha", "D/a"),
    ("grep", "-qxF", "--", "alph", "D/a"),
    ("grep", "-qxF", "--", "alpha", "D/none"),
    ("mkdir", "-p", "--", "D/new/deep"),
    ("mkdir", "-p", "-m", "700", "--", "D/private"),
    ("mkdir", "--", "D/folder"),
    ("install", "-m", "640", "-T", "--", "D/a", "D/copy"),
    ("install", "-m", "600", "-T", "--", "D/none", "D/copy"),
    ("install", "-d", "-m", "700", "--", "D/x/y"),
    ("install", "-d", "-m", "755", "--", "D/a"),
    ("cp", "--preserve=mode", "-T", "--", "D/run", "D/copy"),
    ("cp", "--preserve=mode", "-T", "--", "D/none", "D/copy"),
    ("mv", "-T", "-f", "--", "D/a", "D/empty"),
    ("mv", "-T", "-f", "--", "D/none", "D/a"),
    ("mv", "-T", "-f", "--", "D/folder", "D/a"),
    ("mv", "-T", "-f", "--", "D/a", "D/folder"),
    ("rm", "-f", "--", "D/a", "D/none"),
    ("rm", "-f", "--", "D/folder"),
    ("rmdir", "--", "D/folder"),
    ("rmdir", "--", "D/full"),
    ("rmdir", "--", "D/none"),
    ("sync", "--", "D/a"),
    ("sync", "--", "D/none"),
    ("tee", "--", "D/written"),
    ("tee", "--", "D/none/written"),
    ("tee", "--", "D/folder"),
    ("chmod", "700", "D/a"),
    ("chmod", "700", "D/none"),
    ("df", "--output=avail", "-B1", "--", "D/none"),
    ("sh", "-c", WRITE_VALUE, "sh", "D/a", "new\n"),
    ("sh", "-c", WRITE_VALUE, "sh", "D/none/a", "new"),
    ("sh", "-c", WRITE_VALUE, "sh", "D/folder", "new"),
    ("timeout", "5", "cat", "--", "D/a"),
    ("timeout", "5", "nosuch-program"),
    ("sh", "D/none"),
]


def lay_out(home: Path) -> None:
    for name in ("folder", "full"):
        (home / name).mkdir()
    for name, text, mode in (
        ("a", "alpha\nbeta\n", 0o644),
        ("run", "#!", 0o755),
        ("empty", "", 0o600),
        ("full/x", "", 0o644),
    ):
        (home / name).write_text(text)
        (home / name).chmod(mode)
    (home / "link").symlink_to("a")
    (home / "dangling").symlink_to("/nowhere/at/all")


def copied(home: Path) -> PracticeMachine:
    machine = PracticeMachine()
    machine.files.mkdir(str(home), parents=True)
    for path in sorted(home.rglob("*")):
        if path.is_symlink():
            machine.files.symlink(os.readlink(path), str(path))
        elif path.is_dir():
            machine.files.mkdir(str(path), path.stat().st_mode & 0o777)
        else:
            machine.files.write(str(path), path.read_bytes(), mode=path.stat().st_mode & 0o777)
    return machine


def on_disk(home: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(home.rglob("*")):
        link = f"-> {os.readlink(path)}" if path.is_symlink() else ""
        content = path.read_text() if path.is_file() and not link else ""
        yield str(path), f"{link or oct(path.lstat().st_mode)} {content}"


def in_memory(machine: PracticeMachine, folder: str) -> Iterator[tuple[str, str]]:
    for name in machine.files.names(folder):
        path = f"{folder}/{name}"
        entry = machine.files.lstat(path)
        kind = {"file": 0o100000, "directory": 0o040000, "link": 0}[entry.kind]
        content = machine.files.read(path).decode() if entry.kind == "file" else ""
        yield path, f"{f'-> {entry.target}' if entry.target else oct(kind | entry.mode)} {content}"
        if entry.kind == "directory":
            yield from in_memory(machine, path)


@needs_gnu
@pytest.mark.parametrize("words", [pytest.param(w, id=" ".join(w)[:60]) for w in WORDS])
def test_a_program_answers_and_acts_as_its_original(words: tuple[str, ...], tmp_path: Path) -> None:
    lay_out(tmp_path)
    machine = copied(tmp_path)
    argv = [word.replace("D", str(tmp_path), 1) if word == "D" or word.startswith("D/") else word for word in words]
    env = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    real = subprocess.run(argv, input=b"from stdin\n", capture_output=True, env=env, check=False, umask=0o022)

    @in_virtual_time
    async def practice() -> None:
        played = await Session(machine)(*argv, stdin=b"from stdin\n")
        assert (played.status, played.text, played.stderr.decode()) == (
            real.returncode,
            real.stdout.decode(),
            real.stderr.decode(),
        )

    practice()
    assert dict(in_memory(machine, str(tmp_path))) == dict(on_disk(tmp_path))


UNITS = [
    pytest.param("[Unit]\nDescription=x\n[Service]\nExecStart=/usr/bin/true -x\n", id="a-sound-unit"),
    pytest.param("[Service]\nExecStart=/nope/bin -x\n", id="no-such-program"),
    pytest.param("[Service]\nExecStart=/usr/bin/true\nFoo=1\nLimitNOFILE=1\nMemoryMax=1G\n", id="an-unknown-key"),
    pytest.param("[Service]\nExecStart=/usr/bin/true\nTimeoutStopSec=abc\nRestartSec=1x\n", id="no-times"),
    pytest.param(
        "[Service]\nExecStart=/usr/bin/true\nType=bogus\nRestart=maybe\nKillMode=soft\n", id="no-such-choices"
    ),
    pytest.param("[Service]\nUser=x\n", id="no-program-at-all"),
    pytest.param("[Service]\nExecStart=/usr/bin/true\nExecStart=/usr/bin/false\n", id="two-programs"),
    pytest.param("junk\n[Service\nUser=x\n", id="a-broken-section"),
    pytest.param("[Service]\nExecStart=/usr/bin/true\nStartLimitBurst=3\n", id="the-start-limit-in-the-wrong-section"),
    pytest.param("[Service]\nExecStart=/usr/bin/true\nStartLimitIntervalSec=3\n", id="a-newer-start-limit-there"),
    pytest.param("[Unit]\nStartLimitBurst=x\n[Service]\nExecStart=/usr/bin/true\nTimeoutSec=1x\n", id="no-numbers"),
    pytest.param("[Service]\nExecStart=/usr/bin/true\nRemainAfterExit=perhaps\nKillSignal=SIGFOO\n", id="no-boolean"),
    pytest.param(
        '[Service]\nExecStart=/usr/bin/true\nEnvironment=A\nEnvironment="B\nExecStartPre="x\n', id="bad-quoting"
    ),
]


@needs_systemd
@pytest.mark.parametrize("text", UNITS)
def test_verify_says_what_systemd_says(text: str, tmp_path: Path) -> None:
    path = tmp_path / "app.service"
    path.write_text(text)
    real = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, check=False, text=True)
    machine = PracticeMachine()
    machine.files.put(str(path), text)

    @in_virtual_time
    async def practice() -> None:
        played = await Session(machine)("systemd-analyze", "verify", str(path))
        ours = [line for line in real.stderr.splitlines() if str(path) in line or "app.service" in line]
        assert (played.status, played.stderr.decode().splitlines()) == (real.returncode, ours)

    practice()


@needs_systemd
@pytest.mark.parametrize(
    "text", ["90", "1min 30s", "1500ms", "5500us", "2h", "1d 3s", "123456789us", "1.5s", "3w", "0"]
)
def test_time_spans_read_and_print_as_systemd_does(text: str) -> None:
    real = subprocess.run(["systemd-analyze", "timespan", text], capture_output=True, check=True, text=True).stdout
    assert f"Human: {format_span(parse_span(text))}\n" in real
    assert f"s: {parse_span(text)}\n" in real
