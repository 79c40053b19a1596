"""What is known of a container host: its number gives its name, its address and its place."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from state.manifest.model import HostSpec
from tasks.lab.layer import USER

RUN_DIR = Path("/run/interlock-lab")
"""One folder for each host; gone with a reboot, as the hosts are."""

MOST = 250
"""Hosts at once on one machine: the third byte of their addresses."""


@dataclass(frozen=True, slots=True)
class LabHost:
    """`pid` is that of its supervisor (0: not booted yet); `host_key` its public key."""

    number: int
    host_key: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        return f"lab-{self.number}"

    @property
    def folder(self) -> Path:
        return RUN_DIR / self.name

    @property
    def link(self) -> str:
        """This machine's end of the wire to it."""
        return f"ilab{self.number}"

    @property
    def outside(self) -> str:
        return f"198.18.{self.number}.1"

    @property
    def address(self) -> str:
        """Of the block that RFC 2544 keeps for test networks."""
        return f"198.18.{self.number}.2"

    @property
    def key(self) -> Path:
        """The private key that its user `interlock` lets in."""
        return self.folder / "id_ed25519"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.yaml"

    @property
    def spec(self) -> HostSpec:
        return HostSpec(address=self.address, user=USER, become="sudo", host_key=self.host_key)

    def with_pid(self, pid: int) -> "LabHost":
        return replace(self, pid=pid)

    def write(self) -> None:
        (self.folder / "host.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def recorded() -> list[LabHost]:
    """Every host that has a folder here, by number; of one whose boot was cut off only the number is known."""
    folders = RUN_DIR.glob("lab-*") if RUN_DIR.is_dir() else ()
    return sorted((_read(folder) for folder in folders), key=lambda host: host.number)


def _read(folder: Path) -> LabHost:
    number = int(folder.name.removeprefix("lab-"))
    try:
        return LabHost(**json.loads((folder / "host.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return LabHost(number)
