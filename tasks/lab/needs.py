"""What a machine needs to run container hosts, and the Debian packages that bring it."""

import os
import shutil
import subprocess
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

INSTALL_TIMEOUT_S = 300.0


def missing_packages() -> list[str]:
    """The packages that must be installed before a lab can be brought up, sorted."""
    return sorted(package for program, package in PACKAGES.items() if shutil.which(program) is None)


def refuse_unless_able() -> None:
    """Raises Refused with one sentence that names all that is missing here."""
    missing = []
    if not is_root():
        missing.append("root")
    if packages := missing_packages():
        missing.append(f"the Debian package{'s' * (len(packages) > 1)} {', '.join(packages)}")
    if cgroup_mount() is None:
        missing.append("a mounted cgroup2 hierarchy")
    if missing:
        raise Refused(
            f"A container host needs {_listed(missing)}, which {'is' if len(missing) == 1 else 'are'} not here",
            hint="run as root; `interlock lab up --install` installs the packages with apt-get",
        )


def is_root() -> bool:
    return os.geteuid() == 0


def install() -> None:
    """Install what is missing with apt-get. Raises Refused where that is not possible."""
    packages = missing_packages()
    if not packages:
        return
    if not is_root() or shutil.which("apt-get") is None:
        refuse_unless_able()
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
        done = subprocess.run(
            ("apt-get", "--quiet", *words), env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S
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


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it did not say why"
