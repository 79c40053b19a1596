"""Refusals over real SSH: one clear sentence and what to do next, exit code 2 or 3, no traceback, nothing touched."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tasks.practice.scene import free_port
from tests.cli.practice import Ran, Stage, stage


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("refusals")) as made:
        yield made


@dataclass(frozen=True)
class Asked:
    """Words after `apply`, and settings."""

    manifest: str
    settings: Mapping[str, str] = field(default_factory=dict)


Situation = Callable[[Stage], AbstractContextManager[Asked]]


def asked(arguments: Mapping[str, Any] | None = None, **changes: Any) -> Situation:
    @contextmanager
    def situation(practice: Stage) -> Iterator[Asked]:
        yield Asked(practice.manifest(arguments, **changes))

    return situation


@contextmanager
def another_host_key(practice: Stage) -> Iterator[Asked]:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    yield Asked(practice.manifest(hosts={"serving": {"host_key": other}}))


@contextmanager
def a_key_that_is_not_authorized(practice: Stage) -> Iterator[Asked]:
    path = practice.directory / "stranger"
    path.touch(mode=0o600)
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(path))
    yield Asked(practice.manifest(), {"ssh_key": str(path)})


@contextmanager
def no_sudo(practice: Stage) -> Iterator[Asked]:
    practice.scene.serving.faults.sudo_refused = True
    try:
        yield Asked(practice.manifest())
    finally:
        practice.scene.serving.faults.sudo_refused = False


@contextmanager
def no_tables(practice: Stage) -> Iterator[Asked]:
    yield Asked(practice.manifest(), {"database_url": f"sqlite:///{practice.directory / 'other.db'}"})


@contextmanager
def no_database(practice: Stage) -> Iterator[Asked]:
    yield Asked(practice.manifest(), {"database_url": "mysql://db.example/interlock"})


HOSTS = [
    pytest.param(
        another_host_key,
        r"serving \(127.0.0.1:\d+\) showed a host key that is not the pinned one",
        "host_key",
        id="wrong-host-key",
    ),
    pytest.param(
        asked(hosts={"serving": {"port": free_port()}}),
        r"Cannot reach serving at 127.0.0.1:\d+: ",
        "check the address",
        id="unreachable-host",
    ),
    pytest.param(
        a_key_that_is_not_authorized,
        r"Cannot reach serving at 127.0.0.1:\d+: the key of user `interlock` was refused",
        "put the public key into",
        id="refused-login",
    ),
    pytest.param(
        no_tables,
        "The event store at .*/other.db has no tables yet: run `interlock db upgrade`",
        "nothing was touched",
        id="store-not-upgraded",
    ),
]

APPLIED = [
    pytest.param(no_sudo, "sudo refused interlock on serving", "sudoers.md", id="refused-sudo"),
    pytest.param(
        asked({"mem_fraction_statik": 0.75}),
        "the installed engine on serving does not accept --mem-fraction-statik; .*--mem-fraction-static",
        "nothing was touched",
        id="misspelt-flag",
    ),
]


@pytest.mark.parametrize(("situation", "sentence", "hint"), HOSTS)
def test_a_plan_is_refused_in_one_sentence(practice: Stage, situation: Situation, sentence: str, hint: str) -> None:
    before = practice.facts()
    with situation(practice) as given:
        told_once(practice.interlock("plan", given.manifest, **given.settings), 3, sentence, hint)
    assert practice.facts() == before


@pytest.mark.parametrize(("situation", "sentence", "hint"), [*HOSTS, *APPLIED])
def test_a_rollout_is_refused_in_one_sentence(practice: Stage, situation: Situation, sentence: str, hint: str) -> None:
    before = practice.facts()
    with situation(practice) as given:
        told_once(practice.interlock("apply", given.manifest, "--bare", **given.settings), 3, sentence, hint)
    after = practice.facts()
    assert (after.unit_file, after.active, after.main_pid, after.drivers) == (
        before.unit_file,
        before.active,
        before.main_pid,
        before.drivers,
    )
    assert set(after.interlock_files) <= {*before.interlock_files, "fence"}, "nothing but the lease's mark"


def told_once(ran: Ran, code: int, sentence: str, hint: str) -> None:
    """On standard error: the sentence, and what to do next; no traceback anywhere."""
    assert ran.code == code, ran
    lines = ran.err.splitlines()
    assert len(lines) == 2, ran.err
    assert re.match(f"error: .*{sentence}", lines[0]), ran.err
    assert re.match(f"hint: .*{hint}", lines[1]), ran.err
    assert "Traceback" not in ran.out + ran.err


@contextmanager
def no_file(practice: Stage) -> Iterator[Asked]:
    yield Asked(str(practice.directory / "none.yaml"))


@contextmanager
def a_directory(practice: Stage) -> Iterator[Asked]:
    yield Asked(str(practice.directory))


@contextmanager
def no_text(practice: Stage) -> Iterator[Asked]:
    path = practice.directory / "latin.yaml"
    path.write_bytes(b"service: caf\xe9\n")
    yield Asked(str(path))


WORDS = [
    pytest.param(no_file, "Cannot read .*none.yaml: No such file or directory", "name a manifest file", id="no-file"),
    pytest.param(a_directory, "Cannot read .*: Is a directory", "name a manifest file", id="a-directory"),
    pytest.param(no_text, "latin.yaml is no UTF-8 text: .* at byte 12", "save it as UTF-8", id="not-utf-8"),
    pytest.param(
        no_database, "interlock cannot keep its history in mysql", "for example sqlite", id="another-database"
    ),
]


@pytest.mark.parametrize("command", ["plan", "apply", "verify"])
@pytest.mark.parametrize(("situation", "sentence", "hint"), WORDS)
def test_what_cannot_be_read_is_named(
    practice: Stage, command: str, situation: Situation, sentence: str, hint: str
) -> None:
    with situation(practice) as given:
        told_once(practice.interlock(command, given.manifest, **given.settings), 2, sentence, hint)


TEN_MISTAKES = """\
interlock: 2
service: Qwen 122B
hosts:
  serving: {adress: llm-two.example, user: interlock}
