"""vLLM's command line: `vllm serve MODEL` and `python -m vllm.entrypoints.openai.api_server --model MODEL`."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from state.engines import command_line
from state.engines.rendering import ArgumentMistake, ArgumentValue, Rendering, UnknownFlag
from state.engines.vllm.flag_names import OBJECTS
from state.engines.vllm.flags import DEFAULTS, FILES, SECRETS, SHORT, SPECULATIVE_SHORTHAND, TABLES
from state.engines.vllm.mistakes import mistakes

MODEL = "model"


@dataclass(frozen=True, slots=True)
class VllmRendering:
    """The `Rendering` of vLLM."""

    kind: str = "vllm"
    default_port: int = 8000
    secret_arguments: frozenset[str] = SECRETS
    file_arguments: frozenset[str] = FILES

    def render_arguments(self, arguments: Mapping[str, ArgumentValue], command: Sequence[str] = ()) -> tuple[str, ...]:
        """`vllm serve` takes the model as its first word: as a flag it is deprecated there since 0.9."""
        named = self.canonical_arguments(arguments)
        first: tuple[str, ...] = ()
        if _serves(command) and MODEL in named:
            first = (str(named.pop(MODEL)),)
        return (*first, *command_line.render_flags(TABLES, named))

    def parse_arguments(self, argv: Sequence[str]) -> dict[str, ArgumentValue]:
        words = argv[_flags_begin(argv) :]
        parsed = command_line.parse_flags(TABLES, expanded(words))
        if words and not words[0].startswith("-") and _serves(argv):
            parsed[MODEL] = words[0]
        return _folded(parsed)

    def canonical_arguments(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        return _folded(command_line.canonical_values(TABLES, arguments))

    def model_paths(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, str]:
        found = {name: str(arguments[name]) for name in (MODEL, "tokenizer") if arguments.get(name)}
        config = arguments.get("speculative_config")
        draft = config.get("model") if isinstance(config, Mapping) else None
        return found | ({"speculative_config.model": str(draft)} if draft else {})

    def has_entry_point(self, argv: Sequence[str]) -> bool:
        return _flags_begin(argv) > 0

    def unknown_flags(self, argv: Sequence[str], help_text: str) -> list[UnknownFlag]:
        """Underscores and short forms are taken as vLLM takes them; a key of an object counts as its flag."""
        return command_line.unknown_flags(TABLES, expanded(argv[_flags_begin(argv) :]), help_text)

    def argument_mistakes(self, arguments: Mapping[str, object], version: str | None) -> list[ArgumentMistake]:
        """Secrets, two names for one argument, values of the wrong kind, flags of other releases, and speculative
        settings that vLLM refuses (0.9 to 0.30)."""
        return mistakes(arguments, version)


def _serves(argv: Sequence[str]) -> bool:
    return any(
        word.rpartition("/")[2] == "vllm" and list(argv[at + 1 : at + 2]) == ["serve"] for at, word in enumerate(argv)
    )


def _flags_begin(argv: Sequence[str]) -> int:
    for index, word in enumerate(argv):
        if word == "vllm.entrypoints.openai.api_server" or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return index + 1
        if word.rpartition("/")[2] == "vllm" and list(argv[index + 1 : index + 2]) == ["serve"]:
            return index + 2
    return 0


def expanded(words: Sequence[str]) -> tuple[str, ...]:
    """The words with every flag in its long form, dashes for underscores, and keys of an object (`--x.y 1`) gathered
    into one object behind the others, as vLLM does it before it parses them."""
    long: list[str] = []
    keys: dict[str, dict[str, Any]] = {}
    pending: tuple[str, str] | None = None
    for word in (part for given in words for part in _long(given)):
        name, dot, path = word.removeprefix("--").partition("=")[0].partition(".")
        if word.startswith("--") and dot and name.replace("-", "_") in OBJECTS:
            pending = (name, path)
            if "=" in word:
                _set(keys.setdefault(name, {}), path, word.partition("=")[2])
                pending = None
        elif pending is not None:
            _set(keys.setdefault(pending[0], {}), pending[1], word)
            pending = None
        else:
            long.append(word)
    for name, found in keys.items():
        long += [f"--{name}", command_line.json_text({**_given(long, name), **found})]
    return tuple(long)


def _long(word: str) -> tuple[str, ...]:
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
        name, dot, path = flag.partition(".")
        return (f"{name.replace('_', '-')}{dot}{path}{equals}{value}",)
    flag, equals, value = word.partition("=")
    if level := re.fullmatch(r"-O=?(\d)", word):
        return ("--optimization-level", level[1])
    if flag not in SHORT:
        return (word,)
    return (f"--{SHORT[flag].replace('_', '-')}", *((value,) if equals else ()))


def _given(words: Sequence[str], name: str) -> dict[str, Any]:
    """The object that the flag itself was given, if any."""
    for flag, value in pairwise(words):
        if flag == f"--{name}":
            found = _loaded(value)
            return found if isinstance(found, dict) else {}
    return {}


def _set(target: dict[str, Any], path: str, value: str) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        below = target.setdefault(parent, {})
        if not isinstance(below, dict):
            return
        target = below
    target[last] = _loaded(value)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _folded(arguments: dict[str, ArgumentValue]) -> dict[str, ArgumentValue]:
    """The shorthands of speculation as the keys that they stand for."""
    short = {SPECULATIVE_SHORTHAND[name]: arguments[name] for name in SPECULATIVE_SHORTHAND if name in arguments}
    config = arguments.get("speculative_config")
    if not short or not isinstance(config, Mapping | None):
        return arguments
    kept: dict[str, ArgumentValue] = {n: v for n, v in arguments.items() if n not in SPECULATIVE_SHORTHAND}
    kept["speculative_config"] = {**(config or {}), **short}
    return kept


RENDERING: Rendering = VllmRendering(default_port=int(str(DEFAULTS["port"])))
