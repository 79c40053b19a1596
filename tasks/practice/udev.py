"""What udev's rules do to PCI functions at the practice machine's boot: no more of udev than the overrides."""

import re

from tasks.practice.files import Files

FOLDER = "/etc/udev/rules.d"
_RULE = re.compile(
    r'TEST=="/sys/bus/pci/devices/([^"/]+)", TEST!="/sys/bus/pci/devices/\1/driver", '
    r'ATTR\{\[pci/\1\]driver_override\}="([\w-]+)"'
)


def overrides(files: Files) -> dict[str, str]:
    """Driver by address, as the rules have it for functions that have no driver yet; a later file prevails."""
    names = sorted(name for name in files.names(FOLDER) if name.endswith(".rules"))
    texts = [files.read(f"{FOLDER}/{name}").decode() for name in names]
    return {found[1]: found[2] for text in texts for line in text.splitlines() if (found := _RULE.fullmatch(line))}
