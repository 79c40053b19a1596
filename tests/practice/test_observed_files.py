"""What is known of many files from two programs is what is known of each, as the originals of this computer say it."""

import getpass
import grp
import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from state.errors import Refused
from state.observation import ObservedFile
from tasks.hosts.port import Argv, Completed
from tasks.observed_files import file_questions, files_from
from tasks.practice.host import PracticeMachine
from tests.practice.session import Session
from tests.practice.test_originals import needs_gnu
from tests.practice.virtual_time import in_virtual_time

THERE = [
    "plain.conf",
    "plain.conf.d",
    "two words",
    "line\nbreak",
    "a:colon",
    "it's",
    'a "quote"',
    "back\\slash",
    "ünïcødé",
    "#hash",
    "~tilde",
    "a=b",
    "-n",
    "No such file",
    "sglang@1.service",
    "50%+1,2",
]
GONE = [f"{name}.gone" for name in THERE] + ["plain", "plain.conf.d.d"]


def original(question: Argv) -> Completed:
    env = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
    done = subprocess.run(question.words, capture_output=True, env=env, check=False)
    return Completed(done.returncode, done.stdout, done.stderr)


def laid_out(folder: Path) -> tuple[list[str], list[ObservedFile]]:
    """Paths in an order of their own, and what is to be known of them."""
    expected = {str(folder / name): ObservedFile(path=str(folder / name), digest=None) for name in GONE}
    for number, name in enumerate(THERE):
        (folder / name).write_text(f"content {number}")
        (folder / name).chmod(0o640 + number % 8)
        expected[str(folder / name)] = ObservedFile(
            path=str(folder / name),
            digest=hashlib.sha256(f"content {number}".encode()).hexdigest(),
            mode=0o640 + number % 8,
            owner=getpass.getuser(),
            group=grp.getgrgid(os.getgid()).gr_name,
        )
    paths = sorted(expected, key=lambda path: hashlib.sha256(path.encode()).digest())
    return paths, [expected[path] for path in paths]


@needs_gnu
def test_the_originals_tell_of_each_file(tmp_path: Path) -> None:
    paths, expected = laid_out(tmp_path)
    answers = [original(question) for question in file_questions(paths)]
    assert list(files_from(paths, [*answers, Completed(0, b"of another question")], "here")) == expected


def test_the_practice_machine_tells_of_each_file(tmp_path: Path) -> None:
    machine = PracticeMachine()
    machine.files.mkdir(str(tmp_path), parents=True)
    paths, expected = laid_out(tmp_path)
    for file in expected:
        if file.digest:
            machine.files.write(file.path, Path(file.path).read_bytes(), mode=file.mode or 0)

    @in_virtual_time
    async def practice() -> None:
        answers = [await Session(machine)(*question.words) for question in file_questions(paths)]
        seen = files_from(paths, answers, "here")
        assert [(f.path, f.digest, f.mode) for f in seen] == [(f.path, f.digest, f.mode) for f in expected]

    practice()


@needs_gnu
@pytest.mark.parametrize(
    "beside",
    [pytest.param([], id="asked-alone"), pytest.param(["there", "gone"], id="beside-others")],
)
@pytest.mark.parametrize("name", ["folder", "a folder"])
def test_what_cannot_be_read_is_refused_by_name(name: str, beside: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "there").touch()
    paths = [str(tmp_path / one) for one in (*beside, name)]
    answers = [original(question) for question in file_questions(paths)]
    with pytest.raises(Refused, match=f"/{name} on here cannot be read: sha256sum: .*Is a directory"):
        files_from(paths, answers, "here")


def test_a_file_of_which_nothing_was_said_is_refused() -> None:
    answers = [Completed(1, b"", b"sudo: broken pipe"), Completed(0)]
    with pytest.raises(Refused, match="/etc/b on here cannot be read: sudo: broken pipe"):
        files_from(["/etc/b", "/etc/a"], answers, "here")


@pytest.mark.parametrize(
    ("paths", "programs"),
    [
        pytest.param([f"/etc/benchmark/{n:02}.conf" for n in range(20)], 2, id="twenty-files"),
        pytest.param(["/etc/a", "/etc/a"], 2, id="one-file-twice"),
        pytest.param(["/etc/a", "/etc/b c", "/etc/d"], 4, id="an-odd-name-is-asked-alone"),
        pytest.param([f"/etc/{n}/{'x' * 4000}" for n in range(8)], 4, id="as-many-as-fit-into-a-command"),
        pytest.param([], 0, id="none"),
    ],
)
def test_files_are_asked_for_together(paths: Sequence[str], programs: int) -> None:
    assert len(file_questions(paths)) == programs
