"""What a machine needs to run container hosts, and the Debian packages that bring it."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from state.errors import Refused

PACKAGES = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
    "ssh": "openssh-client",
}
"""Program -> the package of Debian and Ubuntu that has it."""

SYSTEM_DIRS = ("/usr/sbin", "/sbin")
"""Where Debian keeps programs for root; the PATH of other users lacks them, and that of `su` without a dash."""

INSTALL_TIMEOUT_S = 300.0


def environment() -> dict[str, str]:
    """This process's own, its PATH extended by SYSTEM_DIRS."""
    own = os.environ.get("PATH", os.defpath)
    return os.environ | {"PATH": os.pathsep.join((own, *SYSTEM_DIRS))}


def missing_packages(programs: Mapping[str, str] = PACKAGES) -> list[str]:
    """The packages of `programs` that must be installed before a lab can be brought up, sorted."""
    path = environment()["PATH"]
    return sorted({package for program, package in programs.items() if shutil.which(program, path=path) is None})


def refuse_unless_able() -> None:
    """Raises Refused with one sentence that names all that is missing here."""
    if sentence := lacking(root=is_root(), packages=missing_packages(), cgroup2=cgroup_mount() is not None):
        raise Refused(sentence, hint="run as root; `interlock lab up --install` installs the packages with apt-get")


def lacking(*, root: bool, packages: Sequence[str], cgroup2: bool) -> str:
    """The sentence; empty for a machine that has all."""
    missing = [] if root else ["root's power"]
    if packages:
        missing.append(f"Debian package {', '.join(packages)}")
    if not cgroup2:
        missing.append("mounted cgroup2 hierarchy")
    return f"No container host can be booted here: there is no {', no '.join(missing)}" if missing else ""


def is_root() -> bool:
    return os.geteuid() == 0


def install(programs: Mapping[str, str] = PACKAGES) -> None:
    """Install what is missing of `programs` with apt-get. Raises Refused where that is not possible."""
    packages = missing_packages(programs)
    if not packages:
        return
    if not is_root() or shutil.which("apt-get") is None:
        refuse_unless_able()
    variables = environment() | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
        done = subprocess.run(
            ("apt-get", "--quiet", *words), env=variables, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
        )
        if done.returncode != 0:
            raise Refused(f"apt-get could not install {', '.join(packages)}: {_last_line(done.stderr or done.stdout)}")


def cgroup_mount(mounts: str | None = None) -> Path | None:
    """Where the cgroup2 hierarchy is mounted; on hosts that still have the first version it is beside that."""
    return next((path for kind, path in _cgroups(mounts) if kind == "cgroup2"), None)


def cgroup_mounts(mounts: str | None = None) -> list[Path]:
    """Every cgroup hierarchy; systemd-nspawn makes a folder of the same name in those of the first version too."""
    return [path for _, path in _cgroups(mounts)]


def _cgroups(mounts: str | None) -> list[tuple[str, Path]]:
    text = Path("/proc/self/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    fields = [line.split() for line in text.splitlines()]
    return [(f[2], Path(f[1])) for f in fields if len(f) > 2 and f[2] in ("cgroup", "cgroup2")]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it did not say why"
