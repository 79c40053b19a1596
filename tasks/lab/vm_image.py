"""The virtual machine's kernel and root file system: made once from the container hosts' tree, kept beside it.

The whole system is unpacked into memory from the kernel's initial RAM file system: no disk, so that a machine's saved
memory is all there is of it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from state.errors import Refused
from tasks.lab.layer import USER
from tasks.lab.needs import missing_packages
from tasks.lab.tree import ensure_tree

PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "cpio": "cpio",
    "depmod": "kmod",
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
}
"""Program -> the package of Debian that has it."""

KERNEL = "linux-image-amd64"
MODULES = ("virtio_pci", "virtio_net", "virtio_rng", "e1000e", "e1000", "snd_hda_intel", "vfio_pci", "vfio_iommu_type1")
"""Loaded at boot, in this order: there is no udev that would load them by need."""

MASKED = (
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "getty.target",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@ttyS0.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-random-seed.service",
    "systemd-update-done.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)
"""Units that only take time: an emulated processor is 10 to 20 times slower than the one it runs on."""

NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/perl", "var/lib/apt")
_NETWORK = """#!/bin/sh
set -e
ip link set lo up
for path in /sys/bus/pci/devices/0000:00:02.0/virtio*/net/*; do
    ip address add 10.0.2.15/24 dev "${path##*/}"
    ip link set "${path##*/}" up
done
"""
_NETWORK_UNIT = """[Unit]
DefaultDependencies=no
Requires=systemd-modules-load.service
After=systemd-modules-load.service
Before=network.target
Wants=network.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-network

