"""The command line, read as SGLang's argparse reads it: same names, same abbreviations, same errors, exit status 2."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .flags import choices_of, extra_options, flags_of
from .versions import Version


class ParserExit(Exception):
    """argparse wants to end the process: `status` 0 after --help (text for stdout), 2 after a mistake (for stderr)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # raises, as the base class exits
        raise ParserExit(2, f"{self.format_usage()}{self.prog}: error: {message}\n")

    def print_help(self, file: object = None) -> None:
        raise ParserExit(0, self.format_help())


def build_parser(version: Version) -> argparse.ArgumentParser:
    parser = _Parser(prog=version.prog)
    parser.add_argument("--config", help="a file of arguments, merged before they are parsed")
    for flag in flags_of(version):
        options = (*flag.options, *extra_options(flag, version))
        if flag.kind is bool:
            parser.add_argument(*options, dest=flag.dest, action="store_true", default=flag.default)
        else:
            choices = choices_of(flag, version) or None
            parser.add_argument(
                *options, dest=flag.dest, type=flag.kind, default=flag.default, choices=choices, required=flag.required
            )
    return parser


def parse_arguments(argv: Sequence[str], version: Version) -> dict[str, object]:
    """The arguments as asked for, defaults filled in, in the engine's order; `argv` is without program, module and
    `--config`.

    Raises ParserExit for --help and for every mistake that argparse finds.
    """
    asked = dict(vars(build_parser(version).parse_args(list(argv))))
    del asked["config"]
    return asked
