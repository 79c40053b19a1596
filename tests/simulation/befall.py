"""What each fault does, at the round trip or append that it was drawn for."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from state.errors import HostUnreachable, StoreUnavailable
from tests.simulation.faults import Fault
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.orchestrator import Orchestrator

STORE_SLOW_FOR_S = 60.0

READERS = frozenset(
    ["cat", "df", "find", "grep", "journalctl", "ls", "readlink", "sha256sum", "ss", "stat", "systemd-analyze", "test"]
)
READING_VERBS = ("show", "cat")


def _changes(words: Sequence[str]) -> bool:
    """Whether an argv does more than read."""
    if words[0] == "systemctl":
        return words[1] not in READING_VERBS
    return words[0] not in READERS


class Befall:
    """`another` starts an orchestrator beside the one that a fault befalls: `recovers`, `takes-over`, `rival`."""

    def __init__(self, world: World, another: Callable[[str, "Orchestrator"], None]) -> None:
        self._world, self._another = world, another

    async def before_trip(self, who: "Orchestrator", fault: Fault, host: str) -> None:
        """Raises HostUnreachable for a connection that is cut before its argvs have any effect."""
        machine = self._world.hosts[host]
        match fault.kind:
            case "killed-before-trip":
                who.kill()
            case "killed-during-trip":
                self._later(fault.amount, who.kill)
            case "cancelled-at-trip":
                for again in range(int(fault.amount)):
                    self._later(again * 0.7, who.cancel)
            case "paused-at-trip":
                self._pause(who, fault.amount)
            case "cut-before-trip":
                raise HostUnreachable(host, "simulated", "connection reset by peer")
            case "cut-during-trip":
                self._later(fault.amount, machine.faults.drop)
            case "answer-delayed":
                await asyncio.sleep(fault.amount)
            case "network-away":
                self._network(fault.amount)
            case "argv-fails":
                machine.faults.fail_nth(int(fault.amount))
            case "change-fails":
                machine.faults.fail(_changes)
            case "hangs":
                machine.faults.hang(lambda _words: True)
            case _:
                await self._host(fault)

    async def _host(self, fault: Fault) -> None:
        serving, hypervisor = self._world.serving, self._world.hypervisor
        match fault.kind:
            case "rebooted":
                self._disturb()
                await serving.reboot()
            case "gpu-host-rebooted":
                self._disturb()
                self._world.gpus_booted_at = self._world.disturbed_at
                await hypervisor.reboot()
            case "stuck-processes":
                self._disturb()
                serving.faults.unkillable.update(serving.processes())
            case "disk-full" | "permission-lost":
                self._for_a_while(fault)

    def _for_a_while(self, fault: Fault) -> None:
        machines = tuple(self._world.hosts.values())

        def turn(on: bool) -> None:
            for machine in machines:
                if fault.kind == "disk-full":
                    machine.files.full = on
                else:
                    machine.faults.sudo_refused = on

        turn(True)
        self._later(fault.amount, lambda: turn(False))

    async def before_append(self, who: "Orchestrator", fault: Fault) -> None:
        """Raises StoreUnavailable for a store that is lost before it takes anything."""
        world = self._world
        match fault.kind:
            case "killed-before-append":
                who.kill()
                await who.gate()
            case "cancelled-at-append":
                who.cancel()
            case "paused-at-append":
                self._pause(who, fault.amount)
                await who.gate()
            case "clock-jumps":
                world.clock_ahead_s += fault.amount
            case "second-recovers":
                self._another("recovers", who)
            case "second-takes-over":
                self._another("takes-over", who)
            case "two-take-over":
                self._another("takes-over", who)
                self._another("takes-over", who)
            case "rival-rollout":
                self._another("rival", who)
            case "store-lost-before":
                raise StoreUnavailable("connection refused")
            case "store-away":
                self._away(fault.amount)
            case "store-slow":
                world.store_slow_s = fault.amount
                self._later(STORE_SLOW_FOR_S, lambda: setattr(world, "store_slow_s", 0.0))

    async def before_call(self, who: "Orchestrator", fault: Fault) -> None:
        """What befalls any call of the store. Raises StoreUnavailable for one that fails."""
        match fault.kind:
            case "store-away-late":
                self._away(fault.amount)
            case "store-call-fails":
                raise StoreUnavailable("connection reset by peer")
            case "killed-before-call":
                who.kill()
                await who.gate()

    async def after_call(self, who: "Orchestrator", fault: Fault) -> None:
        """The call has done what it was asked for."""
        if fault.kind == "store-answer-lost":
            raise StoreUnavailable("connection reset by peer")
        if fault.kind == "killed-after-call":
            who.kill()
            await who.gate()

    def _away(self, seconds: float) -> None:
        self._world.store_away = True
        self._later(seconds, lambda: setattr(self._world, "store_away", False))

    def _pause(self, who: "Orchestrator", seconds: float) -> None:
        who.going.clear()
        self._later(seconds, who.going.set)

    def _network(self, seconds: float) -> None:
        for machine in self._world.hosts.values():
            machine.faults.cut()
            self._later(seconds, machine.faults.restore)

    def _disturb(self) -> None:
        """Whatever was proven before this moment may no longer be so."""
        self._world.disturbed_at = self._world.serving.clock.now()

    def _later(self, seconds: float, act: Callable[[], Any]) -> None:
        asyncio.get_running_loop().call_later(seconds, act)
