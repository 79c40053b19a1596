"""Rules for what is in the repository. Patterns are written so that they do not find themselves."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")

FORBIDDEN = {
    "the-host-of-a-package-registry": r"py[p]i\.org|python[h]osted|npm[j]s",
    "the-host-of-a-distribution": r"(deb|security)\.[d]ebian|debian\.org/[d]ebian",
    "the-path-of-a-checkout": r"/wor[k]/(main|shared)\b|/User[s]/[^/\s]+/",
}
UNFINISHED = r"\b(TOD[O]|FIXM[E]|XX[X])\b|raise NotImplemented[E]rror(\(\))?\s*$|@pytest\.mark\.(ski[p]|xfai[l])\b"


@cache
def tracked() -> dict[str, str]:
    """The text of each tracked file that is there, by its path."""
    argv = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    names = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [ROOT / name for name in names if name]
    return {str(p.relative_to(ROOT)): p.read_text("utf-8", errors="replace") for p in paths if p.is_file()}


def lines_with(pattern: str, suffix: str = "") -> list[str]:
    found = re.compile(pattern, re.IGNORECASE if not suffix else 0)
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked().items()
        if name.endswith(suffix)
        for number, line in enumerate(text.splitlines(), 1)
        if found.search(line)
    ]


@pytest.mark.parametrize("pattern", FORBIDDEN.values(), ids=FORBIDDEN)
def test_no_file_holds(pattern: str) -> None:
    assert lines_with(pattern) == []


def test_no_file_holds_the_path_of_this_checkout() -> None:
    assert lines_with(re.escape(str(ROOT)) + r"\b") == []


def test_nothing_is_left_unfinished_or_skipped_for_good() -> None:
    assert lines_with(UNFINISHED, ".py") == []


@pytest.mark.parametrize(
    "line",
    [
        "# TOD" + "O: later",
        "raise NotImplemented" + "Error",
        "@pytest.mark.ski" + "p",
        "@pytest.mark.xfai" + "l(strict=True)",
    ],
)
def test_unfinished_marks_are_seen(line: str) -> None:
    assert re.search(UNFINISHED, line)


def test_no_module_is_over_300_lines() -> None:
    rooms = {name: text for name, text in tracked().items() if name.endswith(".py") and not name.startswith("tests/")}
    assert len(rooms) > 100
    assert {name: count for name, text in rooms.items() if (count := len(text.splitlines())) > 300} == {}


def locked(name: str) -> dict[str, str]:
    """Requirement -> the whole entry, its hashes included."""
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text("utf-8"))
    return {entry.partition("==")[0]: entry for entry in entries if not entry.startswith("#")}


def normalized(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name
    return re.sub(r"[-_.]+", "-", name.group()).lower()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_versions_and_hashes_and_no_addresses(lock: str) -> None:
    entries = locked(lock)
    assert [name for name, entry in entries.items() if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert "://" not in (ROOT / lock).read_text("utf-8")


def test_the_locks_hold_what_the_project_asks_for_and_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    runtime, development = (locked(name) for name in LOCKS)
    assert {normalized(r) for r in project["dependencies"]} <= set(runtime)
    assert {normalized(r) for r in project["optional-dependencies"]["dev"]} <= set(development)
    assert {name: entry for name, entry in runtime.items() if development.get(name) != entry} == {}
