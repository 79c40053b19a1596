"""The lab's commands for virtual machine hosts, which have a kernel, PCI functions and an IOMMU of their own."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rich.console import Console

from deployments.run import print_json
from state.errors import StepFailed
from tasks.lab import needs, vm, vm_image, vm_lab
from tasks.lab.layer import USER
from tasks.lab.vm_record import VmHost, recorded


def is_vm(name: str) -> bool:
    return name.startswith("vm-")


async def up(console: Console, *, install: bool, as_json: bool) -> int:
    """Start one machine if none runs. Raises Refused where this machine lacks something, StepFailed."""
    if install:
        needs.install(vm_image.PACKAGES)
    vm_image.refuse_unless_able()
    for host in recorded():
        if not vm.alive(host):
            vm_lab.down_one(host)
    if not vm_lab.running():
        print("starting it (the first ever is booted, and its memory saved: a minute or two)", file=sys.stderr)
        await vm_lab.up()
    if as_json:
        print_json(listed())
    else:
        show(console)
    return 0


def show(console: Console) -> None:
    for host in recorded():
        state = "runs" if vm.alive(host) else "does not run: `interlock lab down` clears it away"
        console.print(f"{host.name}  127.0.0.1:{host.port}  {state}")
        if vm.alive(host):
            console.print(f"  key {host.key}, host key {host.host_key}", soft_wrap=True)


def listed() -> list[Mapping[str, Any]]:
    return [
        {
            "name": host.name,
            "running": vm.alive(host),
            "address": "127.0.0.1",
            "port": host.port,
            "user": USER,
            "host_key": host.host_key,
            "key": host.key,
            "pid": host.pid,
        }
        for host in recorded()
    ]


def down(names: Sequence[str] = ()) -> list[VmHost]:
    return vm_lab.down(names)


def ssh(name: str, argv: Sequence[str]) -> NoReturn:
    """Become the OpenSSH client, logged in as interlock's own user. Raises NotFound, StepFailed."""
    host = vm_lab.find(name)
    if not vm.alive(host):
        raise StepFailed("lab-ssh", f"{name} does not run", hint="`interlock lab down` clears it away")
    words = ["ssh", "-F", "none", "-i", host.key, "-o", "IdentitiesOnly=yes", "-p", str(host.port)]
    words += ["-o", f"UserKnownHostsFile={host.known_hosts}", f"{USER}@127.0.0.1"]
    sys.stdout.flush()
    os.execvp("ssh", [*words, *(["--", shlex.join(argv)] if argv else [])])
