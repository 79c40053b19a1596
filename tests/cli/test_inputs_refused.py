"""Two hundred and more bad inputs through the ways that people give them: one clear sentence each, naming the file, the
field or the word, an exit code, no traceback, and a store that is as it was."""

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.bad_manifests import EDITS, GONE, TEXTS, edited
from tests.cli.practice import Ran, interlock
from tests.store.bad_lines import LINES
from tests.store.bad_rows import EVENTS, EVIDENCE

EXAMPLE = yaml.safe_load((Path(__file__).parents[2] / "docs/reference/example.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def environment(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One store for all of them, empty."""
    folder = tmp_path_factory.mktemp("bad")
    path = shutil.copy(sqlite_template, folder / "store.db")
    return {"INTERLOCK_DATABASE_URL": f"sqlite:///{path}", "INTERLOCK_DATA_DIR": str(folder)}


def one_sentence(ran: Ran, code: int, said: str) -> str:
    """The sentence, which matches the pattern `said`, with its hint, on standard error, and nothing beside it."""
    assert (ran.code, ran.out) == (code, "")
    assert "Traceback" not in ran.err
    found = re.fullmatch(r"error: ([^\n]{8,400})\n(?:hint: ([^\n]{8,200})\n)?", ran.err)
    assert found, ran.err
    assert re.search(said, found[1]), found[1]
    return found[2] or ""


def the_only_mistake(ran: Ran, file: str) -> str:
    assert (ran.code, ran.out) == (2, "")
    found = re.fullmatch(rf"error: {re.escape(file)} has 1 mistake:\n([^\n]+)\n(?:hint: [^\n]+\n)?", ran.err)
    assert found, ran.err
    return found[1]


def id_of(path: str, value: Any) -> str:
    shown = "gone" if value is GONE else re.sub(r"[^\w.:%+-]+", "-", json.dumps(value))[:30].strip("-") or "nothing"
    return f"{path}-is-{shown}"


@pytest.mark.parametrize(
    ("path", "value", "field", "expected"), [pytest.param(*case, id=id_of(case[0], case[1])) for case in EDITS]
)
def test_a_mistake_in_a_manifest_is_named_with_its_line_its_field_and_what_was_expected(
    environment: dict[str, str], tmp_path: Path, path: str, value: Any, field: str, expected: str
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(yaml.safe_dump(edited(EXAMPLE, path, value), sort_keys=False), encoding="utf-8")
    ran = interlock("plan", str(file), environment=environment)
    mistake = (
        the_only_mistake(ran, str(file))
        if "has 1 mistake" in ran.err
        else next(line for line in ran.err.splitlines() if field in line and line.startswith(str(file)))
    )
    where, _, sentence = mistake.partition(f": {field}: ")
    assert re.fullmatch(rf"{re.escape(str(file))}:\d+", where), mistake
    wrong, _, right = sentence.partition("; expected ")
    assert wrong
    assert expected in right
    assert ran.code == 2


@pytest.mark.parametrize(("text", "line", "said"), [pytest.param(*case, id=claim) for claim, case in TEXTS.items()])
def test_a_file_that_is_no_manifest_is_told_as_such(
    environment: dict[str, str], tmp_path: Path, text: str, line: int, said: str
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text, encoding="utf-8")
    mistake = the_only_mistake(interlock("plan", str(file), environment=environment), str(file))
    assert mistake.startswith(f"{file}:{line}: {said}")


SETTINGS = (
    ("LEASE_S", "x", "a valid number"),
    ("LEASE_S", "", "a valid number"),
    ("LEASE_S", "0", "greater than or equal to 1"),
    ("LEASE_S", "-1", "greater than or equal to 1"),
    ("LEASE_S", "inf", "a finite number"),
    ("LEASE_S", "nan", "a finite number"),
    ("LEASE_S", "1e9", "less than or equal to 86400"),
    ("GENERATION_S", "soon", "a valid number"),
    ("GENERATION_S", "0.5", "greater than or equal to 1"),
    ("GENERATION_S", "4000", "less than or equal to 3600"),
    ("RECOVER_EVERY_S", "never", "a valid number"),
    ("RECOVER_EVERY_S", "0", "greater than or equal to 1"),
    ("STOP_GRACE_S", "-1", "greater than or equal to 0"),
)


@pytest.mark.parametrize(("name", "value", "said"), [pytest.param(*s, id=f"{s[0]}={s[1]}") for s in SETTINGS])
def test_a_setting_that_does_not_fit_is_named(environment: dict[str, str], name: str, value: str, said: str) -> None:
    ran = interlock("history", environment={**environment, f"INTERLOCK_{name}": value})
    assert one_sentence(ran, 2, f"^INTERLOCK_{name}: .*{said}")


URLS = {
    "a-path": ("store.db", "`store.db` is no database URL"),
    "a-blank": (" ", "is no database URL"),
    "a-port-that-is-no-number": ("postgresql://db:port/x", "`postgresql://db:port/x` is no database URL"),
    "mysql": ("mysql://db/x", "cannot keep its history in mysql"),
    "oracle": ("oracle://x", "cannot keep its history in oracle"),
    "sqlite-without-a-file": ("sqlite://", "An SQLite store needs a file"),
    "sqlite-in-memory": ("sqlite:///:memory:", "An SQLite store needs a file"),
}


@pytest.mark.parametrize(("url", "said"), [pytest.param(*case, id=claim) for claim, case in URLS.items()])
def test_a_database_that_cannot_be_a_store_is_told(environment: dict[str, str], url: str, said: str) -> None:
    ran = interlock("history", environment={**environment, "INTERLOCK_DATABASE_URL": url})
    assert "sqlite:////var/lib/interlock/store.db" in one_sentence(ran, 2, said)


NO_ROLLOUT = "There is no rollout `abc`"
WORDS = (
    (("show", "abc"), NO_ROLLOUT),
    (("show", ""), "An empty text names no rollout"),
    (("answer", "abc", "promote", "--reason", "x"), NO_ROLLOUT),
    (("compare", "abc"), NO_ROLLOUT),
    (("compare", "abc", "abd"), "There is no rollout `ab[cd]`"),
    (("report", "abc"), NO_ROLLOUT),
    (("report", "abc", "--form", "pdf"), "`pdf` is no form of a report"),
    (("report", "abc", "-o", "x.doc"), "x.doc does not say which form is wanted"),
    (("history", "nosuch"), "There is no service `nosuch`"),
    (("history", "--before", "abc"), NO_ROLLOUT),
    (("gpu", "clear", "abc", "0000:81:00.0"), NO_ROLLOUT),
    (("replay",), "Name one rollout, or give --all"),
    (("replay", "abc"), NO_ROLLOUT),
    (("replay", "abc", "--all"), "Name one rollout, or give --all"),
    (("rollback", "nosuch", "--bare"), "nosuch has 0 proven revisions"),
    (("recover", "abc"), NO_ROLLOUT),
    (("recover", "--take-over"), "--take-over needs the rollout to take over"),
    (("plan", "none.yaml"), "Cannot read none.yaml: No such file"),
    (("plan", "/proc"), "Cannot read /proc: Is a directory"),
    (("apply", "none.yaml", "--bare"), "Cannot read none.yaml: No such file"),
    (("db", "backup", "/proc/x/y"), "Cannot write /proc/x/y"),
)


@pytest.mark.parametrize(("words", "said"), [pytest.param(*case, id="-".join(case[0]) or "none") for case in WORDS])
def test_words_that_name_nothing_are_told(environment: dict[str, str], words: tuple[str, ...], said: str) -> None:
    assert one_sentence(interlock(*words, environment=environment), 2, said)


def entry(**fields: Any) -> bytes:
    """One line of `journalctl -o json`."""
    whole = {
        "__REALTIME_TIMESTAMP": "1764500000000000",
        "_PID": "10",
        "SYSLOG_IDENTIFIER": "python",
        "MESSAGE": "hello",
    }
    return json.dumps({**whole, **fields}).encode()


UNKNOWN = (3, "nothing in .* was recognised")
EMPTY = (3, "is empty")
ARTEFACTS: dict[str, tuple[str, bytes, tuple[int, str]]] = {
    "an-empty-log": ("log", b"", EMPTY),
    "nul-bytes": ("auto", b"\0" * 4096, UNKNOWN),
    "every-byte": ("log", bytes(range(256)) * 40, UNKNOWN),
    "a-program": ("auto", b"\x7fELF" + b"\0" * 100, UNKNOWN),
    "a-picture": ("auto", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, UNKNOWN),
    "a-database": ("auto", b"SQLite format 3\0" + b"\0" * 100, UNKNOWN),
    "utf-16": ("auto", "line\n".encode("utf-16"), UNKNOWN),
    "a-zip-archive": ("auto", b"PK\x03\x04" + b"\0" * 100, (2, "it is a zip archive; try: unzip")),
    "zstd": ("auto", b"\x28\xb5\x2f\xfd" + b"\0" * 100, (2, "compressed by zstd; try: zstdcat")),
    "a-journal-file": ("auto", b"LPKSHHRH" + b"\0" * 200, (2, "a journal of systemd's own; try: journalctl")),
    "gzip-cut-off": ("auto", gzip.compress(b"line\n" * 1000)[:40], (2, "damaged or ends early")),
    "gzip-of-nothing": ("auto", b"\x1f\x8b\x08\0garbage", (2, "damaged or ends early")),
    "a-journal-line-cut-off": ("log", entry()[:30], UNKNOWN),
    "a-journal-line-that-is-a-list": ("log", b"[1,2]\n", UNKNOWN),
    "a-journal-line-without-message": ("log", entry(MESSAGE=None), UNKNOWN),
    "a-journal-line-with-a-number": ("log", entry(MESSAGE=7), UNKNOWN),
    "a-journal-line-with-no-bytes": ("log", entry(MESSAGE=[300, -1]), UNKNOWN),
    "a-journal-line-at-noon": ("log", entry(__REALTIME_TIMESTAMP="noon"), UNKNOWN),
    "a-journal-line-of-another-age": ("log", entry(__REALTIME_TIMESTAMP="9" * 40), UNKNOWN),
    "a-journal-line-of-no-process": ("log", entry(_PID="x"), UNKNOWN),
    "a-journal-line-nested-deep": ("log", b'{"a":' * 2000, UNKNOWN),
    "an-empty-answer": ("answer", b"", EMPTY),
    "an-answer-of-a-proxy": ("answer", b"<html>502 Bad Gateway</html>", UNKNOWN),
    "an-answer-cut-off": ("answer", b'{"choices":[{"mess', UNKNOWN),
    "an-answer-of-null": ("answer", b"null", UNKNOWN),
    "an-answer-that-is-a-list": ("answer", b"[]", UNKNOWN),
    "an-answer-that-is-a-number": ("answer", b"3", UNKNOWN),
    "an-answer-without-choices": ("answer", b'{"choices":[]}', UNKNOWN),
    "an-answer-of-choices-in-text": ("answer", b'{"choices":"x"}', UNKNOWN),
    "an-answer-that-is-an-error": ("answer", b'{"error":{"message":"no"}}', UNKNOWN),
    "an-answer-nested-deep": ("answer", b"[" * 5000, UNKNOWN),
    "empty-server-info": ("server-info", b"", EMPTY),
    "server-info-in-html": ("server-info", b"<html>", UNKNOWN),
    "server-info-that-is-a-list": ("server-info", b"[]", UNKNOWN),
    "server-info-of-null": ("server-info", b"null", UNKNOWN),
    "server-info-cut-off": ("server-info", b'{"tp_size":', UNKNOWN),
    "server-info-of-no-state": ("server-info", b'{"internal_states":[null]}', UNKNOWN),
    "server-info-with-words-for-figures": (
        "server-info",
        b'{"internal_states":[{"avg_spec_accept_length":"x"}]}',
        UNKNOWN,
    ),
    "empty-metrics": ("metrics", b"", EMPTY),
    "metrics-in-html": ("metrics", b"<html>", UNKNOWN),
    "metrics-in-json": ("metrics", b"{}", UNKNOWN),
    "metrics-of-nan": ("metrics", b"sglang:spec_accept_length NaN\n", UNKNOWN),
    "metrics-without-a-value": ("metrics", b"sglang:spec_accept_length\n", UNKNOWN),
    "metrics-with-a-word": ("metrics", b"sglang:spec_accept_length high\n", UNKNOWN),
    "metrics-with-a-broken-label": ("metrics", b'sglang:spec_accept_length{a="b 2.0\n', UNKNOWN),
    "an-empty-unit": ("unit", b"", EMPTY),
    "a-unit-without-a-section": ("unit", b"ExecStart=/bin/x\n", UNKNOWN),
    "a-unit-of-prose": ("unit", b"[Service]\nwhat is this\n", UNKNOWN),
    "a-unit-in-json": ("unit", b"{}", UNKNOWN),
    "an-empty-kernel-log": ("kernel", b"", EMPTY),
    "a-kernel-log-of-nothing": ("kernel", b"nothing of the kernel\n", UNKNOWN),
}


@pytest.mark.parametrize(("kind", "data", "end"), [pytest.param(*case, id=claim) for claim, case in ARTEFACTS.items()])
def test_an_artefact_that_proves_nothing_says_why_and_is_named(
    tmp_path: Path, kind: str, data: bytes, end: tuple[int, str]
) -> None:
    file = tmp_path / "artefact"
    file.write_bytes(data)
    ran = interlock("inspect", str(file), "--kind", kind, "--json", environment={})
    one_sentence(ran, end[0], end[1])
    assert str(file) in ran.err


def test_nothing_came_of_all_that(environment: dict[str, str]) -> None:
    found = interlock("history", "--verify", "--json", environment=environment)
    assert (found.code, found.json) == (0, {"streams": 0, "events": 0, "faults": [], "rollouts": []})


def test_there_are_two_hundred_of_them() -> None:
    tables = (EDITS, TEXTS, SETTINGS, URLS, WORDS, ARTEFACTS, EVENTS, EVIDENCE, LINES)
    assert sum(map(len, tables)) >= 200
