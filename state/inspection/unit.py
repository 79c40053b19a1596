"""Reading a unit file as systemd would: lines joined, lists reset, words split, specifiers and variables resolved."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from state.inspection.engines import readings
from state.inspection.report import Unit, UnitReport
from state.inspection.unit_arguments import arguments_of
from state.inspection.unit_findings import find_all
from state.inspection.unit_words import (
    balanced_words,
    resolve_specifiers,
    seconds_of,
    specifiers,
    split_commands,
    split_words,
    substitute,
)
from state.redaction import REDACTED, is_secret_name, redact, redact_argv, secret_values

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN = re.compile(r"\s*# /\S*/([^/\s]+\.service)\s*$", re.MULTILINE)
_PREFIXES = "@-:+!|"


@dataclass(frozen=True, slots=True)
class Directive:
    """One assignment; `line` is where it begins, `value` has its continuations joined by spaces, as systemd has it."""

    section: str
    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class ParsedUnit:
    """A unit file's assignments and what follows from them. Nothing is redacted: this is what systemd would run.

    `exec_start` has one argv for each command in force.
    """

    name: str | None
    directives: tuple[Directive, ...]
    exec_start: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_files: tuple[str, ...] = ()

    def last(self, name: str, section: str = "Service") -> Directive | None:
        """The assignment in force of a directive that takes one value; an empty one sets it back."""
        found = [d for d in self.directives if d.section == section and d.name == name]
        return found[-1] if found and found[-1].value else None

    def value(self, name: str, section: str = "Service") -> str | None:
        directive = self.last(name, section)
        return directive.value if directive else None

    def in_force(self, name: str, section: str = "Service") -> tuple[Directive, ...]:
        """The assignments of a list directive since its last reset by an empty one."""
        kept: list[Directive] = []
        for directive in self.directives:
            if directive.section == section and directive.name == name:
                kept = [*kept, directive] if directive.value else []
        return tuple(kept)


def parse_unit(text: str, name: str | None = None) -> ParsedUnit:
    """The unit of that file name (`NAME@.service` is a template); drop-ins may follow in the same text."""
    directives = tuple(_directives(text))
    bare = ParsedUnit(name, directives)
    known = specifiers(name)
    environment = _environment(bare, known)
    files = tuple(resolve_specifiers(d.value, known) for d in bare.in_force("EnvironmentFile"))
    resolvable = {} if files else environment
    commands = tuple(argv for d in bare.in_force("ExecStart") for argv in _commands(d.value, known, resolvable))
    return ParsedUnit(name, directives, commands, environment, files)


def read_unit(text: str, name: str | None = None) -> UnitReport:
    """The report of a unit file; secrets in argv and environment are replaced."""
    parsed = parse_unit(text, name if name and name.endswith(".service") else _named_in(text) or name)
    engine, arguments = _engine(parsed)
    secrets = frozenset[str]().union(*(secret_values(f"{d.name}={d.value}") for d in parsed.directives))
    shown = _shown(parsed)
    return UnitReport(
        unit=replace(shown, **{known.name: _without(secrets, getattr(shown, known.name)) for known in fields(shown)}),
        engine=engine,
        arguments=_without(secrets, arguments),
        findings=tuple(replace(entry, text=_without(secrets, entry.text)) for entry in find_all(parsed, engine)),
    )


def _named_in(text: str) -> str | None:
    """The unit that `systemctl cat` says it shows, in a comment before the first section."""
    found = _SHOWN.match(text.lstrip("\ufeff"))
    return found[1] if found else None


def _without(secrets: frozenset[str], value: Any) -> Any:
    """`value` without the secrets, which quoting or splitting may have hidden from a look at single words."""
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, REDACTED)
            return value
        case Mapping():
            return {key: _without(secrets, item) for key, item in value.items()}
        case tuple() | list():
            return type(value)(_without(secrets, item) for item in value)
    return value


def _directives(text: str) -> list[Directive]:
    found: list[Directive] = []
    section, joined, begun = "", "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip() if not joined else raw.rstrip()
        if line.lstrip().startswith(("#", ";")):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = begun or number
            joined += line[:-1] + " "
            continue
        whole, at = (joined + line).strip(), begun or number
        joined, begun = "", 0
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            name, _, value = whole.partition("=")
            found.append(Directive(section, name.strip(), value.strip(), at))
    if "=" in joined:
        name, _, value = joined.partition("=")
        found.append(Directive(section, name.strip(), value.strip(), begun))
    return found


def _environment(unit: ParsedUnit, known: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for directive in unit.in_force("Environment"):
        for word in balanced_words(directive.value):
            name, equals, value = resolve_specifiers(word, known).partition("=")
            if equals and _VARIABLE.fullmatch(name):
                values[name] = value
    return values


def _commands(value: str, known: Mapping[str, str], environment: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The argvs of one ExecStart value. Specifiers are resolved in words, so that one may leave an empty word."""
    argvs = [_argv([resolve_specifiers(word, known) for word in words], environment) for words in split_commands(value)]
    return [argv for argv in argvs if argv[0]]


def _argv(words: list[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    first = words[0].lstrip(_PREFIXES)
    prefix = words[0][: len(words[0]) - len(first)]
    rest = words[2:] if "@" in prefix else words[1:]
    return (first, *(rest if ":" in prefix else substitute(rest, environment)))


def _engine(unit: ParsedUnit) -> tuple[str | None, dict[str, object]]:
    """Which engine the unit starts and with which flags, looking through `sh -c` where it names the engine itself."""
    for argv in unit.exec_start:
        for words in (argv, *(tuple(split_words(word)) for word in argv if " " in word)):
            for reading in readings():
                at = reading.flags_at(words)
                if at is not None:
                    return reading.name, dict(arguments_of(redact_argv(words)[at:]))
    return None, {}


def _shown(unit: ParsedUnit) -> Unit:
    return Unit(
        exec_start=tuple(redact_argv(argv) for argv in unit.exec_start),
        environment={
            name: REDACTED if value and is_secret_name(name) else redact(value)
            for name, value in unit.environment.items()
        },
        environment_files=unit.environment_files,
        user=unit.value("User"),
        working_directory=unit.value("WorkingDirectory"),
        restart=unit.value("Restart"),
        kill_mode=unit.value("KillMode"),
        type=unit.value("Type"),
        timeout_start_s=_time(unit, "TimeoutStartSec"),
        timeout_stop_s=_time(unit, "TimeoutStopSec"),
    )


def _time(unit: ParsedUnit, name: str) -> float | str | None:
    """The last of the directive itself and `TimeoutSec`, which sets both."""
    found = [d for d in unit.directives if d.section == "Service" and d.name in (name, "TimeoutSec") and d.value]
    return seconds_of(found[-1].value) if found else None
