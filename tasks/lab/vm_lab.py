"""Virtual machine hosts brought up, listed and taken down."""

import asyncio
import shutil
from collections.abc import Sequence

from state.errors import NotFound, Refused
from tasks.lab import vm
from tasks.lab.record import RUN_DIR
from tasks.lab.tree import lab_dir
from tasks.lab.vm_image import Image, ensure_image
from tasks.lab.vm_record import MOST, VmHost, recorded
from tasks.practice.scene import free_port


async def up(*, tied: bool = False) -> VmHost:
    """Start one new machine. Raises Refused if this machine cannot, StepFailed if it does not come up: none is left."""
    image = await asyncio.to_thread(ensure_image, lab_dir())
    host = _claim(image)
    started = False
    try:
        known = await vm.start(host, image, tied=tied)
        started = True
    finally:
        if not started:
            shutil.rmtree(host.folder, ignore_errors=True)
    return known


def down(names: Sequence[str] = ()) -> list[VmHost]:
    """End the named machines, or all, and what crashed ones left. Raises NotFound before anything is done."""
    hosts = [find(name) for name in names] or recorded()
    for host in hosts:
        down_one(host)
    return hosts


def down_one(host: VmHost) -> None:
    vm.end(host)
    shutil.rmtree(host.folder, ignore_errors=True)


def find(name: str) -> VmHost:
    """Raises NotFound."""
    for host in recorded():
        if host.name == name:
            return host
    raise NotFound("virtual machine host", name, hint="`interlock lab status` lists them")


def running() -> list[VmHost]:
    return [host for host in recorded() if vm.alive(host)]


def _claim(image: Image) -> VmHost:
    """The first number that is free; its folder, made by us alone, is the claim."""
    RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    for number in range(1, MOST + 1):
        try:
            VmHost(number).folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return VmHost(number, free_port(), image.host_key, str(image.key))
    raise Refused(f"There are {MOST} virtual machine hosts already", hint="`interlock lab down` ends them")
