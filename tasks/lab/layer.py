"""What one container host has beside the shared tree: names, keys, the engine stand-in and its unit."""

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from tasks.practice.engine.install import QWEN, QWEN_MTP, QWEN_WITHOUT_MTP, install_engine
from tasks.practice.scene import UNIT, UNIT_FILE, service_unit

USER = "interlock"
PORT = 30_000
"""Where the engine listens, on each host's own loopback."""

SUDOERS = """\
Cmnd_Alias INTERLOCK_READ = /usr/bin/true, /usr/bin/cat, /usr/bin/test, \\
    /usr/bin/sha256sum, /usr/bin/find, /usr/bin/ss, \\
    /usr/bin/journalctl, /usr/bin/systemd-analyze
Cmnd_Alias INTERLOCK_CHANGE = /usr/bin/tee, /usr/bin/systemctl, \\
    /usr/bin/systemd-run, /usr/bin/sh, /bin/sh

Defaults:interlock !requiretty, !lecture
interlock ALL=(root) NOPASSWD: INTERLOCK_READ, INTERLOCK_CHANGE
"""
"""The list of docs/reference/sudoers.md, word for word."""


@dataclass(frozen=True, slots=True)
class Furnishing:
    """What a host begins with: the engine's faults and settings, and the hand-written unit (`unit`: its whole text)."""

    faults: Sequence[Mapping[str, object]] = ()
    settings: Mapping[str, object] | None = None
    unit: str = field(default_factory=lambda: service_unit(PORT))
    enabled: bool = True


def write_layer(layer: Path, tree: Path, name: str, public_key: str, furnishing: Furnishing) -> str:
    """Write the files of host `name` below `layer`; its public host key. What is there already is replaced."""
    shutil.rmtree(layer, ignore_errors=True)
    _put(layer, "/etc/hostname", f"{name}\n")
    _put(layer, "/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    _put(layer, "/etc/machine-id", f"{secrets.token_hex(16)}\n")
    _authorize(layer, tree, public_key)
    key = asyncssh.generate_private_key("ssh-ed25519")
    _put(layer, "/etc/ssh/ssh_host_ed25519_key", key.export_private_key().decode(), 0o600)
    public = key.export_public_key().decode().strip()
    _put(layer, "/etc/ssh/ssh_host_ed25519_key.pub", f"{public}\n")
    install_engine(
        layer,
        models=(QWEN, QWEN_MTP, QWEN_WITHOUT_MTP),
        faults=furnishing.faults,
        settings=furnishing.settings,
        interpreter="/usr/bin/python3",
    )
    _make_venv(layer, tree)
    _put(layer, UNIT_FILE, furnishing.unit)
    if furnishing.enabled:
        wanted = layer / "etc/systemd/system/multi-user.target.wants" / UNIT
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.symlink_to(UNIT_FILE)
    return public


def _make_venv(layer: Path, tree: Path) -> None:
    """Give the engine a virtual environment as real ones have: its `python` is a link, and stays the process's name."""
    version = next((tree / "usr/lib").glob("python3.*")).name
    _put(layer, "/opt/sglang/pyvenv.cfg", "home = /usr/bin\n")
    _put(layer, f"/opt/sglang/lib/{version}/site-packages/sglang.pth", "/opt/sglang/site\n")
    program = layer / "opt/sglang/bin/python"
    program.rename(program.with_name("python-wrapper"))
    program.symlink_to("/usr/bin/python3")


def _authorize(layer: Path, tree: Path, public_key: str) -> None:
    """The client key; sshd wants the user's own folders to be the user's."""
    owner = (tree / "home" / USER).stat()
    _put(layer, f"/home/{USER}/.ssh/authorized_keys", f"{public_key}\n", 0o600)
    for path in (f"home/{USER}", f"home/{USER}/.ssh", f"home/{USER}/.ssh/authorized_keys"):
        os.chown(layer / path, owner.st_uid, owner.st_gid)
    (layer / f"home/{USER}/.ssh").chmod(0o700)


def _put(layer: Path, path: str, text: str, mode: int = 0o644) -> None:
    place = layer / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    place.chmod(mode)