[Install]
WantedBy=multi-user.target
"""
BUILD_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Image:
    """A folder of the cache. `key` lets `interlock` and root in; `host_key` is the machine's own public key."""

    folder: Path

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def key(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def host_key(self) -> str:
        return (self.folder / "host_key.pub").read_text(encoding="utf-8").strip()

    def state(self, machine: str) -> Path:
        """Where the memory of a booted machine is kept; `machine` names all that it was booted with."""
        return self.folder / f"state-{hashlib.sha256(machine.encode()).hexdigest()[:12]}"


def refuse_unless_able() -> None:
    """Raises Refused with one sentence that names all that is missing here."""
    missing = [] if os.geteuid() == 0 else ["root"]
    missing += [f"the Debian package {package}" for package in missing_packages(PACKAGES)]
    if missing:
        raise Refused(
            f"A virtual machine host needs {', '.join(missing)}, not to be found here",
            hint="run as root; `interlock lab up --pci --install` installs the packages with apt-get",
        )


def ensure_image(directory: Path) -> Image:
    """The image; it is made if it is not there, which takes about a minute. Raises Refused."""
    refuse_unless_able()
    tree = ensure_tree(directory)
    package = kernel_package(_run(("apt-cache", "depends", KERNEL)))
    recipe = repr((tree.name, package, MODULES, MASKED, NOT_NEEDED, _NETWORK, _NETWORK_UNIT)).encode()
    image = Image(directory / f"vm-{hashlib.sha256(recipe).hexdigest()[:12]}")
    with (directory / "vm-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one builder at a time; the lock goes with its process
        if not image.folder.exists():
            _build(image, tree, package)
    return image


def kernel_package(depends: str) -> str:
    """The package that the newest kernel's name stands for, from `apt-cache depends`. Raises Refused."""
    found = re.search(r"Depends: (linux-image-\d\S*)", depends)
    if found is None:
        raise Refused(f"apt knows no {KERNEL}, whose kernel the virtual machine boots", hint="add Debian's sources")
    return found[1]


def _build(image: Image, tree: Path, package: str) -> None:
    """Build beside the final place and rename, so that a build that was cut off is no image."""
    fresh = image.folder.with_name(f"{image.folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    root, kernel = fresh / "root", fresh / "kernel"
    _run(("cp", "--archive", "--reflink=auto", str(tree), str(root)))
    for path in NOT_NEEDED:
        shutil.rmtree(root / path, ignore_errors=True)
    _unpack_kernel(package, kernel)
    _add_modules(kernel, root)
    _configure(root)
    _add_keys(Image(fresh), root)
    shutil.copy(next((kernel / "boot").glob("vmlinuz-*")), fresh / "vmlinuz")
    _run(("sh", "-c", 'cd "$1" && find . -print0 | cpio --null --create --format=newc --quiet', "sh", str(root)),
         output=fresh / "initrd")  # fmt: skip
    shutil.rmtree(root)
    shutil.rmtree(kernel)
    fresh.rename(image.folder)


def _unpack_kernel(package: str, into: Path) -> None:
    into.mkdir()
    _run(("apt-get", "--quiet", "download", package), cwd=into)
    _run(("dpkg-deb", "--extract", str(next(into.glob("*.deb"))), str(into)))


def _add_modules(kernel: Path, root: Path) -> None:
    """Copy the modules that are loaded, with those that they need, out of some thousands."""
    (source,) = (kernel / "lib/modules").iterdir()
    _run(("depmod", "--basedir", str(kernel), source.name))
    target = root / "lib/modules" / source.name
    for name in needed((source / "modules.dep").read_text(encoding="utf-8"), MODULES):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(source / name, target / name)
    _run(("depmod", "--basedir", str(root), source.name))
    _put(root, "etc/modules-load.d/lab.conf", "".join(f"{name}\n" for name in MODULES))


def needed(dependencies: str, modules: Iterable[str]) -> list[str]:
    """The files of `modules` and of what they depend on, from the text of a `modules.dep`, sorted."""
    table = {name: rest.split() for name, _, rest in (line.partition(":") for line in dependencies.splitlines())}
    files = {Path(name).name.partition(".")[0].replace("-", "_"): name for name in table}
    return sorted({path for module in modules for path in (files[module], *table[files[module]])})


def _configure(root: Path) -> None:
    (root / "init").symlink_to("sbin/init")
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    _put(root, "usr/local/sbin/lab-network", _NETWORK, 0o755)
    _put(root, "etc/systemd/system/lab-network.service", _NETWORK_UNIT)
    wanted = root / "etc/systemd/system/multi-user.target.wants/lab-network.service"
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.symlink_to("/etc/systemd/system/lab-network.service")
    _put(root, "etc/hostname", "lab-vm\n")
    _put(root, "etc/hosts", "127.0.0.1 localhost lab-vm\n")


def _add_keys(image: Image, root: Path) -> None:
    """One client key for `interlock` and root, one host key; both stay in the cache, as the saved memory holds them."""
    client, host = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    client.write_private_key(str(image.key))
    image.key.chmod(0o600)
    _put(root, "etc/ssh/ssh_host_ed25519_key", host.export_private_key().decode(), 0o600)
    public = host.export_public_key().decode().strip()
    (image.folder / "host_key.pub").write_text(f"{public}\n", encoding="utf-8")
    for home in ("root", f"home/{USER}"):
        owner = (root / home).stat()
        _put(root, f"{home}/.ssh/authorized_keys", client.export_public_key().decode(), 0o600)
        for path in (f"{home}/.ssh", f"{home}/.ssh/authorized_keys"):
            os.chown(root / path, owner.st_uid, owner.st_gid)
        (root / home / ".ssh").chmod(0o700)


def _put(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")
    (root / path).chmod(mode)


def _run(words: Sequence[str], *, cwd: Path | None = None, output: Path | None = None) -> str:
    environment: Mapping[str, str] = os.environ | {"LC_ALL": "C"}
    into = output.open("wb") if output else subprocess.PIPE
    try:
        done = subprocess.run(
            ("nice", "-n", "10", *words), cwd=cwd, env=environment, stdout=into, stderr=subprocess.PIPE,
            timeout=BUILD_TIMEOUT_S,
        )  # fmt: skip
    finally:
        if not isinstance(into, int):
            into.close()
    if done.returncode != 0:
        last = "; ".join(done.stderr.decode("utf-8", "replace").splitlines()[-2:])
        raise Refused(f"`{words[0]}` could not make the virtual machine's image: {last}")
    return (done.stdout or b"").decode("utf-8", "replace")
