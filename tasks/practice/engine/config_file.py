"""A file of arguments, `--config FILE`: what SGLang and vLLM merge into the command line, whose own words win.

Simulated: YAML of single values alone (`name: value`, `name: true`), which need no parser of YAML; no lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .arguments import ParserExit
from .models import Files


def merged(argv: Sequence[str], files: Files) -> list[str]:
    """The command line with the file's arguments before its own. Raises ParserExit for a file that cannot be read."""
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    if "--config" not in words:
        return list(argv)
    place = words.index("--config")
    path = words[place + 1] if place + 1 < len(words) else ""
    try:
        text = files.read(path).decode()
    except OSError as error:
        raise ParserExit(1, f"ValueError: Config file not found: {path}\n") from error
    return [*_words(text), *words[:place], *words[place + 2 :]]


def _words(text: str) -> Iterator[str]:
    for line in text.splitlines():
        name, colon, value = line.partition("#")[0].strip().partition(":")
        value = value.strip().strip("'\"")
        if colon and value.lower() != "false":
            yield f"--{name.strip().replace('_', '-')}"
            yield from [value] if value.lower() != "true" else ()
