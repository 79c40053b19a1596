"""From an argv to a running process: `sglang serve …`, `python -m sglang.launch_server …`, and the other engines'."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from . import llamacpp_launch, vllm_launch
from .faults import FaultsInvalid
from .launch import Installation, Launch, Refusal, prepare, read_installation
from .models import Files
from .ranks import start_ranks
from .settings import SettingsInvalid
from .versions import Version, parse_version, version_among

_ABOUT = "{engine} {version} (interlock's stand-in: it simulates the engine's logs and endpoints and serves no model)\n"


def prepare_start(
    installation: Installation,
    argv: Sequence[str],
    environment: Mapping[str, str],
    files: Files,
    engine: str,
    *,
    legacy_entry: bool,
) -> Launch:
    """The start of any engine. Raises Refusal."""
    if engine == "llamacpp":
        return llamacpp_launch.prepare(installation, argv, environment, files)
    if engine == "vllm":
        return vllm_launch.prepare(installation, argv, environment, files, serves=not legacy_entry)
    return prepare(installation, argv, environment, files, legacy_entry=legacy_entry)


def version_text(version: Version) -> str:
    """What `llama-server --version` says; the numbers of a release came about build 11000."""
    what = f"0.4.1-dev (build {version.patch}, commit" if version >= (0, 0, 11000) else f"{version.patch} ("
    return (
        f"version: {what} 5ca1ab1e0)\nbuilt with interlock's stand-in: it simulates the engine and serves no model\n"
    ).replace("( ", "(")


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


def main(argv: Sequence[str], *, legacy_entry: bool, engine: str = "sglang") -> None:
    """Start the engine with `argv`, which is without program, module and `serve`. Ends the process."""
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    version = parse_version(os.environ.get("SGLANG_STANDIN_VERSION") or version_among(os.listdir(site), engine))
    if list(argv) == ["--version"]:
        told = version_text(version) if engine == "llamacpp" else _ABOUT.format(engine=engine, version=version)
        sys.stdout.write(told)
        return
    root = os.environ.get("PRACTICE_ROOT", "").rstrip("/")
    shown = site[len(root) :] if root and site.startswith(root) else site
    try:
        installation = read_installation(version, os.path.dirname(site), os.environ, Disk(), shown_site=shown)
        launch = prepare_start(installation, argv, dict(os.environ), Disk(root), engine, legacy_entry=legacy_entry)
    except Refusal as refusal:
        sys.stdout.write(refusal.stdout)
        sys.stderr.write(refusal.stderr)
        sys.exit(refusal.status)
    except (FaultsInvalid, SettingsInvalid) as error:
        sys.exit(f"stand-in: {error}")
    ranks = start_ranks(launch.titles)
    from .server import serve  # asyncio comes after the forks, which do without it

    serve(launch, ranks)
