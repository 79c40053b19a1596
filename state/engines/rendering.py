"""The `Rendering` port: an engine's arguments as the words of its command line, and back."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from state.engines.registry import NAMES, part

Scalar = str | int | float | bool | None
ArgumentValue = Scalar | Sequence[str | int | float] | Mapping[str, Any]


class UnknownFlag(NamedTuple):
    """A flag that the installed engine does not accept; `suggestion` is a clause for people, empty if there is none."""

    flag: str
    suggestion: str


class ArgumentMistake(NamedTuple):
    """A mistake in one argument, or in their combination (`name` empty): `what is wrong; what was expected`."""

    name: str
    sentence: str


class Rendering(Protocol):
    """What is known of an engine's command line. Pure; names are the engine's own Python names (`tp_size`)."""

    @property
    def kind(self) -> str: ...

    @property
    def default_port(self) -> int:
        """The port that the engine listens on when none is asked for."""
        ...

    @property
    def secret_arguments(self) -> frozenset[str]:
        """Arguments that never stand in an argv, since every user of the host can read it."""
        ...

    @property
    def file_arguments(self) -> frozenset[str]:
        """Arguments by which the engine reads a file at its start, and does not start without it. Some take another
        thing as well, such as a template's name or its text, which is no absolute path."""
        ...

    def render_arguments(self, arguments: Mapping[str, ArgumentValue], command: Sequence[str] = ()) -> tuple[str, ...]:
        """The words after `command`, which may change how they are written (`vllm serve MODEL`). Flags by name in
        order: true is the bare flag, false and null are left out, a list is several words, a mapping is JSON."""
        ...

    def parse_arguments(self, argv: Sequence[str]) -> dict[str, ArgumentValue]:
        """The inverse: arguments by canonical name, from a whole argv or from its flags alone.

        Numbers become int or float unless the argument is known to be text. The last of a repeated flag counts.
        """
        ...

    def canonical_arguments(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        """`arguments` under canonical names, as `parse_arguments` would give them back from their rendering."""
        ...

    def model_paths(self, arguments: Mapping[str, ArgumentValue]) -> dict[str, str]:
        """Models and tokenizers that are asked for, by the argument that names them, the served model first."""
        ...

    def has_entry_point(self, argv: Sequence[str]) -> bool:
        """Whether the argv starts the engine itself, rather than a wrapper whose words mean something else."""
        ...

    def unknown_flags(self, argv: Sequence[str], help_text: str) -> list[UnknownFlag]:
        """Flags of `argv` that `help_text` (the installed engine's `--help` or usage) does not name, in their order.

        A help text that names no flag at all proves none: then every flag is unknown.
        """
        ...

    def argument_mistakes(self, arguments: Mapping[str, object], version: str | None) -> list[ArgumentMistake]:
        """What the engine is known to refuse or to overrule; `version` None stands for a recent one."""
        ...


def rendering_for(kind: str) -> Rendering | None:
    """`RENDERING` of `state.engines.KIND.rendering`; None where there is no such engine."""
    rendering: Rendering | None = part(kind, "rendering", "RENDERING")
    return rendering


def served_model(kind: str, arguments: Mapping[str, Any]) -> str:
    """Path or name of the model that an engine with these arguments serves; empty where they do not say."""
    rendering = rendering_for(kind)
    return next(iter(rendering.model_paths(arguments).values()), "") if rendering else ""


def files_read(kind: str, arguments: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Name of the argument and absolute path of each file that must be there for the engine to start. Where a relative
    path leads is left open; so is a text that a template may be (braces), or a list in one word (commas)."""
    rendering = rendering_for(kind)
    named = [(name, arguments.get(name)) for name in sorted(rendering.file_arguments)] if rendering else []
    return tuple(
        (name, word)
        for name, value in named
        for word in ([value] if isinstance(value, str) else value if isinstance(value, list | tuple) else [])
        if isinstance(word, str) and word.startswith("/") and not set(word) & set("{},\n")
    )


def engine_started_by(argv: Sequence[str]) -> str | None:
    """The engine whose entry point stands in the argv; None where it starts none that is known."""
    return next((kind for kind in NAMES if (known := rendering_for(kind)) and known.has_entry_point(argv)), None)


def running_model(argv: Sequence[str]) -> str:
    """The model of an argv that was found running; empty where it starts no engine that is known."""
    kind = engine_started_by(argv)
    rendering = rendering_for(kind) if kind else None
    return served_model(rendering.kind, rendering.parse_arguments(argv)) if rendering else ""
