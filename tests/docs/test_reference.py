"""The reference names what there is: every command, setting, event and error, with the facts that code can tell."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from deployments.cli import app
from flows.settings import Settings
from state import leases
from state.errors import InterlockError
from state.events import EVENTS, Ending, Event

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def table(page: str, name: str) -> dict[str, list[str]]:
    """The rows between `<!-- name -->` and `<!-- /name -->`, by their first cell's code."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    inside = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in inside.splitlines() if line[:2] == "| "]
    return {cells[0].strip("`"): cells for cells in rows[1:]}


def codes(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def tree(root: type[Any]) -> Iterator[type[Any]]:
    for child in root.__subclasses__():
        if child.__module__.partition(".")[0] in ("state", "tasks", "flows", "deployments"):
            yield child
        yield from tree(child)


def wire_events() -> list[type[Event]]:
    return [cls for cls in tree(Event) if "wire" in vars(cls)]


ERRORS = {cls.__name__: cls for cls in tree(InterlockError) if cls.__module__ == "state.errors"}
ERROR_ROWS = table("errors.md", "errors")
EVENT_ROWS = table("events.md", "events") | table("events.md", "lease events")
SETTING_ROWS = table("settings.md", "settings")
COMMAND_ROWS = {re.sub(r" \[?[A-Z]+\]?", "", shown): row for shown, row in table("command-line.md", "commands").items()}


def wire_name(error: type[InterlockError]) -> str:
    return error.code.fget(error.__new__(error))  # type: ignore[attr-defined, no-any-return]  # a property, read without its facts


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_is_documented_with_its_exit_code_and_whether_to_try_again(error: type[InterlockError]) -> None:
    _, name, exit_code, again, meaning, remedy = ERROR_ROWS[wire_name(error)]
    assert (name, exit_code, again) == (f"`{error.__name__}`", str(error.exit_code), "yes" if error.retryable else "no")
    assert meaning
    assert remedy


def test_no_error_is_documented_that_does_not_exist() -> None:
    assert set(ERROR_ROWS) == {wire_name(error) for error in ERRORS.values()}


@pytest.mark.parametrize("event", wire_events(), ids=lambda event: event.wire)
def test_an_event_is_documented_with_its_version_and_fields(event: type[Event]) -> None:
    _, name, meaning, fields = EVENT_ROWS[f"{event.wire}/{event.schema_version}"]
    assert name == f"`{event.__name__}`"
    assert codes(fields) == set(event.model_fields)
    assert meaning


def test_no_event_is_documented_that_does_not_exist() -> None:
    assert set(EVENT_ROWS) == {f"{event.wire}/{event.schema_version}" for event in wire_events()}
    assert {event.wire for event in wire_events()} >= {*EVENTS, leases.SubjectLeased.wire}


def test_every_ending_of_a_rollout_is_documented() -> None:
    assert set(table("events.md", "endings")) == set(get_args(Ending))


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_is_documented_with_its_variable_and_default(name: str) -> None:
    _, setting, default, meaning = SETTING_ROWS[f"{Settings.model_config['env_prefix']}{name}".upper()]
    assert setting == f"`{name}`"
    value = Settings.model_fields[name].default
    if isinstance(value, float):
        assert codes(default) == {f"{value:g}"}
    assert default
    assert meaning


def test_no_setting_is_documented_that_does_not_exist() -> None:
    assert {row[1].strip("`") for row in SETTING_ROWS.values()} == set(Settings.model_fields)


def commands(command: TyperCommand | TyperGroup, words: tuple[str, ...]) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for name, child in command.commands.items():
            yield from commands(child, (*words, name))
    else:
        yield " ".join(words), command


COMMANDS = dict(commands(get_command(app), ("interlock",)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_documented_with_every_option(name: str) -> None:
    _, does, options = COMMAND_ROWS[name]
    wanted = {p.opts[0] for p in COMMANDS[name].params if isinstance(p, TyperOption) and not p.hidden}
    assert {code.split()[0] for code in codes(options)} == wanted
    assert does


def test_no_command_is_documented_that_does_not_exist() -> None:
    assert set(COMMAND_ROWS) == set(COMMANDS)


PAGES = sorted((REFERENCE.parent).rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REFERENCE.parent)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
