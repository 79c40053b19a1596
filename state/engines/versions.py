"""Versions of engines: asked for, and their release numbers as tuples that compare."""

from collections.abc import Sequence

Version = tuple[int, ...]


def interpreter_of(command: Sequence[str]) -> str | None:
    """The interpreter of `python -m MODULE`; None for any other command."""
    return command[0] if len(command) >= 3 and command[1] == "-m" else None


def package_version_argv(package: str, interpreter: str | None) -> tuple[str, ...] | None:
    """How an interpreter tells the version of a package that it would run, without importing it."""
    code = f"import importlib.metadata as m; print(m.version('{package}'))"
    return (interpreter, "-c", code) if interpreter else None


def release(version: str) -> Version:
    """The release numbers of a version: `0.5.10.post1` is (0, 5, 10)."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
