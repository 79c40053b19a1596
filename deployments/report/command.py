"""`interlock report`: a rollout as a page that can be kept or sent."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from rich.console import Console

from deployments.report.html import html
from deployments.report.markdown import markdown
from deployments.report.terminal import show_report
from flows.history import History, full_id
from flows.settings import Settings
from flows.wiring import wired
from state.errors import UsageInvalid
from state.rollout_report import Report, report_of

Form = Literal["terminal", "markdown", "html"]
PAGES: Mapping[Form, Callable[[Report], str]] = {"markdown": markdown, "html": html}
NAMED: Mapping[str, Form] = {".html": "html", ".htm": "html", ".md": "markdown"}


async def write_report(console: Console, rollout: str, form: Form, output: str) -> int:
    """To the file `output`, whole or not at all; to standard output where it is `-`. Raises NotFound, UsageInvalid."""
    async with wired(Settings()) as (ports, _):
        history = History(ports, await full_id(ports, rollout))
        report = report_of(await history.recorded())
    if form == "terminal":
        show_report(console, report)
    elif output == "-":
        sys.stdout.write(PAGES[form](report))
    else:
        _replace(Path(output), PAGES[form](report))
    return 0


def form_of(form: str, output: str) -> Form:
    """The form that is asked for, else the one that the file's name asks for. Raises UsageInvalid for another."""
    known: Mapping[str, Form] = {"terminal": "terminal", "markdown": "markdown", "html": "html"}
    asked = known.get(form, "terminal") if output == "-" else known.get(form) or NAMED.get(Path(output).suffix)
    if form and form not in known:
        raise UsageInvalid(f"`{form}` is no form of a report", hint="use --form terminal, markdown or html")
    if asked is None or (asked == "terminal" and output != "-"):
        raise UsageInvalid(f"{output} does not say which form is wanted", hint="end it in .html or .md, or use --form")
    return asked


def _replace(path: Path, page: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(page, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageInvalid(
            f"Cannot write the report to {path}: {error.strerror}", hint="name a file in a folder that can be written"
        ) from error
