"""Each call over a real SSH connection fails once, in turn: the host ends old or new, whichever call it was."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
import httpx
import pytest

from flows import requests
from flows.ports import Ports, utc_now
from flows.session import begin, resume
from state.manifest.load import load_manifest
from state.manifest.model import HostSpec
from state.rollout import Rollout
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from tasks.hosts.port import Argv, Completed, Host
from tasks.hosts.ssh import SshHost
from tasks.hosts.ssh_options import Login
from tasks.practice.scene import UNIT_FILE, USER, Scene, scene
from tasks.practice.sshd import PracticeSshd
from tests.flows.rehearsal import EVERY
from tests.practice.quick import QUICK

LATE_S = 0.2
STRIDE = 1 if EVERY else 12
"""Of the calls that one test goes through: `make moments` takes every one."""

WAYS = {
    "fails": ("promoted", "refused", "aborted", "rolled-back"),
    "cut-before": ("promoted",),
    "cut-after": ("promoted",),
    "late": ("promoted", "refused", "aborted", "rolled-back"),
}
"""What befalls a call, with the ends that the rollout may come to (docs/reference/failures.md)."""


@dataclass
class Trouble:
    """Befalls the `at`-th call of a rollout, in one of WAYS; 0 is none."""

    scene: Scene
    door: PracticeSshd
    way: str
    at: int
    calls: int = 0

    def befall(self, timeout_s: float) -> float:
        """The call is about to be made; how long it may take."""
        self.calls += 1
        if self.calls != self.at:
            return timeout_s
        match self.way:
            case "fails":
                self.scene.serving.faults.fail(lambda _words: True)
            case "cut-before":
                self.scene.serving.faults.cut_before(lambda _words: True)
            case "cut-after":
                self.door.lost_answers = 1
            case "late":
                self.door.stall()
                asyncio.get_running_loop().call_later(2 * LATE_S, self.door.resume)
                return LATE_S
        return timeout_s


@dataclass
class Troubled:
    """The SSH adapter, with that trouble before it."""

    inner: SshHost
    trouble: Trouble
    name: str = field(default="serving")

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        return await self.inner.run_all(argvs, timeout_s=self.trouble.befall(timeout_s))

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.inner.follow(argv)

    def transport(self) -> httpx.AsyncBaseTransport:
        return self.inner.transport()

    async def aclose(self) -> None:
        await self.inner.aclose()


@asynccontextmanager
async def troubled(folder: Path, way: str, at: int) -> AsyncIterator[tuple[Trouble, Ports, str]]:
    """A service in memory behind a real sshd; ports that reach it with the trouble, and its manifest."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = folder / "id_ed25519"
    key.write_private_key(str(path))
    public = key.export_public_key().decode().strip()
    async with (
        scene(None, over_ssh=False, settings=QUICK) as made,
        PracticeSshd(made.serving, users={USER}, authorized_keys=[public], in_memory=lambda: [made.port]) as door,
    ):
        await made.until_it_answers()
        trouble = Trouble(made, door, way, at)
        login = Login(
            door.address, USER, host_key=door.host_public_key, client_keys=[str(path)], become="sudo", config=()
        )

        def open_host(_name: str, _spec: HostSpec) -> Host:
            return Troubled(SshHost("serving", login), trouble)

        store, evidence = MemoryEventStore(utc_now), MemoryEvidenceStore()
        yield trouble, Ports(store, evidence, open_host, holder="first"), made.manifest(gpus=None, claims=[])


async def rolled_out(folder: Path, way: str, at: int) -> tuple[Rollout, int]:
    """How it ended, and how many calls it made. The host is old or new, and nothing is left on it."""
    async with troubled(folder, way, at) as (trouble, ports, text):
        files = trouble.scene.serving.files
        before = files.read(UNIT_FILE)
        requested = requests.from_manifest(ports, load_manifest(text, "m"), "rollout", "nth call")
        ended = await begin(ports, requested)
        if not ended.ended:  # what ends a proven rollout could not be done: that is the next session's
            assert ended.started("conclude:promoted"), (way, at)
            ended = await resume(ports, requested.rollout)
        assert ended.concluded is not None
        assert ended.concluded.outcome in WAYS[way], (way, at, ended.concluded.summary)
        assert ended.ended
        assert (files.read(UNIT_FILE) != before) == (ended.concluded.outcome == "promoted"), (way, at)
        if way == "late":
            await asyncio.sleep(2 * LATE_S)  # what came too late for its answer is under way by then
        kept = "interlock-revert" if way == "fails" else "interlock-"  # a host may refuse to forget results of steps
        systemd = trouble.scene.serving.systemd
        assert [name for name in (*systemd.timers, *systemd.services) if name.startswith(kept)] == [], (way, at)
        await trouble.scene.until_it_answers()
        return ended, trouble.calls


@pytest.mark.parametrize("way", WAYS)
async def test_whichever_call_it_befalls_the_host_ends_old_or_new(tmp_path: Path, way: str) -> None:
    """Until a whole rollout passes untouched: its calls are all that there are."""
    at, seen = 1, set()
    while True:
        ended, calls = await rolled_out(tmp_path, way, at)
        assert ended.concluded is not None
        seen.add(ended.concluded.outcome)
        if at > calls:
            break
        at += STRIDE
    assert at > 30
    assert "promoted" in seen
