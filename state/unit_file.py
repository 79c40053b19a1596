"""A systemd unit file from a structured description, quoted as systemd unquotes it (systemd.syntax(7), systemd 252).

ExecStart= is split into words (quotes, C escapes), then `%` specifiers are expanded, and `$` variables when it is run.
Environment= is split and has its specifiers expanded, but no `$`. Paths and Description= are taken as they stand,
but for specifiers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from state.model import Value

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./$^~-]+")
_PROGRAM = re.compile(r"/[^\x00-\x1f\x7f\"'\\$]+")
_NONCHARACTER = re.compile("[\ud800-\udfff\ufdd0-\ufdef]")


class ServiceUnit(Value):
    """A service unit: what it runs and as whom, how it is stopped and restarted. Times are seconds.

    `argv` is what the process gets, word for word; `properties` are further directives of [Service], as systemd
    names them; `labels` are `X-` directives of [Unit], which systemd ignores.
    """

    description: str
    argv: tuple[str, ...]
    user: str
    group: str | None = None
    working_directory: str | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    environment_files: tuple[str, ...] = ()
    stop_timeout_s: float
    restart: str = "on-failure"
    properties: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)


def render_unit(unit: ServiceUnit) -> str:
    """The unit file's text.

    Raises ValueError for what no unit file can hold: line breaks, control characters, text that is no UTF-8, or a
    program whose path systemd would not take as it stands.
    """
    sections = {"Unit": _unit(unit), "Service": _service(unit), "Install": iter([("WantedBy", "multi-user.target")])}
    return "\n".join(
        f"[{name}]\n" + "".join(f"{directive}={value}\n" for directive, value in lines)
        for name, lines in sections.items()
    )


def quote_exec(argv: Sequence[str]) -> str:
    """The value of an ExecStart= that runs exactly `argv`."""
    if not argv or not _PROGRAM.fullmatch(argv[0]):
        raise ValueError(f"{argv[0] if argv else 'nothing'!r} is no absolute path that ExecStart= can run")
    program, *words = argv
    return " ".join([quote_word(_percent(program)), *(quote_word(_percent(word).replace("$", "$$")) for word in words)])


def quote_environment(name: str, value: str) -> str:
    """The value of an Environment= that sets one variable."""
    return quote_word(_percent(f"{name}={value}"))


def quote_word(word: str) -> str:
    """One word, in quotes where it needs them; `%` and `$` are left to the caller."""
    _check(word)
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\")
    if '"' in escaped and "'" not in escaped:
        return f"'{escaped}'"
    return '"' + escaped.replace('"', '\\"') + '"'


def raw_value(value: str) -> str:
    """A value that systemd takes as it stands to the end of the line, but for `%`; Raises ValueError if it cannot."""
    _check(value)
    if value != value.strip() or value.endswith("\\") or not value:
        raise ValueError(f"{value!r} cannot be the value of a directive: empty, or a space or backslash at its end")
    return _percent(value)


def _unit(unit: ServiceUnit) -> Iterator[tuple[str, str]]:
    yield "Description", raw_value(unit.description)
    yield "Wants", "network-online.target"
    yield "After", "network-online.target"
    yield "StartLimitIntervalSec", "3600"
    yield "StartLimitBurst", "5"
    yield from _sorted(unit.labels)


def _service(unit: ServiceUnit) -> Iterator[tuple[str, str]]:
    yield "Type", "exec"
    yield "User", raw_value(unit.user)
    if unit.group:
        yield "Group", raw_value(unit.group)
    if unit.working_directory:
        yield "WorkingDirectory", raw_value(unit.working_directory)
    for name, value in sorted(unit.environment.items()):
        yield "Environment", quote_environment(name, value)
    for path in unit.environment_files:
        yield "EnvironmentFile", raw_value(path)
    yield "ExecStart", quote_exec(unit.argv)
    yield "Restart", unit.restart
    yield "RestartSec", "10"
    yield "KillMode", "control-group"
    # `:g` makes 12 days 1.0368e+06, which is no time span to systemd
    yield "TimeoutStopSec", f"{unit.stop_timeout_s:.15g}"
    yield from _sorted(unit.properties)


def _sorted(directives: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(directives.items()):
        yield name, raw_value(value)


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _check(text: str) -> None:
    if any((ord(c) < 32 and c != "\t") or ord(c) == 127 for c in text):
        raise ValueError(f"{text!r} holds a line break or another control character")
    if _NONCHARACTER.search(text) or any(ord(c) & 0xFFFE == 0xFFFE for c in text):
        raise ValueError(f"{text!r} holds what systemd does not take for UTF-8")
