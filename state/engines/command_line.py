"""Command lines of engines that use Python's argparse: what the words mean, by tables that each engine fills in.

argparse takes `--flag value` and `--flag=value`, unambiguous abbreviations, and lets the last of a repeated flag win.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from state.engines.rendering import ArgumentValue, UnknownFlag

_NUMBER = re.compile(r"-?(?:\d+|\d+\.\d*|\.\d+|\d+(?:\.\d*)?[eE][+-]?\d+)")
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z0-9][\w-]*")


@dataclass(frozen=True, slots=True)
class FlagTables:
    """An engine's flags, all by canonical Python name.

    `names` are those known of a recent version (for abbreviations), `aliases` map other spellings to them, `text`
    never become numbers, `lists` take several words, `negatable` have a `--no-` form, `bare` take no word, `objects`
    take a JSON object as one word, `renames` say for people what became of a flag.
    """

    names: frozenset[str]
    aliases: Mapping[str, str] = field(default_factory=dict)
    text: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    negatable: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, name: str) -> str:
        """The canonical name of an argument by its full name, an alias, or an abbreviation with a single meaning."""
        if name in self.names or name in self.aliases:
            return self.aliases.get(name, name)
        full = [known for known in (*self.names, *self.aliases) if known.startswith(name)]
        meanings = {self.aliases.get(known, known) for known in full}
        return meanings.pop() if len(meanings) == 1 and name not in self.renames else name


def render_flags(tables: FlagTables, arguments: Mapping[str, ArgumentValue]) -> tuple[str, ...]:
    """The words of all arguments, in order of their canonical names."""
    named = {tables.canonical(name): value for name, value in arguments.items()}
    return tuple(word for name in sorted(named) for word in _words(tables, name, named[name]))


def parse_flags(tables: FlagTables, words: Sequence[str]) -> dict[str, ArgumentValue]:
    """Arguments by canonical name; words that belong to no flag are passed over."""
    parsed: dict[str, ArgumentValue] = {}
    for flag, values in _grouped(words):
        name = tables.canonical(_name(flag))
        if not values and name.startswith("no_") and name.removeprefix("no_") in tables.negatable:
            parsed[name.removeprefix("no_")] = False
        else:
            parsed[name] = _value(tables, name, values)
    return parsed


def canonical_values(tables: FlagTables, arguments: Mapping[str, ArgumentValue]) -> dict[str, ArgumentValue]:
    """What `parse_flags` gives back of the rendering of `arguments`."""
    values: dict[str, ArgumentValue] = {}
    for given, value in sorted(arguments.items()):
        name = tables.canonical(given)
        if value is None or (value is False and name not in tables.negatable):
            continue
        if isinstance(value, bool):
            values[name] = value
        else:
            values[name] = _value(tables, name, [_text(w) for w in _listed(value)])
    return values


def accepted_flags(help_text: str) -> frozenset[str]:
    """The flags that a help or usage text declares: in its usage block and at the head of its option lines.

    Flags that are only mentioned in a description do not count.
    """
    declared, usage = set[str](), False
    for line in help_text.splitlines():
        usage = line.startswith("usage:") or (usage and bool(line.strip()) and line[0] == " ")
        head = line if usage else _option_head(line)
        declared.update(_FLAG.findall(head))
    return frozenset(declared)


def unknown_flags(tables: FlagTables, words: Sequence[str], help_text: str) -> list[UnknownFlag]:
    """Flags among `words` that the help text does not declare and that abbreviate nothing it declares.

    A usage block without option lines shows one spelling of each flag: there its known aliases pass as well.
    """
    accepted = accepted_flags(help_text)
    whole = any(_option_head(line) for line in help_text.splitlines())
    meanings = set() if whole else {tables.canonical(_name(flag)) for flag in accepted}
    unknown = {}
    for flag, _ in _grouped(words):
        alias = _name(flag) in tables.aliases.keys() | tables.names and tables.canonical(_name(flag)) in meanings
        if flag not in accepted and not alias and (problem := _problem(tables, flag, accepted)) is not None:
            unknown[flag] = UnknownFlag(flag, problem)
    return list(unknown.values())


def _problem(tables: FlagTables, flag: str, accepted: frozenset[str]) -> str | None:
    if not accepted:
        return "the engine's help names no flags, so none can be checked"
    full = sorted(known for known in accepted if known.startswith(flag))
    if len(full) == 1:
        return None
    if full:
        return f"it could be short for {' or '.join(full[:4])}"
    name = _name(flag)
    if name in tables.renames:
        return tables.renames[name]
    canonical = "--" + tables.canonical(name).replace("_", "-")
    if canonical in accepted:
        return f"did you mean {canonical}?"
    close = difflib.get_close_matches(flag, sorted(accepted), n=1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else ""


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _option_head(line: str) -> str:
    match = re.match(r" {1,8}(-.*?)(?: {2,}|$)", line)
    return match[1] if match else ""


def _grouped(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    flag, values = "", list[str]()
    for word in words:
        if word.startswith("--") and len(word) > 2 and " " not in word.partition("=")[0]:
            if flag:
                yield flag, values
            flag, equals, value = word.partition("=")
            values = [value] if equals else []
        elif flag:
            values.append(word)
    if flag:
        yield flag, values


def _words(tables: FlagTables, name: str, value: ArgumentValue) -> tuple[str, ...]:
    flag = "--" + name.replace("_", "-")
    if value is None:
        return ()
    if isinstance(value, bool):
        negated = (f"--no-{name.replace('_', '-')}",) if name in tables.negatable else ()
        return (flag,) if value else negated
    value = object_of(value) if name in tables.objects else value
    words = [_text(word) for word in _listed(value)]
    if len(words) == 1 and words[0].startswith("-"):
        return (f"{flag}={words[0]}",)
    return (flag, *words)


def _listed(value: ArgumentValue) -> Sequence[str | int | float]:
    if isinstance(value, Mapping):
        return [json_text(value)]
    if isinstance(value, (str, int, float)) or value is None:
        return [] if value is None else [value]
    return value


def json_text(value: Mapping[str, Any]) -> str:
    """An object as one word of a command line: the same for every order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def object_of(value: ArgumentValue) -> ArgumentValue:
    """The mapping that a text of JSON stands for; anything else as it is."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
    return found if isinstance(found, dict) else value


def _text(word: str | float) -> str:
    return word if isinstance(word, str) else repr(word)


def _value(tables: FlagTables, name: str, values: Sequence[str]) -> ArgumentValue:
    if not values:
        return True
    if name in tables.objects and len(values) == 1:
        return object_of(values[0])
    typed = [word if name in tables.text else typed_word(word) for word in values]
    if name in tables.bare:
        return True
    return typed[0] if len(typed) == 1 and name not in tables.lists else list(typed)


def typed_word(word: str) -> str | int | float:
    """A word as the number that it is; anything else as it stands."""
    if not _NUMBER.fullmatch(word):
        return word
    return int(word) if re.fullmatch(r"-?\d+", word) else float(word)
