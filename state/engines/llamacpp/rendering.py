"""llama-server's command line: `llama-server -m FILE.gguf -c 8192 …`. Its parser is its own, not Python's.

A flag takes the next word whatever that looks like, never `--flag=value`; there are no abbreviations; one dash or two;
underscores in long flags are dashes (builds 5000 to 11000).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from state.engines.command_line import json_text, object_of, typed_word
from state.engines.llamacpp import flags
from state.engines.llamacpp.help_text import declared, problem_of
from state.engines.llamacpp.mistakes import mistakes
from state.engines.rendering import ArgumentMistake, ArgumentValue, Rendering, Scalar, UnknownFlag

PROGRAM = "llama-server"
MODELS = ("model", "model_draft", "mmproj")


@dataclass(frozen=True, slots=True)
class LlamaRendering:
    """The `Rendering` of llama-server. Builds after 10000 listen on 9931 by default, older ones on 8080: the port is
    best asked for."""

    kind: str = "llamacpp"
    default_port: int = 8080
    secret_arguments: frozenset[str] = flags.SECRETS
    file_arguments: frozenset[str] = flags.FILES

    def render_arguments(self, arguments: Mapping[str, ArgumentValue], command: Sequence[str] = ()) -> tuple[str, ...]:
        """A list is its flag several times where that adds up, else one word with commas."""
        named = self.canonical_arguments(arguments)
        return tuple(word for name in sorted(named) for word in _words(name, named[name]))

    def parse_arguments(self, argv: Sequence[str]) -> dict[str, ArgumentValue]:
        parsed: dict[str, ArgumentValue] = {}
        for word, values in grouped(argv[_flags_begin(argv) :]):
            name = named(word)
            if not values and name.startswith("no_") and name.removeprefix("no_") in flags.NEGATABLE:
                parsed[name.removeprefix("no_")] = False
            elif name in parsed and name in flags.REPEATED and values:
                parsed[name] = [*_listed(parsed[name]), *(_plain(_typed(name, value)) for value in values)]
            else:
                parsed[name] = _read(name, values)
        return parsed

    def canonical_arguments(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        found: dict[str, ArgumentValue] = {}
        for given, value in sorted(arguments.items()):
            name = flags.canonical(given)
            if isinstance(value, bool) and name in flags.ON_OFF:
                found[name] = "on" if value else "off"
            elif value is not None and not (value is False and name not in flags.NEGATABLE):
                found[name] = _kept(name, value)
        return found

    def model_paths(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, str]:
        named = self.canonical_arguments(arguments)
        return {name: str(named[name]) for name in MODELS if named.get(name)}

    def has_entry_point(self, argv: Sequence[str]) -> bool:
        return _flags_begin(argv) > 0

    def unknown_flags(self, argv: Sequence[str], help_text: str) -> list[UnknownFlag]:
        """A flag whose description says that it was removed is none, although the help lists it."""
        known, unknown = declared(help_text), dict[str, UnknownFlag]()
        for word, _ in grouped(argv[_flags_begin(argv) :]):
            flag = "--" + word[2:].replace("_", "-") if word.startswith("--") else word
            if (problem := problem_of(flag, known)) is not None:
                unknown[word] = UnknownFlag(word, problem)
        return list(unknown.values())

    def argument_mistakes(self, arguments: Mapping[str, object], version: str | None) -> list[ArgumentMistake]:
        """Secrets, two names for one argument, values of the wrong kind, and speculation that never drafts."""
        return mistakes(arguments)


def named(word: str) -> str:
    """The canonical name of a flag as it stands in an argv."""
    return flags.SHORT.get(word) or flags.canonical(word.lstrip("-"))


def grouped(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words that it takes; words that belong to none are passed over."""
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        if not _is_flag(word):
            continue
        taken = _takes(named(word), words[place : place + 2])
        yield word, list(words[place : place + taken])
        place += taken


def _takes(name: str, following: Sequence[str]) -> int:
    if name in flags.PAIRS:
        return len(following)
    switch = name in flags.BARE | flags.NEGATABLE or name.removeprefix("no_") in flags.NEGATABLE
    if not following or switch:
        return 0
    plain = name in flags.VALUED and name not in flags.ON_OFF
    return 1 if plain or not _is_flag(following[0]) else 0


def _is_flag(word: str) -> bool:
    """A dash and a letter: a number is none, and a text that has spaces neither."""
    return len(word) > 1 and word[0] == "-" and word.lstrip("-")[:1].isalpha() and " " not in word


def _flags_begin(argv: Sequence[str]) -> int:
    return next((at + 1 for at, word in enumerate(argv) if word.rpartition("/")[2] == PROGRAM), 0)


def _words(name: str, value: ArgumentValue) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (flags.spelled(name if value else f"no_{name}"),)
    flag = flags.spelled(name)
    if name in flags.PAIRS:
        return (flag, *(_text(one) for one in _listed(value)))
    if isinstance(value, Mapping):
        return (flag, json_text(value))
    return tuple(word for one in _listed(value) for word in (flag, _text(one)))


def _kept(name: str, value: ArgumentValue) -> ArgumentValue:
    """As it comes back from its words."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return dict(value) if name in flags.OBJECTS else _typed(name, json_text(value))
    if isinstance(value, str | int | float) or value is None:
        return _typed(name, _text(value))
    words = [_text(one) for one in value]
    if name not in flags.REPEATED and name not in flags.PAIRS:
        return _typed(name, ",".join(words))
    kept = [_typed(name, word) for word in words]
    return _plain(kept[0]) if len(kept) == 1 and name not in flags.PAIRS else [_plain(one) for one in kept]


def _read(name: str, values: Sequence[str]) -> ArgumentValue:
    if not values:
        return "on" if name in flags.ON_OFF else True
    if name in flags.PAIRS:
        return [_plain(_typed(name, value)) for value in values]
    return _typed(name, values[0])


def _typed(name: str, word: str) -> ArgumentValue:
    if name in flags.OBJECTS:
        return object_of(word)
    return word if name in flags.TEXT else typed_word(word)


def _plain(value: ArgumentValue) -> str | int | float:
    return value if isinstance(value, int | float | str) else str(value)


def _listed(value: ArgumentValue) -> list[str | int | float]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return [] if value is None else [_plain(value)]


def _text(word: Scalar) -> str:
    return word if isinstance(word, str) else repr(word)


RENDERING: Rendering = LlamaRendering()
