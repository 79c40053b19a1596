"""What is known of a virtual machine host: its number gives its name and its place."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from state.manifest.model import HostSpec
from tasks.hosts.privilege import Become
from tasks.hosts.ssh_options import Login
from tasks.lab.layer import USER
from tasks.lab.record import RUN_DIR

MOST = 8
"""Machines at once: each takes a gigabyte of memory and two threads."""


@dataclass(frozen=True, slots=True)
class VmHost:
    """`port` on this machine's loopback leads to its sshd; `pid` is its QEMU (0: not started yet)."""

    number: int
    port: int = 0
    host_key: str = ""
    key: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        return f"vm-{self.number}"

    @property
    def folder(self) -> Path:
        return RUN_DIR / self.name

    @property
    def console(self) -> Path:
        return self.folder / "console"

    @property
    def monitor(self) -> Path:
        """The socket of its QMP."""
        return self.folder / "qmp"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def spec(self) -> HostSpec:
        return HostSpec(address="127.0.0.1", port=self.port, user=USER, become="sudo", host_key=self.host_key)

    def login(self, user: str = USER) -> Login:
        become: Become = None if user == "root" else "sudo"
        return Login(
            "127.0.0.1", user, host_key=self.host_key, client_keys=(self.key,), port=self.port, config=(),
            become=become, connect_timeout_s=30.0,
        )  # fmt: skip

    def with_pid(self, pid: int) -> "VmHost":
        return replace(self, pid=pid)

    def write(self) -> None:
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {self.host_key}\n", encoding="utf-8")
        fresh = self.folder / "host.json.new"
        fresh.write_text(json.dumps(asdict(self)), encoding="utf-8")
        fresh.rename(self.folder / "host.json")

    def last_lines(self) -> str:
        """What its console said last, and QEMU itself."""
        texts = (p.read_text("utf-8", errors="replace") for p in (self.console, self.console.with_suffix(".qemu"))
                 if p.exists())  # fmt: skip
        lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
        return "; ".join(lines[-3:]) or "its console says nothing"


def recorded() -> list[VmHost]:
    """Every machine that has a folder here, by number; of one whose start was cut off only the number is known."""
    folders = RUN_DIR.glob("vm-*") if RUN_DIR.is_dir() else ()
    return sorted((_read(folder) for folder in folders), key=lambda host: host.number)


def _read(folder: Path) -> VmHost:
    try:
        return VmHost(**json.loads((folder / "host.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return VmHost(int(folder.name.removeprefix("vm-")))
