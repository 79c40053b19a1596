"""A virtual machine host as the hypervisor of a rollout, whose service runs on a practice host beside it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from flows import requests
from flows.ports import Ports, Watch
from flows.session import begin
from flows.settings import Settings
from flows.wiring import wired
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store.migrate import upgrade
from state.store.port import RecordedEvent
from tasks.hosts.port import Argv
from tasks.hosts.ssh import SshHost
from tasks.lab import vm
from tasks.lab.vm_record import VmHost
from tasks.practice.scene import UNIT, Scene, scene

RESET = """
import os, pathlib, subprocess, sys
devices = pathlib.Path("/sys/bus/pci/devices")
subprocess.run("pkill -f /root/hold.py; rm -rf /var/lib/interlock/quarantine", shell=True)
for address in sys.argv[1:]:
    device = devices / address
    if (device / "driver_override").read_text() == "(null)\\n":
        continue
    (device / "driver_override").write_text("\\n")
    if (device / "driver").exists():
        (device / "driver/unbind").write_text(address)
    (devices.parent / "drivers_probe").write_text(address)
"""
"""Python for the machine: every function back on the driver that the kernel chooses."""

HOLD = """
import fcntl, os, struct, sys, time
address, wanted, how = sys.argv[1:4]
link = "/sys/bus/pci/devices/" + wanted + "/driver"
while not (os.path.islink(link) and os.readlink(link).endswith("/vfio-pci")):
    time.sleep(0.01)
number = os.path.basename(os.readlink("/sys/bus/pci/devices/" + address + "/iommu_group"))
group = os.open("/dev/vfio/" + number, os.O_RDWR)
if how == "device":
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    fcntl.ioctl(group, 0x3B68, struct.pack("i", container))
    fcntl.ioctl(container, 0x3B66, 1)
    fcntl.ioctl(group, 0x3B6A, bytearray(address.encode() + b"\\0"), True)
print("held", flush=True)
time.sleep(3600)
"""
"""Python for the machine: open a function's vfio group (`device`: the function too) once another is on vfio-pci."""

EVERY = (*vm.PAIR, *vm.SINGLES, vm.MIXED)


@dataclass
class Machine:
    """The virtual machine, a way in as the user `interlock`, and one past it. A handshake takes seconds there."""

    known: VmHost
    host: SshHost
    backdoor: SshHost

    async def root(self, *words: str, stdin: bytes = b"") -> str:
        (done,) = await self.backdoor.run_all([Argv(words, stdin=stdin)], timeout_s=60.0)
        return done.text

    async def reset(self) -> None:
        await self.root("python3", "-", *EVERY, stdin=RESET.encode())

    async def drivers(self, *addresses: str) -> list[str | None]:
        found = json.loads(await self.root("python3", "-", *addresses, stdin=_DRIVERS.encode()))
        return [found[address] for address in addresses]

    async def move(self, address: str, driver: str) -> None:
        await self.root("sh", "-s", address, driver, stdin=_MOVE.encode())

    async def hold(self, address: str, *, once: str, how: str) -> None:
        """Start a process that will hold a function."""
        await self.root("tee", "/root/hold.py", stdin=HOLD.encode())
        words = ("systemd-run", "--quiet", "--collect", "python3", "/root/hold.py", address, once, how)
        await self.root(*words)

    async def until_held(self) -> None:
        """Wait until that process says that it has it."""
        follow = "journalctl --follow --lines=all --output=cat _COMM=python3 | grep -q -m1 ^held"
        await self.root("timeout", "50", "sh", "-c", follow)

    async def group(self, address: str) -> str:
        return (await self.root("readlink", f"/sys/bus/pci/devices/{address}/iommu_group")).strip().rpartition("/")[2]


@asynccontextmanager
async def reached(known: VmHost) -> AsyncIterator[Machine]:
    made = Machine(known, SshHost(known.name, known.login()), SshHost(known.name, known.login("root")))
    try:
        yield made
    finally:
        await made.host.aclose()
        await made.backdoor.aclose()


_DRIVERS = """
import json, os, sys
links = {a: "/sys/bus/pci/devices/" + a + "/driver" for a in sys.argv[1:]}
print(json.dumps({a: os.path.basename(os.readlink(l)) if os.path.islink(l) else None for a, l in links.items()}))
"""
_MOVE = """
echo "$2" > /sys/bus/pci/devices/$1/driver_override
echo "$1" > /sys/bus/pci/devices/$1/driver/unbind
echo "$1" > /sys/bus/pci/drivers_probe
"""


@dataclass
class Pair:
    """Serving host and hypervisor, one orchestrator's store."""

    scene: Scene
    machine: Machine
    folder: Path

    async def enter(self, machine: Machine) -> None:
        """Have the orchestrator's key taken by the machine, which forgets it at a boot."""
        assert self.scene.key is not None
        public = await asyncio.to_thread(_public, self.scene.key)
        await machine.root("tee", "-a", "/home/interlock/.ssh/authorized_keys", stdin=public.encode())
        self.machine = machine

    async def roll_out(
        self,
        drivers: Mapping[str, Sequence[str]],
        watch: Callable[[Rollout, RecordedEvent], None] | None = None,
        persist: str = "none",
    ) -> tuple[Rollout, list[Mapping[str, Any]]]:
        """A rollout that wants this map; its end, and the facts of its rebinding steps."""
        gpus = {"host": "hypervisor", "drivers": {"nvidia": None, "vfio-pci": None, **drivers}, "persist": persist}
        manifest = load_manifest(self.scene.manifest(gpus=gpus, policy={"timer": "300s"}), "manifest.yaml")
        events: list[RecordedEvent] = []

        def recorded(rollout: Rollout, event: RecordedEvent) -> None:
            events.append(event)
            if watch is not None:
                watch(rollout, event)

        async with self.ports(Watch(recorded=recorded)) as ports:
            ended = await begin(ports, requests.from_manifest(ports, manifest, "rollout", "practice"))
        return ended, [e.data["facts"] for e in events if "after" in e.data.get("facts", {})]

    @asynccontextmanager
    async def ports(self, watch: Watch | None = None) -> AsyncIterator[Ports]:
        settings = Settings(data_dir=self.folder, ssh_key=str(self.scene.key), ssh_config="", generation_s=10.0)
        await upgrade(settings.store_url)
        async with wired(settings, watch) as (ports, _):
            yield ports

    async def serves(self) -> bool:
        await self.scene.until_it_answers()
        shown = await self.scene.serving.execute(("systemctl", "is-active", UNIT), user="root")
        return shown.text.strip() == "active"


@asynccontextmanager
async def paired(machine: Machine, folder: Path) -> AsyncIterator[Pair]:
    async with scene(folder / "scene") as made:
        made.specs = {**made.specs, "hypervisor": machine.known.spec}
        pair = Pair(made, machine, folder / "data")
        await pair.enter(machine)
        await made.until_it_answers()
        yield pair


def _public(key: Path) -> str:
    return asyncssh.read_private_key(str(key)).export_public_key().decode()
