"""Where an engine has its API key from: what tells whether a new start will ask for the same one as the old."""

import re
from collections.abc import Mapping
from typing import Any

from state.inspection.unit import parse_unit
from state.redaction import is_secret_name
from state.revision import Revision
from state.target import Target

ARGUMENTS = ("config", "api_key", "api_key_file", "admin_api_key")
"""By which SGLang (0.5.23), vLLM (0.30) and llama-server (build 11000) are told their keys, or a file that has them."""

_OWN_PROGRAMS = re.compile(r"python[\d.]*|sglang|vllm|llama-server")
"""What starts an engine and has no key of its own, in whatever folder it lies; a wrapper may have one."""


def told_the_same(running: Target, unit_text: str, wanted: Revision) -> bool:
    """Whether `wanted` is told its key as `running` is, whose unit `unit_text` shows with its drop-ins.

    By paths alone: that a file has changed since nobody can tell. Where it is not sure, it is not the same."""
    rendered = wanted.files[0].content
    return running.engine == wanted.engine and _source(
        running.unit, unit_text, running.argv, running.arguments
    ) == _source(wanted.unit, rendered, wanted.argv, wanted.arguments)


def _source(unit: str, text: str, argv: tuple[str, ...], arguments: Mapping[str, Any]) -> tuple[object, ...]:
    read = parse_unit(text, unit)
    program = argv[0] if argv else ""
    return (
        "" if _OWN_PROGRAMS.fullmatch(program.rpartition("/")[2]) else program,
        [arguments.get(name) for name in ARGUMENTS],
        [path.removeprefix("-") for path in read.environment_files],
        {name: value for name, value in read.environment.items() if is_secret_name(name)},
        read.value("WorkingDirectory"),
    )
