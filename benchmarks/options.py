"""The options of a benchmark: whole numbers above zero, programs that must be there, and what makes a run a trial."""

import argparse
import shutil


class Missing(Exception):
    """Something that a benchmark needs is not on this machine; told before anything is measured."""


def count(text: str) -> int:
    """An argparse type. Raises ArgumentTypeError for anything but a whole number of at least 1."""
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number of at least 1")
    return found


def is_trial(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> bool:
    """Whether less was asked for than is by default, or something left out: such figures replace no whole ones."""
    return any(_less(given, parser.get_default(name)) for name, given in vars(asked).items() if name != "seed")


def _less(given: object, whole: object) -> bool:
    if isinstance(given, list) and isinstance(whole, list):
        return given != whole
    return isinstance(given, int | float) and isinstance(whole, int | float) and given < whole


def needs(*programs: str) -> None:
    """Raises Missing that names the first program that is not found."""
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"`{program}` is not installed here, or not in PATH")
