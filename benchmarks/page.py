"""Writes the table of `docs/benchmarks.md` from the kept results; what stands outside its marks is left alone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import results

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
_ORDER = ("job", "overhead", "first-look", "dead-start", "unchanged", "many-hosts", "serve")
"""The benchmarks in the order of the budgets; others come after them by name."""


def rewrite(page: Path = PAGE) -> None:
    """Put the table of the kept results between the marks. Raises ValueError where the page has none."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for the table: it stands between {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{table(results())}\n{END}{after}", encoding="utf-8")


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a row for each claim, and below where and when each benchmark ran."""
    ordered = sorted(found, key=lambda result: (_place(result["benchmark"]), result["benchmark"]))
    return "\n".join([*_rows(ordered), "", *_places(ordered), ""])


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _rows(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| what | goal | measured | floor | peers | met |"
    yield "|---|---|---|---|---|---|"
    for result in found:
        for row in result["rows"]:
            peers = "; ".join(f"{name} {figure}" for name, figure in row["peers"].items())
            cells = (row["what"], row["goal"], row["measured"], row["floor"], peers, _met(row["met"]))
            yield "| " + " | ".join(str(cell).replace("|", "\\|") or "—" for cell in cells) + " |"


def _places(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "Medians; quartiles (of fewer than four runs the extremes) in brackets."
    yield ""
    for result in found:
        rounds = f"{result['rounds']} round{'s' * (result['rounds'] != 1)}"
        yield f"- `make bench BENCH={result['benchmark']}`: {result['date']}, {rounds}, {result['machine']}."
        for row in result["rows"]:
            if row["note"]:
                yield f"  {row['what']}: {row['note']}"


def _met(met: bool | None) -> str:
    return "—" if met is None else "yes" if met else "**no**"
