"""A target: the running service that claims are about, whether it came from a manifest or was found on a host."""

from collections.abc import Sequence
from typing import Any

from state.model import Value


class Target(Value):
    """What a service should be while it runs.

    `architectures` are those of the model's config.json. `arguments` are the engine's own names with the values that
    were asked for; `drivers` maps PCI addresses to drivers. `managed` is False for a configuration that was found
    running rather than rendered from a manifest; `offers` is what the service answers beside text (`state.contracts`);
    `key_file` a file on `unit_host` that holds the API key for `endpoint`.
    """

    engine: str
    unit: str
    unit_host: str
    endpoint: str
    key_file: str | None = None
    argv: tuple[str, ...]
    arguments: dict[str, Any] = {}
    environment: dict[str, str] = {}
    engine_version: str | None = None
    architectures: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    gpu_host: str | None = None
    drivers: dict[str, str] = {}
    managed: bool = True


def started_by(words: Sequence[str], argv: Sequence[str]) -> bool:
    """Whether a process with these words was started by `argv`: those after the program are its last ones. The kernel
    puts a script's interpreter in front (`#!`, as of every console script); a wrapper becomes another program."""
    return tuple(words) == tuple(argv) or (len(argv) > 1 and tuple(words[1 - len(argv) :]) == tuple(argv[1:]))
