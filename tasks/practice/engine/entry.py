"""From an argv to a running process: `sglang serve …` and `python -m sglang.launch_server …`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .faults import FaultsInvalid
from .launch import Refusal, prepare, read_installation
from .ranks import start_ranks
from .settings import SettingsInvalid
from .versions import parse_version, version_among

_ABOUT = "sglang {version} (interlock's stand-in: it simulates the engine's logs and endpoints and serves no model)\n"


class Disk:
    """The files of this host; `root` goes before every absolute path."""

    def __init__(self, root: str = "") -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        with open(self._below(path), "rb") as file:
            return file.read()

    def names(self, path: str) -> list[str]:
        return os.listdir(self._below(path))

    def _below(self, path: str) -> str:
        return self._root + path if path.startswith("/") else path


def main(argv: Sequence[str], *, legacy_entry: bool) -> None:
    """Start the engine with `argv`, which is without program, module and `serve`. Ends the process."""
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    version = parse_version(os.environ.get("SGLANG_STANDIN_VERSION") or version_among(os.listdir(site)))
    if list(argv) == ["--version"]:
        sys.stdout.write(_ABOUT.format(version=version))
        return
    root = os.environ.get("PRACTICE_ROOT", "").rstrip("/")
    shown = site[len(root) :] if root and site.startswith(root) else site
    try:
        installation = read_installation(version, os.path.dirname(site), os.environ, Disk(), shown_site=shown)
        launch = prepare(installation, argv, dict(os.environ), Disk(root), legacy_entry=legacy_entry)
    except Refusal as refusal:
        sys.stdout.write(refusal.stdout)
        sys.stderr.write(refusal.stderr)
        sys.exit(refusal.status)
    except (FaultsInvalid, SettingsInvalid) as error:
        sys.exit(f"stand-in: {error}")
    ranks = start_ranks(launch.titles)
    from .server import serve  # asyncio comes after the forks, which do without it

    serve(launch, ranks)
