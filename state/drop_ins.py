"""Drop-ins: where systemd looks for a unit's, and what one says against the unit file it is read after (systemd 252).

systemd.unit(5): files of `NAME.service.d/`, of an instance's template, of both cut short after each dash, and of
`service.d/`; all of them in the order of their file names, and of two of one name the one found first alone. The order
of the folders is that of 252, as its own answers show (tests/lab).
"""

from collections.abc import Iterable, Iterator, Sequence

from state.inspection.unit import Directive, ParsedUnit, parse_unit
from state.inspection.unit_words import resolve_specifiers, specifiers, split_words

FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
"""systemd's own order; generators' folders are left out, which write no drop-ins for services."""

ALWAYS = ("ExecStart", "EnvironmentFile")
"""One more line is one too many: two programs, or a file whose variables win over those of Environment=."""

_OTHER_NAMES = {"TimeoutSec": "TimeoutStopSec"}


def template_of(unit: str) -> str | None:
    """`sglang@.service` for the instance `sglang@1.service`; None for a unit that is no instance."""
    prefix, at, rest = unit.partition("@")
    return f"{prefix}@.{rest.rpartition('.')[2]}" if at and not rest.startswith(".") else None


def drop_in_folders(unit: str) -> tuple[str, ...]:
    """Every folder in which systemd looks for drop-ins of a service, the strongest first."""
    own = tuple(dict.fromkeys(_names(unit)))
    shared = unit.rpartition(".")[2]
    return tuple(f"{folder}/{name}.d" for names in (own, (shared,)) for folder in FOLDERS for name in names)


def _names(unit: str) -> Iterator[str]:
    """The unit, its template, the template's shorter names, and the unit's own shorter names, each treated likewise."""
    yield unit
    prefix, at, rest = unit.partition("@")
    if template := template_of(unit):
        yield from _names(template)
    if at:
        stem, instance = prefix, "" if rest.startswith(".") else f"@{rest}"
    else:
        stem, instance = unit.rpartition(".")[0], ""
    if shorter := _shorter(stem):
        yield from _names(f"{shorter}{instance or '.' + unit.rpartition('.')[2]}")


def _shorter(stem: str) -> str:
    """The name up to its last dash but a trailing one, that dash included; empty where there is none."""
    at = stem.rstrip("-").rfind("-")
    return stem[: at + 1] if at >= 0 else ""


def in_force(paths: Iterable[str]) -> tuple[str, ...]:
    """Of the files found in `drop_in_folders`, in that order, those that systemd reads, in the order it reads them."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(path.rpartition("/")[2], path)
    return tuple(found[base] for base in sorted(found))


def overridden(unit: str, text: str, drop_in: str) -> tuple[str, ...]:
    """What of the file `text` of `unit` a drop-in sets otherwise, by directive (`Environment=NAME` for a variable).

    What it adds to the unit is nothing of that; so is a value that is the same.
    """
    rendered = parse_unit(text, unit)
    found = [name for directive in parse_unit(drop_in, unit).directives for name in _overrides(rendered, directive)]
    return tuple(dict.fromkeys(found))


def _overrides(unit: ParsedUnit, said: Directive) -> Sequence[str]:
    name = _OTHER_NAMES.get(said.name, said.name)
    if said.section != "Service":
        return ()
    if name in ALWAYS:
        return (name,) if said.value or unit.in_force(name) else ()
    if name == "Environment":
        return _variables(unit, said)
    if name == "UnsetEnvironment":
        words = (word.partition("=")[0] for word in split_words(said.value))
        return tuple(f"Environment={word}" for word in words if word in unit.environment)
    value = unit.value(name)
    return (name,) if value is not None and value != said.value else ()


def _variables(unit: ParsedUnit, said: Directive) -> tuple[str, ...]:
    if not said.value:
        return ("Environment",) if unit.environment else ()
    pairs = (word.partition("=") for word in split_words(resolve_specifiers(said.value, specifiers(unit.name))))
    return tuple(
        f"Environment={name}"
        for name, _, value in pairs
        if name in unit.environment and unit.environment[name] != value
    )
