"""The tools that are compared, each in a virtual environment of its own, in pinned versions.

They are no dependencies of the product. pip's own configuration says where packages come from. The environments lie in
INTERLOCK_BENCH_DIR, or in the user's cache directory, and are made once.
"""

import os
import subprocess
import sys
from pathlib import Path

PINNED = {
    "ansible": ("ansible-core==2.19.14", "mitogen==0.3.54"),
    "eventsourcing": ("eventsourcing==9.5.6", "psycopg[binary,pool]==3.3.9"),
    "temporal": ("temporalio==1.35.0",),
    "pyinfra": ("pyinfra==3.10.0",),
    "ripgrep": ("ripgrep==14.1.0",),
}
INSTALL_TIMEOUT_S = 600.0


class PeerMissing(Exception):
    """A tool that is compared could not be installed; pip's own words are on standard error."""


def home() -> Path:
    """Where environments are kept."""
    given = os.environ.get("INTERLOCK_BENCH_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "interlock-bench"


def installed(name: str) -> Path:
    """The `bin` of the tool's environment; it is made if it is not there. Raises PeerMissing."""
    words = PINNED[name]
    folder = home() / "-".join([name, *(word.partition("==")[2] for word in words)])
    if not (folder / "complete").exists():
        print(f"installing {', '.join(words)} into {folder}", file=sys.stderr)
        pip = (str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words)
        try:
            for argv in ((sys.executable, "-m", "venv", str(folder)), pip):
                subprocess.run(argv, check=True, timeout=INSTALL_TIMEOUT_S)
        except (subprocess.SubprocessError, OSError) as error:
            raise PeerMissing(f"{' '.join(words)} could not be installed: {error}") from error
        (folder / "complete").touch()
    return folder / "bin"


def install(*names: str) -> None:
    """All of them, before anything is timed. Raises PeerMissing."""
    for name in names:
        installed(name)


def mitogen_strategies() -> Path | None:
    """The folder of Mitogen's strategy plugins for Ansible; None where the package has none."""
    found = installed("ansible").parent.glob("lib/python*/site-packages/ansible_mitogen/plugins/strategy")
    return next(found, None)
