"""The simulated world: two practice hosts with a small engine, one store, one network, one wall clock.

Simulated are time (an event loop that never waits), the hosts (`tasks.practice`, in memory, without sshd), the engine
(`small_engine`) and its proofs (`small_proof`). Not simulated is anything of the product.
"""

import asyncio
import functools
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from flows.requests import from_manifest
from state.events import Event, RolloutRequested, decode
from state.manifest.load import load_manifest
from state.manifest.model import HostSpec
from state.rollout import Rollout, fold
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.port import RecordedEvent
from tasks.practice.host import PracticeMachine
from tasks.practice.pci import gpu
from tasks.practice.scene import manifest_text, seed_manifest
from tests.simulation.disks import Disk
from tests.simulation.faults import KINDS, Fault
from tests.simulation.small_engine import API_KEY, PORT, NoProgram, Script, SmallEngine
from tests.simulation.small_proof import Proofs

EPOCH = datetime(2026, 1, 5, 7, 0, tzinfo=UTC)
UNIT = "sglang-qwen.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
SERVICE = "qwen35-122b"
SERVING_GPU, GUEST_GPU = "0000:01:00.0", "0000:81:00.0"
PYTHON = "/opt/sglang/bin/python"
TIMER_S, LEASE_S = 60.0, 60.0
MACHINES = ("m1", "m2")
"""Whence rollouts are driven; mostly the first."""

OLD_UNIT = f"""[Unit]
Description=SGLang

[Service]
User=sglang
ExecStart={PYTHON} -m sglang.launch_server --model-path /models/m --host 127.0.0.1 --port {PORT} --api-key {API_KEY}
TimeoutStopSec=20

[Install]
WantedBy=multi-user.target
"""

SPECS = {
    "serving": HostSpec(address="llm-two.example", user="interlock", become="sudo"),
    "hypervisor": HostSpec(address="pve-one.example", user="interlock", become="sudo"),
}


@dataclass(frozen=True)
class HostState:
    """What must come back: the unit's file, drivers, and what runs."""

    unit_file: bytes | None
    drivers: Mapping[str, str | None]
    active: str
    argv: tuple[str, ...]


@functools.cache
def wanted() -> RolloutRequested:
    """The request that every simulated rollout makes, before its id and policy."""
    seed = seed_manifest(SPECS, PORT)
    seed["claims"] = []
    seed["gpus"] = {"host": "hypervisor", "drivers": {"nvidia": [SERVING_GPU], "vfio-pci": [GUEST_GPU]}}
    seed["readiness"] = {"timeout": "40s"}
    text = manifest_text(seed, {"tp_size": 1})
    given: Any = type("NoPorts", (), {"holder": "somebody"})
    return from_manifest(given, load_manifest(text, "manifest.yaml"), "rollout", "simulation")