unit:
  host: servign
  name: sglang-qwen
engine:
  kind: sglnag
  command: []
  endpoint: 127.0.0.1:30000
  arguments: {model_path: /m, tp_size: [4]}
readiness: {timeout: soon}
claims:
  - {claim: accept-lenght, at_least: 2.0}
policy: {inconclusive: perhaps}
"""


def test_ten_mistakes_are_ten_lines(practice: Stage, tmp_path: Path) -> None:
    path = tmp_path / "ten.yaml"
    path.write_text(TEN_MISTAKES, encoding="utf-8")
    ran = practice.interlock("plan", str(path))
    assert ran.code == 2
    first, *lines = ran.err.splitlines()
    count = re.fullmatch(rf"error: {path} has (\d+) mistakes:", first)
    assert count, first
    assert int(count[1]) == len(lines) >= 10
    assert all(re.match(rf"{path}:\d+: [a-z_.\[\]0-9]+: \S", line) for line in lines), lines


USAGE = [
    pytest.param(("apply",), "Missing argument", id="no-manifest"),
    pytest.param(("aply", "x.yaml"), "No such command 'aply'", id="no-such-command"),
    pytest.param(("apply", "x.yaml", "--dry"), "No such option", id="no-such-option"),
]


@pytest.mark.parametrize(("words", "sentence"), USAGE)
def test_wrong_words_are_usage(practice: Stage, words: tuple[str, ...], sentence: str) -> None:
    ran = practice.interlock(*words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


NOT_THERE = [
    pytest.param(("show", "0123"), "There is no rollout `0123`", id="show"),
    pytest.param(("replay", "0123"), "There is no rollout `0123`", id="replay"),
    pytest.param(("recover", "0123"), "There is no rollout `0123`", id="recover"),
    pytest.param(("history", "nobody"), "There is no service `nobody`", id="history"),
    pytest.param(
        ("rollback", "nobody", "--bare"), "nobody has 0 proven revisions: there is none before", id="rollback"
    ),
    pytest.param(("replay",), "Name one rollout, or give --all", id="replay-nothing"),
    pytest.param(("apply", "{}", "--bare", "--plan", "123"), "`123` is no plan's digest", id="a-digest-too-short"),
    pytest.param(("apply", "{}", "--bare", "--plan", "Z" * 12), "is no plan's digest", id="no-digest"),
]


@pytest.mark.parametrize(("words", "sentence"), NOT_THERE)
def test_what_is_not_there_is_said_so_in_words_and_in_json(
    practice: Stage, words: tuple[str, ...], sentence: str
) -> None:
    given = tuple(practice.manifest() if word == "{}" else word for word in words)
    told_once(practice.interlock(*given), 2, sentence, "")
    in_json = practice.interlock(*given, "--json")
    assert in_json.code == 2
    assert sentence in in_json.json["error"]["message"]
    assert in_json.json["exit_code"] == 2
