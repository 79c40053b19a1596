"""The driver map at boot: udev rules that keep PCI functions for vfio-pci, by address only.

The facts are udev(7)'s and 80-drivers.rules' (systemd): files are read in the order of their names; ATTR is written
while rules are read, RUN is done after the last of them; a device's module is loaded by RUN. A driver that is loaded
takes every unbound function it fits, so the overrides of all functions are written with the first PCI device that udev
meets, whichever it is.
"""

import re
from collections.abc import Iterable

from state.canonical import sha256_hex
from state.observation import Observation, ObservedFile
from state.revision import Revision
from state.steps import VFIO, FileChange, FileState

FOLDER = "/etc/udev/rules.d"
DEVICES = "/sys/bus/pci/devices"
_PREFIX = "61-interlock-"
_KEPT = re.compile(r'ATTR\{\[pci/([0-9a-f:.]+)\]driver_override\}="vfio-pci"')


def path_of(service: str) -> str:
    """Before 80-drivers.rules, by its name; one file for each service."""
    return f"{FOLDER}/{_PREFIX}{service}.rules"


def is_ours(path: str) -> bool:
    """Whether a file is interlock's, of whichever service."""
    return path.startswith(f"{FOLDER}/{_PREFIX}") and path.endswith(".rules")


def kept_by(text: str) -> frozenset[str]:
    """The addresses that a file of interlock's keeps for vfio-pci."""
    return frozenset(_KEPT.findall(text))


def boot_change(desired: Revision, observed: Observation) -> tuple[FileChange, ...]:
    """What becomes of the file: nothing where the manifest has no map, or the file is as wanted."""
    if not desired.drivers or desired.gpu_host is None:
        return ()
    path = path_of(desired.service)
    after = FileState(path=path, digest=next(iter(boot_texts(desired, observed)), None))
    before = (observed.boot or ObservedFile(path=path, digest=None)).as_state(after)
    same = before == after if after.digest else before.digest is None
    return () if same else (FileChange(before=before, after=after),)


def boot_texts(desired: Revision, observed: Observation) -> dict[str, str]:
    """The file's text by its digest; empty where there shall be no file."""
    text = rules(desired.service, guests(desired, observed)) if desired.persist == "boot" else None
    return {sha256_hex(text.encode()): text} if text else {}


def guests(desired: Revision, observed: Observation) -> frozenset[str]:
    """The functions that the map has on vfio-pci, and those that go with them."""
    mapped = {address for address, driver in desired.drivers.items() if driver == VFIO}
    along = {m.address for gpu in observed.gpus if gpu.address in mapped for m in gpu.companions()}
    return frozenset(mapped | (along - desired.drivers.keys()))


def rules(service: str, addresses: Iterable[str]) -> str | None:
    """The file's text for the functions that belong to a guest; None where there are none.

    A function that has a driver is left with it: udev's `add` may also be triggered long after the boot.
    """
    kept = sorted(set(addresses))
    if not kept:
        return None
    lines = (
        f"# By interlock, for the service {service}: its manifest says `persist: boot`.",
        "# These functions are kept for vfio-pci; one that has a driver already is left with it.",
        'ACTION!="add", GOTO="interlock_end"',
        'SUBSYSTEM!="pci", GOTO="interlock_end"',
        *(_override(address) for address in kept),
        f'KERNEL!="{"|".join(kept)}", GOTO="interlock_end"',
        f'TEST!="driver", RUN{{builtin}}+="kmod load {VFIO}"',
        """TEST!="driver", RUN{program}+="/bin/sh -c 'echo $kernel > /sys/bus/pci/drivers_probe'\"""",
        'LABEL="interlock_end"',
    )
    return "".join(f"{line}\n" for line in lines)


def _override(address: str) -> str:
    device = f"{DEVICES}/{address}"
    return f'TEST=="{device}", TEST!="{device}/driver", ATTR{{[pci/{address}]driver_override}}="{VFIO}"'
