"""A boot of a virtual machine host as a hypervisor's: with udev, which loads the drivers, and with the rules it had.

The machine's disk is its memory, and its image has no udev. The image that is booted in its place has Debian's, of the
version of the machine's systemd, and the files of /etc/udev/rules.d that were on the machine; no other driver is loaded
by name than those that reach it.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tasks.lab import vm
from tasks.lab.tree import ensure_tree, lab_dir
from tasks.lab.vm_image import Image, ensure_image
from tasks.lab.vm_record import VmHost

RULES = "/etc/udev/rules.d"
LOADED = ("virtio_pci", "virtio_net", "virtio_rng")
KEPT_RULES = ("50-udev-default.rules", "80-drivers.rules")
"""Of udev's own: the others name disks, network interfaces and sound cards, which takes its time."""


async def rebooted(host: VmHost, folder: Path, rules: Mapping[str, str]) -> VmHost:
    """The machine after a power cut and a boot with udev and `rules` (text by name), once udev has nothing left to do.

    `folder` is ours; it takes the image.
    """
    image = await asyncio.to_thread(_image, folder, rules)
    known = await vm.power_cycle(host, image, tied=True)
    await vm.as_root(known, "udevadm", "settle", timeout_s=60.0)
    return known


def _image(folder: Path, rules: Mapping[str, str]) -> Image:
    """The image with a second archive behind its own, whose files the kernel unpacks over the first one's."""
    own, over = ensure_image(lab_dir()), folder / "over"
    shutil.rmtree(folder, ignore_errors=True)
    words = ("dpkg-query", f"--admindir={ensure_tree(lab_dir())}/var/lib/dpkg", "-W", "-f", "${Version}", "systemd")
    version = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    _unpack_udev(folder, over, version)
    (over / "etc/modules-load.d").mkdir(parents=True)
    (over / "etc/modules-load.d/lab.conf").write_text("".join(f"{name}\n" for name in LOADED), encoding="utf-8")
    (over / RULES.lstrip("/")).mkdir(parents=True)
    for name, text in rules.items():
        (over / RULES.lstrip("/") / name).write_text(text, encoding="utf-8")
    with (folder / "initrd").open("wb") as joined, own.initrd.open("rb") as first:
        shutil.copyfileobj(first, joined)
        joined.flush()
        script = "find . -print0 | cpio --null --create --format=newc --quiet --owner=0:0"
        subprocess.run(("sh", "-c", script), cwd=over, stdout=joined, timeout=60, check=True)
    (folder / "vmlinuz").symlink_to(own.kernel)
    return Image(folder)


def _unpack_udev(folder: Path, over: Path, version: str) -> None:
    """Its files below /usr, where Debian's links from /bin and /lib lead: a folder would take a link's place."""
    package = folder / "package"
    package.mkdir(parents=True)
    words = ("apt-get", "--quiet", "download", f"udev={version}")
    subprocess.run(words, cwd=package, capture_output=True, timeout=120, check=True)
    (deb,) = package.glob("*.deb")
    subprocess.run(("dpkg-deb", "--extract", str(deb), str(package / "root")), timeout=60, check=True)
    for part in ("bin", "lib"):
        if (package / "root" / part).exists():
            shutil.copytree(package / "root" / part, over / "usr" / part, symlinks=True)
    shutil.copytree(package / "root/usr", over / "usr", symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(over / "usr/share", ignore_errors=True)
    for found in (over / "usr/lib/udev/rules.d").iterdir():
        if found.name not in KEPT_RULES:
            found.unlink()
