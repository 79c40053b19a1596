"""What the commands of the command line share: words and options, where they print, and how they end."""

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deployments import collection, interrupts
from state.errors import InterlockError, RolloutUnrecorded

if TYPE_CHECKING:
    from rich.console import Console

ManifestPath = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A manifest file (YAML).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of pages for people.")]
Bare = Annotated[bool, typer.Option("--bare", help="Run the same loop without Prefect.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the history.")]
RolloutId = Annotated[str, typer.Argument(metavar="ROLLOUT", help="A rollout's id, or its beginning.")]
Word = Literal["promote", "rollback"]
"""`state.hold.Answer`, whose module is loaded only when somebody answers."""


def console() -> "Console":
    """The terminal's width, or a page's where there is no terminal to ask."""
    from rich.console import Console  # not for a list of commands

    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=PAGE_COLUMNS)


PAGE_COLUMNS = 120


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run to the end and exit with its code."""
    collection.begin()
    raise typer.Exit(interrupts.run(work))


def tell(error: InterlockError, *, as_json: bool) -> int:
    """The sentence and the hint on standard error, with `--json` also as one object; the exit code."""
    from deployments.run import print_error, print_json
    from state.events import ErrorFacts

    if as_json:
        facts = {"rollout": error.rollout, "timers": error.timers} if isinstance(error, RolloutUnrecorded) else {}
        print_json({**facts, "error": ErrorFacts.of(error).as_json(), "exit_code": error.exit_code})
    print_error(str(error), error.hint)
    return error.exit_code
