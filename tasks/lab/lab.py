"""The lab: container hosts brought up, listed and taken down."""

import asyncio
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from state.errors import NotFound
from tasks.lab import cgroups, container
from tasks.lab.claim import claimed, held, take
from tasks.lab.layer import PORT, Furnishing, write_layer
from tasks.lab.needs import refuse_unless_able
from tasks.lab.record import LabHost, recorded
from tasks.lab.tree import ensure_tree, lab_dir
from tasks.practice.scene import manifest_text, seed_manifest

BURIAL_TIMEOUT_S = 5.0


async def up(furnishings: Sequence[Furnishing], *, tied: bool = False) -> list[LabHost]:
    """Boot one new host for each furnishing, all at once, and clear away what crashed ones left. Raises Refused if this
    machine cannot, StepFailed if one does not come up: then none is left."""
    refuse_unless_able()
    await asyncio.to_thread(reap)
    tree = await asyncio.to_thread(ensure_tree, lab_dir())
    with claimed(len(furnishings)) as hosts:
        booting = [asyncio.create_task(_boot(h, f, tree, tied)) for h, f in zip(hosts, furnishings, strict=True)]
        booted: list[LabHost] = []
        try:
            booted = list(await asyncio.gather(*booting))
        finally:
            if not booted:
                await _given_up(booting, hosts)
        return booted


async def _given_up(booting: Sequence[asyncio.Task[LabHost]], hosts: Sequence[LabHost]) -> None:
    for task in booting:
        task.cancel()
    await asyncio.gather(*booting, return_exceptions=True)
    for host in hosts:
        down_one(host)


async def _boot(host: LabHost, furnishing: Furnishing, tree: Path, tied: bool) -> LabHost:
    key = asyncssh.generate_private_key("ssh-ed25519")
    public = key.export_public_key().decode().strip()
    host_key = write_layer(host.folder / "layer", tree, host.name, public, furnishing)
    key.write_private_key(str(host.key))
    host.key.chmod(0o600)
    known = LabHost(host.number, host_key)
    (host.folder / "known_hosts").write_text(f"{host.address} {host_key}\n", encoding="utf-8")
    host.manifest.write_text(manifest(known), encoding="utf-8")
    booted = await container.boot(known, tree, tied=tied)
    booted.write()
    return booted


def down(names: Sequence[str] = ()) -> list[LabHost]:
    """End the named hosts, or all, and what crashed ones left; none of their processes is listed any more when it
    returns. Raises NotFound before anything is done."""
    if recorded():
        refuse_unless_able()
    hosts = [find(name) for name in names] or recorded()
    pids = {pid for host in hosts for pid in cgroups.processes(host.name)}
    for host in hosts:
        down_one(host)
    _buried(pids)
    return hosts


def _buried(pids: Collection[int]) -> None:
    """Wait for PID 1 to take note of processes that have ended: what takes that place in a container may need seconds
    (seen: 2), and they are listed as defunct till then. They hold nothing, so that BURIAL_TIMEOUT_S is no failure."""
    patience = Retrying(
        retry=retry_if_result(bool), wait=wait_fixed(0.02), stop=stop_after_delay(BURIAL_TIMEOUT_S),
        retry_error_callback=lambda _: None,
    )  # fmt: skip
    patience(lambda: [pid for pid in pids if _defunct_below_init(pid)])


def _defunct_below_init(pid: int) -> bool:
    """One whose parent is another process is that one's to bury (proc(5): field 3 is the state, 4 the parent)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2] == ["Z", "1"]
    except (FileNotFoundError, ProcessLookupError):
        return False


def down_one(host: LabHost) -> None:
    container.end(host)
    shutil.rmtree(host.folder, ignore_errors=True)


def find(name: str) -> LabHost:
    """Raises NotFound."""
    for host in recorded():
        if host.name == name:
            return host
    raise NotFound("container host", name, hint="`interlock lab status` lists them")


def reap() -> None:
    """Clear away every host that neither runs nor is being brought up: its boot was cut off, or it crashed."""
    for host in recorded():
        if not container.alive(host):
            with held(host) as ours:
                if ours and not container.alive(host):
                    down_one(host)


def clear(number: int, folder: int) -> None:
    """What a guard does last (tasks/lab/guard.py): clear away its host, unless its open folder is another's by now."""
    host = LabHost(number)
    if take(folder, host):
        down_one(host)


def running() -> list[LabHost]:
    return [host for host in recorded() if container.alive(host)]


def manifest(host: LabHost, arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """The seed's configuration as a manifest for this host, without GPUs to rebind: a container has none."""
    seed = seed_manifest({"serving": host.spec}, PORT)
    return manifest_text(seed, arguments, **{"gpus": None, **changes})
