"""The environment that systemd gives to a unit's process."""

import re
from collections.abc import Mapping

from tasks.practice.files import Files
from tasks.practice.units import ServiceUnit

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"


class EnvironmentUnreadable(Exception):  # named by consequence, as all errors here are
    """An EnvironmentFile= without a dash is not there; systemd's result is `resources`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"Failed to load environment files: {reason}")
        self.path, self.reason = path, reason


def unit_environment(files: Files, unit: ServiceUnit, invocation: str) -> Mapping[str, str]:
    """Built-in variables first, then Environment=, then the files, the later one winning."""
    env = {"LANG": "C.UTF-8", "PATH": SYSTEM_PATH, "INVOCATION_ID": invocation, "JOURNAL_STREAM": "9:14363"}
    if unit.user:
        home = "/root" if unit.user == "root" else f"/home/{unit.user}"
        env |= {"USER": unit.user, "LOGNAME": unit.user, "HOME": home, "SHELL": "/bin/sh"}
    env |= dict(unit.environment)
    for path, optional in unit.environment_files:
        try:
            env |= parse_environment_file(files.read(path).decode("utf-8", "replace"))
        except OSError as error:
            if not optional:
                raise EnvironmentUnreadable(path, error.strerror or str(error)) from error
    return env


def parse_environment_file(text: str) -> dict[str, str]:
    """NAME=VALUE lines with comments, quotes and continuation lines."""
    found: dict[str, str] = {}
    for raw in re.sub(r"\\\n", "", text).splitlines():
        line = raw.strip()
        key, sep, value = line.partition("=")
        if not line.startswith(("#", ";")) and sep and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key.strip()):
            found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\([\"\\`$])", r"\1", text[1:-1])
    return re.sub(r"\\(.)", r"\1", text)
