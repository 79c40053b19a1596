"""The Debian tree that all container hosts share: made once by debootstrap, kept outside the repository."""

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from state.errors import Refused
from tasks.lab import needs
from tasks.lab.layer import SUDOERS, USER

PACKAGES = (
    "dbus",
    "iproute2",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
)
NOT_NEEDED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
)
"""Units that would only take time on a host that lives for minutes."""

BUILD_TIMEOUT_S = 900.0
_SSHD = "LogLevel VERBOSE\nPasswordAuthentication no\nUseDNS no\n"
_ACCOUNTS = (
    ("useradd", "--system", "--create-home", "--shell", "/bin/sh", USER),
    ("usermod", "--append", "--groups", "systemd-journal", USER),
    ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "sglang"),
)


def lab_dir() -> Path:
    """Where trees are kept: INTERLOCK_LAB_DIR, or a folder of /var/cache."""
    return Path(os.environ.get("INTERLOCK_LAB_DIR") or "/var/cache/interlock-lab").resolve()


def tree_path(directory: Path, release: str) -> Path:
    """A tree of this release and this recipe; another recipe makes another tree."""
    recipe = repr((PACKAGES, NOT_NEEDED, _SSHD, SUDOERS, _ACCOUNTS)).encode()
    return directory / f"{release}-{hashlib.sha256(recipe).hexdigest()[:12]}"


def ensure_tree(directory: Path) -> Path:
    """The tree's path; it is made if it is not there, which takes about a minute. Raises Refused."""
    if any(char in str(directory) for char in ":,"):
        raise Refused(f"INTERLOCK_LAB_DIR may hold neither `:` nor `,`, and {directory} does")
    mirror, release = debian_mirror()
    path = tree_path(directory, release)
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory / "lock"):
        if not path.exists():
            _build(path, mirror, release)
    return path


def debian_mirror() -> tuple[str, str]:
    """Where apt of this machine takes its own release from, and that release's name. Raises Refused."""
    release = _release(Path("/etc/os-release").read_text(encoding="utf-8"))
    wanted = ("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages")
    listed = subprocess.run(wanted, capture_output=True, text=True, timeout=60)
    mirror = chosen_mirror(listed.stdout, release)
    if mirror is None:
        raise Refused(
            f"apt has no source for {release or 'this system'}, component main, that debootstrap can read",
            hint="a container host is made from the same mirror as this machine; add it to apt's sources",
        )
    return mirror, release


def chosen_mirror(targets: str, release: str) -> str | None:
    """The first of apt's sources that holds `main` of `release` itself, not of its updates."""
    fields = (line.split() for line in targets.splitlines())
    return next(
        (
            f[0]
            for f in fields
            if len(f) == 3 and f[1:] == [release, "main"] and f[0].startswith(("http:", "https:", "file:"))
        ),
        None,
    )


def _release(os_release: str) -> str:
    values = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    return values.get("VERSION_CODENAME", "").strip('"')


def _build(path: Path, mirror: str, release: str) -> None:
    """Build beside the final place and rename, so that a build that was cut off is no tree."""
    fresh = path.with_name(f"{path.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    included = f"--include={','.join(PACKAGES)}"
    _run(("debootstrap", "--variant=minbase", included, release, str(fresh), mirror), environment=_proxy())
    for words in _ACCOUNTS:
        _run(("chroot", str(fresh), *words))
    _configure(fresh)
    fresh.rename(path)


def _configure(tree: Path) -> None:
    for unit in NOT_NEEDED:
        (tree / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (tree / "etc/ssh/sshd_config.d/interlock.conf").write_text(_SSHD)
    sudoers = tree / "etc/sudoers.d/interlock"
    sudoers.write_text(SUDOERS)
    sudoers.chmod(0o440)
    shutil.rmtree(tree / "var/cache/apt/archives", ignore_errors=True)


def _proxy() -> Mapping[str, str]:
    """apt's own proxy, which debootstrap does not know of."""
    shown = subprocess.run(
        ("apt-config", "shell", "http_proxy", "Acquire::http::Proxy"), capture_output=True, text=True, timeout=60
    )
    pairs = (word.partition("=") for word in shlex.split(shown.stdout))
    return {name: value for name, _, value in pairs if value}


def _run(words: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        words,
        env={**needs.environment(), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
    )
    if done.returncode != 0:
        last = "; ".join(done.stdout.splitlines()[-3:])
        raise Refused(f"`{words[0]}` could not make the Debian tree: {last}", hint="is the mirror within reach?")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time; the lock goes with its process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