class OnceReadStore(MemoryEventStore):
    """The store in memory, which parses each event once: in a simulation they are read again and again."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self._parsed: list[RecordedEvent] = []

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        parsed = self._all()
        return tuple(parsed[position - 1] for position in self._streams.get(stream, [])[max(0, after_version) :])

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return tuple(self._all()[max(0, after_position) :][:limit])

    def _all(self) -> list[RecordedEvent]:
        known = len(self._parsed)
        self._parsed += [sealed.recorded(position) for position, sealed in enumerate(self._log[known:], known + 1)]
        return self._parsed


@dataclass
class World:
    """One run: its hosts, its store, what was drawn for it, and what was found broken."""

    seed: int
    faults: tuple[Fault, ...]
    proofs: Proofs = field(default_factory=Proofs)
    broken: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    calm: bool = False
    clock_ahead_s: float = 0.0
    store_away: bool = False
    store_slow_s: float = 0.0
    disturbed_at: datetime = EPOCH
    gpus_booted_at: datetime | None = None
    """When the GPU host last came up anew, each function on its own driver again."""
    action: str = ""
    _histories: dict[str, tuple[list[Event], Rollout]] = field(default_factory=dict)
    litter: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.old_script, self.new_script = self._scripts()
        self.serving = PracticeMachine("llm-two", factory=self._engine, started=EPOCH)
        self.hypervisor = PracticeMachine(
            "pve-one", functions=[gpu(SERVING_GPU, 20), gpu(GUEST_GPU, 21)], started=EPOCH
        )
        self.serving.files.put(PYTHON, "", mode=0o755)
        self.serving.files.put(UNIT_FILE, OLD_UNIT)
        self.store = OnceReadStore(self.serving.clock.now)
        self.evidence = MemoryEvidenceStore()
        self.pending = [fault for fault in self.faults if fault.at]
        self.disks = {name: Disk(name) for name in MACHINES}
        self.hosts = {"serving": self.serving, "hypervisor": self.hypervisor}

    def _scripts(self) -> tuple[Script, Script]:
        told = {fault.kind: fault.amount for fault in self.faults if not fault.at}
        self.proofs.verdict = "refuted" if "refuted" in told else "open" if "open" in told else "held"
        both = {"stop_s": told.get("stops-slowly", 0.5), "deaf": "deaf" in told}
        crash = {name: int(told[name]) if name in told else None for name in ("new-crashes", "old-crashes")}
        new = Script(crash_at=crash["new-crashes"], dies_after_s=told.get("new-dies"), **both)
        return Script(crash_at=crash["old-crashes"], **both), new

    def _engine(self, argv: Sequence[str], _env: Mapping[str, str], machine: PracticeMachine) -> Any:
        if "sglang.launch_server" not in argv:
            return NoProgram(machine)
        if any(word.startswith("--speculative") for word in argv):
            return SmallEngine(machine, self.new_script)
        first = not self.counted["old starts"]
        self.counted["old starts"] += 1
        healthy = Script(stop_s=self.old_script.stop_s, deaf=self.old_script.deaf)
        return SmallEngine(machine, healthy if first or self.calm else self.old_script)

    def due(self, where: str, action: str = "") -> list[Fault]:
        """The faults of this moment, which happen once. `action` is what this moment is the one of, if it is."""
        self.counted[where] += 1
        if not self.pending or self.calm:
            return []
        here = [f for f in self.pending if KINDS[f.kind].where == where]
        found = [f for f in here if (f.action == action if f.action else f.at <= self.counted[where])]
        self.pending = [f for f in self.pending if f not in found]
        return found

    @property
    def pending_death(self) -> bool:
        """Whether somebody may be killed while a round trip is under way."""
        return any(fault.kind == "killed-during-trip" for fault in self.faults)

    def requested(self, name: str) -> RolloutRequested:
        """A request with a policy drawn for this run."""
        base = wanted()
        random = Random(f"{self.seed}-policy")
        policy = base.revision.policy.model_copy(
            update={
                "timer_s": random.choice((TIMER_S, TIMER_S, 4 * TIMER_S)),
                "soak_s": random.choice((0.0, 0.0, 5.0, 90.0)),
                "inconclusive": random.choice(("rollback", "rollback", "accept")),
            }
        )
        revision = base.revision.model_copy(update={"policy": policy})
        return base.model_copy(update={"rollout": name, "revision": revision})

    async def histories(self) -> dict[str, tuple[list[Event], Rollout]]:
        """The id of each rollout with its events and their fold."""
        for stream in await self.store.streams("rollout-"):
            events, rollout = self._histories.get(stream, ([], Rollout()))
            new = [decode(recorded) for recorded in await self.store.read(stream, len(events))]
            self._histories[stream] = [*events, *new], fold(new, rollout)
        return {stream.removeprefix("rollout-"): history for stream, history in self._histories.items()}

    async def rollouts(self) -> dict[str, Rollout]:
        return {name: rollout for name, (_, rollout) in (await self.histories()).items()}

    def now(self) -> datetime:
        """The wall clock of the orchestrators; the hosts have their own."""
        return self.serving.clock.now() + timedelta(seconds=self.clock_ahead_s)

    async def begin(self) -> None:
        """The old service runs."""
        self.serving.clock.elapsed()
        await self.serving.execute(("sudo", "-n", "--", "systemctl", "enable", "--", UNIT), user="interlock")
        await self.started()

    async def end_restoring(self) -> None:
        """A person ends what hangs in a host's own restoring, as the error of waiting for it says."""
        for machine in self.hosts.values():
            for name in self.ours(machine):
                if name.startswith("interlock-revert-"):
                    await machine.execute(("sudo", "-n", "--", "systemctl", "stop", "--", name), user="interlock")

    async def started(self) -> None:
        """A person starts the service, if it does not run, and waits for it."""
        await self.serving.execute(("sudo", "-n", "--", "systemctl", "start", "--", UNIT), user="interlock")
        await asyncio.sleep(10)

    def machine(self) -> str:
        """Where the next orchestrator runs, drawn for this run; the first one runs on the first machine."""
        self.counted["orchestrators"] += 1
        drawn = Random(f"{self.seed}-machine-{self.counted['orchestrators']}")
        return MACHINES[0] if self.counted["orchestrators"] == 1 else drawn.choices(MACHINES, (3, 1))[0]

    def heal(self) -> None:
        """Everything that was wrong with the world is over, and nothing new comes."""
        self.calm, self.store_away, self.store_slow_s = True, False, 0.0
        for machine in self.hosts.values():
            machine.faults.clear()
            machine.files.full = False

    def state(self) -> HostState:
        service = self.serving.systemd.services.get(UNIT)
        main = service.status.main_pid if service else 0
        files = self.serving.files
        return HostState(
            unit_file=files.read(UNIT_FILE) if files.exists(UNIT_FILE) else None,
            drivers={f.address: f.driver for f in self.hypervisor.pci.functions.values()},
            active=service.status.active if service else "inactive",
            argv=tuple(service.cgroup.members().get(main, ())) if service else (),
        )

    def ours(self, machine: PracticeMachine) -> list[str]:
        """The names of interlock's own units that systemd knows there."""
        every = [*machine.systemd.services, *machine.systemd.timers]
        return sorted(name for name in every if name.startswith("interlock-"))

    async def aclose(self) -> None:
        for machine in self.hosts.values():
            await machine.aclose()


def seeded_uuids(seed: int) -> Any:
    """Stands for `uuid.uuid4`: systemd's invocations and journald's boots are the seed's too."""
    random = Random(f"{seed}-uuids")
    return lambda: uuid.UUID(int=random.getrandbits(128), version=4)
