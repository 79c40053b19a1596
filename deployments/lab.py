"""The lab's commands: container hosts brought up, listed, entered and taken down."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from deployments import lab_vm
from deployments.run import print_json
from state.errors import StepFailed
from tasks.lab import container, lab, needs
from tasks.lab.layer import USER, Furnishing
from tasks.lab.record import LabHost, recorded


async def up(console: Console, count: int, *, install: bool, as_json: bool) -> int:
    """Bring hosts up until `count` run. Raises Refused where this machine lacks something, StepFailed."""
    if install:
        needs.install()
    needs.refuse_unless_able()
    lab.reap()
    wanted = count - len(lab.running())
    if wanted > 0:
        print(f"booting {wanted} (the first ever takes minutes: it makes the Debian tree)", file=sys.stderr)
        await lab.up([Furnishing()] * wanted)
    return status(console, as_json=as_json)


def down(console: Console, names: Sequence[str], *, as_json: bool) -> int:
    """End the named hosts, or all, and clear away what crashed ones left."""
    containers = [name for name in names if not lab_vm.is_vm(name)]
    machines = [name for name in names if lab_vm.is_vm(name)]
    ended = [host.name for host in lab.down(containers)] if containers or not names else []
    ended += [host.name for host in lab_vm.down(machines)] if machines or not names else []
    if as_json:
        print_json(ended)
    else:
        console.print(f"ended {', '.join(ended)}" if ended else "there is no container host")
    return 0


def status(console: Console, *, as_json: bool) -> int:
    hosts = recorded()
    if as_json:
        print_json([*(_json(host) for host in hosts), *lab_vm.listed()])
        return 0
    for host in hosts:
        state = "runs" if container.alive(host) else "does not run: `interlock lab down` clears it away"
        console.print(f"{host.name}  {host.address}  {state}")
        if container.alive(host):
            console.print(f"  INTERLOCK_SSH_KEY={host.key} interlock apply {host.manifest}", soft_wrap=True)
    lab_vm.show(console)
    if not hosts:
        console.print("there is no container host: `interlock lab up` brings one up")
    return 0


def ssh(name: str, argv: Sequence[str]) -> int:
    """Become the OpenSSH client, logged in as interlock's own user. Raises NotFound, StepFailed."""
    if lab_vm.is_vm(name):
        lab_vm.ssh(name, argv)
    host = lab.find(name)
    if not container.alive(host):
        raise StepFailed("lab-ssh", f"{name} does not run", hint="`interlock lab down` clears it away")
    words = ["ssh", "-F", "none", "-i", str(host.key), "-o", "IdentitiesOnly=yes"]
    words += ["-o", f"UserKnownHostsFile={host.folder / 'known_hosts'}", f"{USER}@{host.address}"]
    sys.stdout.flush()
    os.execvp("ssh", [*words, *(["--", shlex.join(argv)] if argv else [])])


def _json(host: LabHost) -> Mapping[str, Any]:
    return {
        "name": host.name,
        "running": container.alive(host),
        "address": host.address,
        "port": host.spec.port,
        "user": host.spec.user,
        "host_key": host.host_key,
        "key": str(host.key),
        "manifest": str(host.manifest),
        "pid": host.pid,
    }
