"""Invariants that are looked at while it happens: at every change that is sent to a host, and at every append."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.history import stream_of
from flows.lease import subjects
from state.leases import SubjectLeased, SubjectReleased, lease_of
from state.store.port import NewEvent
from tasks.argv import FENCE
from tasks.hosts.port import Argv

if TYPE_CHECKING:
    from tests.simulation.orchestrator import Orchestrator
    from tests.simulation.world import World

_FENCED = "must grep -qxF -- "
_RENEWAL = "must systemctl restart -- interlock-revert-"


def changes(argv: Argv) -> bool:
    """Whether an argv changes a host; reads as root do not."""
    first = argv.words[0]
    if not argv.root or first not in ("systemd-run", "tee", "/bin/sh"):
        return False
    return first != "/bin/sh" or "grep -oE" not in argv.words[-1]


def script_of(argv: Argv) -> str:
    return argv.words[-1] if argv.words[-2:-1] == ("-c",) else ""


def number_of(argv: Argv) -> str | None:
    """The fencing number that a script compares with the host's, None for one that compares none."""
    for line in script_of(argv).splitlines():
        if line.startswith(_FENCED) and line.endswith(FENCE):
            return shlex.split(line)[-2]
    return None


def renews(argv: Argv) -> bool:
    return _RENEWAL in script_of(argv)


class Watch:
    """Looks at what an orchestrator is about to do. What is wrong goes into `world.broken`, which ends nothing."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def change(self, who: "Orchestrator", host: str, argvs: Sequence[Argv]) -> None:
        changing = [argv for argv in argvs if changes(argv)]
        if not changing:
            return
        await self._by_the_holder(who, host, changing)
        if not all(renews(argv) for argv in changing):
            await self._intended(who, host)
        self._one_at_once(host)

    async def appended(self, stream: str, after_version: int, events: Sequence[NewEvent]) -> None:
        """A lease passes from one rollout to another only by being given back."""
        if not stream.startswith(("host-", "service-lease-")):
            return
        held = lease_of((await self._world.store.read(stream))[:after_version])
        for event in events:
            rollout = event.data["rollout"]
            if event.type == SubjectLeased.wire and held.rollout not in ("", rollout):
                self._tell("one-holder", f"{stream} passes from {held.rollout} to {rollout}")
            if event.type == SubjectReleased.wire and held.rollout != rollout:
                self._tell("one-holder", f"{rollout} gives back {stream}, which {held.rollout or 'nobody'} holds")

    async def _by_the_holder(self, who: "Orchestrator", host: str, argvs: Sequence[Argv]) -> None:
        """A change is only sent by a rollout that holds the host, or it carries a number that the host refuses. Uploads
        replace nothing: their names hold a digest or the rollout."""
        stream = next(s for s, names in subjects(who.requested).items() if host in names)
        holder = lease_of(await self._world.store.read(stream)).rollout
        if holder == who.requested.rollout:
            return
        files = self._world.hosts[host].files
        carried = files.read(FENCE).decode().strip() if files.exists(FENCE) else ""
        for argv in argvs:
            if argv.words[0] != "tee" and number_of(argv) in (None, carried):
                self._tell("one-holder", f"{who.name} changes {host}, held by {holder or 'nobody'}: {argv.words[:2]}")

    async def _intended(self, who: "Orchestrator", host: str) -> None:
        """The newest attempt in the history has no fact yet."""
        for event in reversed(await self._world.store.read(stream_of(who.requested.rollout))):
            if event.type == "action-started":
                return
            if event.type not in ("cancel-requested", "rollout-resumed"):
                self._tell("intent-before-effect", f"{who.name} changes {host} after `{event.type}`")
                return

    def _one_at_once(self, host: str) -> None:
        """Two steps' units never run at once on a host."""
        services = self._world.hosts[host].systemd.services
        running = [n for n, s in services.items() if s.status.active == "activating" and n.startswith("interlock-")]
        steps = [n for n in running if not n.startswith(("interlock-revert-", "interlock-rebind-"))]
        if len(steps) > 1:
            self._tell("one-step-at-once", f"{host} runs {' and '.join(steps)}")

    def _tell(self, name: str, detail: str) -> None:
        self._world.broken.append(f"{name}: {detail}")
