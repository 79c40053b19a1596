"""The documented list of programs that are run as root is the list that is run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/sudoers.md").read_text()
AS_ROOT = re.compile(r'Argv\(\(\s*"(?P<program>[^"]+)"[^\n]*root=True')


def asked_for() -> set[str]:
    sources = (ROOT / "tasks").glob("*.py")
    return {match["program"].rpartition("/")[2] for source in sources for match in AS_ROOT.finditer(source.read_text())}


def granted() -> set[str]:
    rules = PAGE[PAGE.index("Cmnd_Alias") : PAGE.index("Defaults:")]
    return {path.rpartition("/")[2] for path in re.findall(r"/\S+/[\w-]+", rules)}


@pytest.mark.parametrize("program", sorted(asked_for()))
def test_what_is_asked_for_is_granted(program: str) -> None:
    assert program in granted()


def test_what_is_granted_is_explained() -> None:
    table = PAGE[PAGE.index("| program |") : PAGE.index("## The file")]
    assert granted() == set(
        re.findall(r"`([a-z0-9-]+)`", "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("|")))
    )
