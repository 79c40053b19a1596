"""SGLang's command line: `python -m sglang.launch_server` (all releases) and `sglang serve` (0.5.5 and later)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from state.engines import command_line
from state.engines.rendering import ArgumentMistake, ArgumentValue, Rendering, UnknownFlag
from state.engines.sglang.flag_names import SWITCHES
from state.engines.sglang.flags import (
    DEFAULTS,
    FILES,
    INTEGERS,
    NEEDS_DRAFT_PATH,
    RENAMES,
    SECRETS,
    SPECULATIVE_TRIPLE,
    TABLES,
)
from state.engines.versions import release


@dataclass(frozen=True, slots=True)
class SglangRendering:
    """The `Rendering` of SGLang."""

    kind: str = "sglang"
    default_port: int = 30000
    secret_arguments: frozenset[str] = SECRETS
    file_arguments: frozenset[str] = FILES

    def render_arguments(self, arguments: Mapping[str, ArgumentValue], command: Sequence[str] = ()) -> tuple[str, ...]:
        return command_line.render_flags(TABLES, arguments)

    def parse_arguments(self, argv: Sequence[str]) -> dict[str, ArgumentValue]:
        return command_line.parse_flags(TABLES, argv[_flags_begin(argv) :])

    def canonical_arguments(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        return command_line.canonical_values(TABLES, arguments)

    def model_paths(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, str]:
        return {name: str(arguments[name]) for name in MODEL_PATHS if arguments.get(name)}

    def has_entry_point(self, argv: Sequence[str]) -> bool:
        return _flags_begin(argv) > 0

    def unknown_flags(self, argv: Sequence[str], help_text: str) -> list[UnknownFlag]:
        return command_line.unknown_flags(TABLES, argv[_flags_begin(argv) :], help_text)

    def argument_mistakes(self, arguments: Mapping[str, object], version: str | None) -> list[ArgumentMistake]:
        """Secrets, two names for one argument, values of the wrong kind, renamed flags, and speculative settings that
        SGLang refuses or overrules (measured with 0.5.23)."""
        named = {TABLES.canonical(name): (name, value) for name, value in arguments.items()}
        asked = {name: value for name, (_, value) in named.items() if value is not None and value is not False}
        found = [
            *_twice(arguments, named),
            *_secrets(asked),
            *_kinds(asked),
            *(_renamed(asked, version) if version else ()),
            *_speculation(asked, version),
        ]
        return [ArgumentMistake(named[name][0] if name in named else "", sentence) for name, sentence in found]


def _flags_begin(argv: Sequence[str]) -> int:
    for index, word in enumerate(argv):
        if word == "sglang.launch_server" or word.endswith("sglang/launch_server.py"):
            return index + 1
        if word.rpartition("/")[2] == "sglang" and list(argv[index + 1 : index + 2]) == ["serve"]:
            return index + 2
    return 0


def _twice(arguments: Mapping[str, object], named: Mapping[str, tuple[str, object]]) -> Iterator[tuple[str, str]]:
    for name in arguments:
        canonical = TABLES.canonical(name)
        if (kept := named[canonical][0]) != name:
            yield canonical, f"`{kept}` and `{name}` are the same argument; expected it once, as `{canonical}`"


def _secrets(asked: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name in sorted(SECRETS & asked.keys()):
        yield (
            name,
            (
                "is a secret, and every user of the host can read an argv; expected it in a file that only the"
                " service can read (named under `unit.secrets`, or the engine's own `config`)"
            ),
        )


def _kinds(asked: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in asked.items():
        if name in INTEGERS and not _is_whole(value):
            yield name, f"`{value}` is no whole number; expected one"
        if name in PARALLEL and isinstance(value, int) and value < 1:
            yield name, f"`{value}` is no number of processes; expected 1 or more"
        if name == "mem_fraction_static" and isinstance(value, (int, float)) and not 0 < value < 1:
            yield name, f"`{value}` is no share of a GPU's memory; expected a number between 0 and 1, such as 0.75"
        if name in SWITCHES and value is not True:
            yield name, f"`{value}` is given to a switch; expected true or false"


def _renamed(asked: Mapping[str, object], version: str) -> Iterator[tuple[str, str]]:
    for name, rename in RENAMES.items():
        if name in asked and rename.missing_in(release(version)):
            instead = f"`{rename.new}`" if rename.new else "it to be left out"
            yield name, f"is no argument of SGLang {version}: {rename.story}; expected {instead}"


def _speculation(asked: Mapping[str, object], version: str | None) -> Iterator[tuple[str, str]]:
    algorithm = str(asked.get("speculative_algorithm", "")).upper()
    given = [name for name in SPECULATIVE_TRIPLE if name in asked]
    stray = [name for name in asked if name.startswith("speculative_") and name != "speculative_algorithm"]
    if not algorithm:
        for name in stray:
            yield name, "has no effect without `speculative_algorithm`; expected both or neither"
        return
    if algorithm == "MTP":
        yield "speculative_algorithm", "`MTP` is no algorithm of SGLang; expected `NEXTN` for MTP weights"
    if algorithm in NEEDS_DRAFT_PATH and "speculative_draft_model_path" not in asked:
        yield "speculative_algorithm", f"`{algorithm}` needs a draft model; expected `speculative_draft_model_path`"
    if algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE") and given:
        yield from _triple(asked, given, version)


def _triple(asked: Mapping[str, object], given: Sequence[str], version: str | None) -> Iterator[tuple[str, str]]:
    """An incomplete set was measured to kill 0.5.23, and names are checked alike since 0.5.12; an operator's fork is
    known to have taken steps alone. So an unknown version is left to the preflight, which asks the installed one."""
    missing = [name for name in SPECULATIVE_TRIPLE if name not in given]
    if missing and (version is None or release(version) < (0, 5, 12)):
        return
    if missing:
        yield (
            given[0],
            (
                f"is given without {' and '.join(f'`{name}`' for name in missing)}, which SGLang dies of; expected all"
                " of steps, topk and draft tokens, or none of them"
            ),
        )
        return
    steps, topk, drafts = (asked[name] for name in SPECULATIVE_TRIPLE)
    if isinstance(steps, int) and topk == 1 and drafts != steps + 1:
        yield SPECULATIVE_TRIPLE[2], f"`{drafts}` is overruled with topk 1; expected steps + 1 = {steps + 1}"


MODEL_PATHS = ("model_path", "tokenizer_path", "speculative_draft_model_path")
PARALLEL = ("tp_size", "pp_size", "dp_size", "ep_size")


def _is_whole(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and value.lstrip("-").isdigit())


RENDERING: Rendering = SglangRendering(default_port=int(str(DEFAULTS["port"])))
