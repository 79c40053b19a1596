"""Every code that inspection can report is in its reference with its meaning, and nothing else is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.inspection.runtime_failures import REMEDIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/inspection.md").read_text()
SOURCES = [path for folder in ("inspection", "engines") for path in (ROOT / "state" / folder).rglob("*.py")]
CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def documented(title: str) -> set[str]:
    """The codes of a section: the first cells of its table, or what is in backquotes."""
    body = section(title)
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", body, re.MULTILINE)
    return set(rows or re.findall(r"`([a-z0-9-]+)`", body))


def called(*names: str) -> set[str]:
    """The first arguments of calls of those names, in the source of inspection and the engines."""
    return {code for path in SOURCES for code in _called(ast.parse(path.read_text()), names)}


def _called(tree: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = ast.unparse(node.func)
        if any(name == known or name.endswith(f".{known}") for known in names):
            first = node.args[0]
            choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            yield from (c.value for c in choices if isinstance(c, ast.Constant) and isinstance(c.value, str))


def paired(*modules: str) -> set[str]:
    """The codes of tables of (code, pattern) pairs and of tables by number."""
    codes: set[str] = set()
    for module in modules:
        for node in ast.walk(ast.parse((ROOT / module).read_text())):
            if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):
                codes.add(str(node.elts[0].value))
            if isinstance(node, ast.Dict):
                codes.update(str(v.value) for v in node.values if isinstance(v, ast.Constant))
            if isinstance(node, ast.Return) and node.value is not None:
                codes.update(re.findall(r"'(gpu-[a-z]+)'", ast.unparse(node.value)))
    return {code for code in codes if CODE.fullmatch(code) or code == "topk"}


def test_failures() -> None:
    assert documented("Failure codes") == set(REMEDIES)
    assert called("signature", "Failed", "Ended") <= set(REMEDIES)


def test_notices() -> None:
    said = called("Noticed", "notices.add", "add_notice")
    assert said - {"degenerate-output"} <= documented("Notices")
    assert documented("Notices") - said == {"degenerate-output"}


def test_adjustments() -> None:
    engines = [str(path.relative_to(ROOT)) for path in SOURCES if path.name == "adjustments.py"]
    assert documented("Adjustments") == paired(*engines)


def test_kernel_faults() -> None:
    assert documented("Kernel faults") == paired("state/inspection/kernel.py")


def test_unit_findings() -> None:
    found = called("_finding", "UnitFinding")
    assert documented("Unit findings") == found


@pytest.mark.parametrize("title", ["Failure codes", "Kernel faults"])
def test_every_row_says_what_it_means_and_what_to_do(title: str) -> None:
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    assert rows
    assert all(len([cell for cell in row.strip("|").split("|") if cell.strip()]) == 3 for row in rows)
